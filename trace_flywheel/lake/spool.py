"""Lines of a draft on their way to its files: written in any order, by several processes, given back by their place.

Every process appends to files of its own. What one that was killed had begun is nobody's place and is never read.
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np

from trace_flywheel.lake.sidecar import LakeError


class Place(NamedTuple):
    """Where the lines of a row in one layout stand."""

    writer: int
    offset: int
    size: int
    lines: int
    crc: int
    """Of their bytes: what was judged when it was written is what is read."""


_PACKED = struct.Struct("<IQQII")
"""A `Place`, in a tenth of the memory."""


class Places:
    """Many of them, in their order."""

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._packed = bytearray().join(_PACKED.pack(*place) for place in places)

    def add(self, place: Place) -> None:
        self._packed += _PACKED.pack(*place)

    def __len__(self) -> int:
        return len(self._packed) // _PACKED.size

    def __iter__(self) -> Iterator[Place]:
        return map(Place._make, _PACKED.iter_unpack(self._packed))

    def part(self, start: int, end: int) -> "Places":
        """Those from `start` to before `end`."""
        made = Places()
        made._packed = self._packed[start * _PACKED.size : end * _PACKED.size]
        return made

    def taken(self, numbers: np.ndarray) -> "Places":
        """The ones with these numbers."""
        made = Places()
        made._packed = bytearray(np.frombuffer(self._packed, dtype=f"V{_PACKED.size}")[numbers].tobytes())
        return made


STANDS = 1 << 31
"""From here on a writer is no process but the number of a file that stands elsewhere (`adopt`)."""


def adopt(folder: Path, layout: str, number: int, path: Path) -> None:
    """Have the lines of a file of another version read as if they were spooled (`standing`). The file itself stays."""
    _path(folder, layout, STANDS + number).symlink_to(path.resolve())


def standing(place: Place) -> Place:
    """A place in a file by its number, as one in the spools of a draft that adopted it."""
    return place._replace(writer=STANDS + place.writer)


class Spools:
    """What this process writes of one draft, by layout. To be read once it is closed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._writer = folder, os.getpid()
        self._streams: dict[str, tuple[IO[bytes], list[int]]] = {}

    def add(self, layout: str, lines: Sequence[bytes]) -> Place:
        if any(b"\n" in line for line in lines):
            raise ValueError("a JSON line holds a line feed")
        block = b"\n".join((*lines, b"")) if lines else b""
        if layout not in self._streams:
            opened = _path(self._folder, layout, self._writer).open("ab")
            self._streams[layout] = opened, [opened.tell()]
        stream, at = self._streams[layout]
        stream.write(block)
        at[0] += len(block)
        return Place(self._writer, at[0] - len(block), len(block), len(lines), zlib.crc32(block))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with ExitStack() as stack:
            for stream, _ in self._streams.values():
                stack.callback(stream.close)
        self._streams.clear()


def spooled(folder: Path, layout: str, places: Iterable[Place]) -> Iterator[bytes]:
    """The lines of each place, as one. Raises `LakeError` where they are not what was written."""
    with ExitStack() as stack:
        streams: dict[int, IO[bytes]] = {}
        for place in places:
            if (stream := streams.get(place.writer)) is None:
                opened = _path(folder, layout, place.writer).open("rb")
                stream = streams[place.writer] = stack.enter_context(opened)
            stream.seek(place.offset)
            block = stream.read(place.size)
            if zlib.crc32(block) != place.crc:
                raise LakeError(f"{folder}: what was written to it changed before it was published")
            yield block


def unspool(folder: Path) -> None:
    """Remove what was written on the way."""
    for path in folder.glob("spool-*"):
        path.unlink()


def _path(folder: Path, layout: str, writer: int) -> Path:
    return folder / f"spool-{layout}-{writer}"
