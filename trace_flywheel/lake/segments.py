"""Standing indexes of training data: `lake/corpora/<corpus>/<key>/`, segments behind one pointer.

    state.json        what the corpus was when it was read, and its segments in order
    <digest>.segment  arrays one after the other, each on a 64-byte boundary; a JSON footer names them

`<corpus>` is a hash of where it stands, `<key>` one of how its rows are compared. A segment is written under a
temporary name, synced and renamed; it is named by its content and never changed. `state.json` is replaced last, and
segments that it no longer names are removed after it: a writer killed anywhere leaves the state before whole. A
segment whose size or time of change is not the recorded one is held against its digest before it is believed.
"""

import hashlib
import mmap
import os
import shutil
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from trace_flywheel.lake.files import (
    TEMPORARY,
    clear,
    make_folder,
    new_file,
    remove,
    replace_text,
    sweep_below,
    sync,
)
from trace_flywheel.lake.lock import locked
from trace_flywheel.lake.sidecar import LakeError

FORMAT = 1
FOLDER = "corpora"
KEYS_KEPT = 3
"""Ways of comparing that one corpus keeps an index for: of datasets, of `convert`, one more."""
ALIGNMENT = 64
_END = struct.Struct("<Q8s")
_MAGIC = b"FLYWSEG1"


class DamagedError(LakeError):
    """A segment or a state that is not what was written: it is made again from the corpus."""


class SegmentFile(msgspec.Struct, frozen=True):
    """A segment as it was written."""

    name: str
    rows: int
    size: int
    sha256: str
    mtime_ns: int


class State(msgspec.Struct, frozen=True):
    """The pointer of one corpus under one key."""

    format: int
    corpus: str
    """Its path, or `dataset:NAME@VERSION`: for people."""
    key: str
    source: dict[str, Any]
    """How the corpus is recognised and read on: the reader's own."""
    skipped: int
    """Lines of no known shape."""
    erased: str
    """Digest of the erased rows that are left out."""
    segments: tuple[SegmentFile, ...]

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


class Shelf:
    """The place of one corpus under one key."""

    def __init__(self, root: Path, corpus: str, key: str) -> None:
        """`root`: the lake. `corpus` and `key` are hashes."""
        self.folder = root / FOLDER / corpus / key

    def state(self) -> State | None:
        """The pointer, None where there is none. `DamagedError` where it cannot be read."""
        path = self.folder / "state.json"
        if not path.is_file():
            return None
        try:
            state = msgspec.json.decode(path.read_bytes(), type=State)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise DamagedError(f"{path}: damaged ({error}); the next refresh makes it again") from None
        return state if state.format == FORMAT else None

    def arrays(self, file: SegmentFile, thorough: bool = False) -> dict[str, np.ndarray]:
        """The arrays of a segment, mapped and read-only. `thorough`: hold it against its digest in any case.

        `DamagedError` where it is not what was written.
        """
        path = self.folder / file.name
        try:
            if not path.is_file():  # a pipe would never end
                raise FileNotFoundError
            with path.open("rb") as stream:
                found = os.fstat(stream.fileno())
                as_left = found.st_size == file.size and found.st_mtime_ns == file.mtime_ns
                if thorough or not as_left:
                    if hashlib.file_digest(stream, "sha256").hexdigest() != file.sha256:
                        raise DamagedError(f"{path}: damaged (its digest differs); the next refresh makes it again")
                    with suppress(OSError):  # a copy of the lake: known from now on
                        os.utime(path, ns=(found.st_atime_ns, file.mtime_ns))
                return _mapped(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            raise DamagedError(f"{path}: missing; the next refresh makes it again") from None

    def write(self, columns: Iterable[tuple[str, str, tuple[int, ...], Iterable[np.ndarray]]]) -> SegmentFile:
        """A segment of named arrays, durable but in no state yet. Its rows are those of the array `numbers`."""
        self._make()
        temporary = self.folder / f"{TEMPORARY}{os.getpid()}-{time.monotonic_ns()}"
        digest, rows = hashlib.sha256(), 0
        try:
            with new_file(temporary) as stream:
                at, listed = 0, []
                for name, dtype, shape, pieces in columns:
                    listed.append([name, dtype, shape, at + -at % ALIGNMENT])
                    rows = shape[0] if name == "numbers" else rows
                    for data in chain([np.zeros(-at % ALIGNMENT, np.uint8)], pieces):
                        view = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
                        digest.update(view)
                        at += stream.write(view)
                footer = msgspec.json.encode(listed)
                footer += _END.pack(len(footer), _MAGIC)
                digest.update(footer)
                size = at + stream.write(footer)
            sha256 = digest.hexdigest()
            final = self.folder / f"{sha256[:16]}.segment"
            sync([temporary])
            clear(final, folder=False)
            temporary.replace(final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync([self.folder])
        return SegmentFile(final.name, rows, size, sha256, final.stat().st_mtime_ns)

    def _make(self) -> None:
        for folder in (self.folder.parent, self.folder):
            clear(folder)
        make_folder(self.folder)

    def commit(self, state: State) -> None:
        """Make a state the one that counts; segments that it does not name, and keys long unused, go."""
        self._make()
        clear(self.folder / "state.json", folder=False)
        replace_text(self.folder / "state.json", msgspec.json.encode(state).decode() + "\n")
        named = {segment.name for segment in state.segments}
        for path in self.folder.iterdir():
            if path.suffix == ".segment" and path.name not in named:
                remove(path)
        keys = [path for path in self.folder.parent.iterdir() if path.is_dir()]
        keys.sort(key=lambda path: (path != self.folder, -path.stat().st_mtime_ns))
        for old in keys[KEYS_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)

    def discard(self, file: SegmentFile, state: State | None) -> None:
        """Remove a segment that was written and merged away again, unless the state in force names it."""
        if state is None or file.name not in {segment.name for segment in state.segments}:
            (self.folder / file.name).unlink(missing_ok=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def shelves(root: Path) -> Iterator[Shelf]:
    """All of a lake."""
    for path in sorted((root / FOLDER).glob("*/*/state.json")):
        yield Shelf(root, path.parent.parent.name, path.parent.name)


@contextmanager
def building(root: Path) -> Iterator[None]:
    """One process at a time makes or changes standing indexes of a lake. Readers need no lock."""
    clear(root / FOLDER)
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    with locked(root / FOLDER / "lock", f"another flywheel indexes corpora in {root}; waiting for it"):
        sweep_below(root / FOLDER, 0.0)
        yield


def _mapped(data: mmap.mmap) -> dict[str, np.ndarray]:
    length, magic = _END.unpack(data[-_END.size :]) if len(data) >= _END.size else (0, b"")
    if magic != _MAGIC:
        raise DamagedError("a segment without its footer; the next refresh makes it again")
    listed: Sequence[tuple[str, str, tuple[int, ...], int]] = msgspec.json.decode(
        data[-_END.size - length : -_END.size], type=list[tuple[str, str, tuple[int, ...], int]]
    )
    arrays: Mapping[str, np.ndarray] = {
        name: np.frombuffer(data, dtype=dtype, count=int(np.prod(shape)), offset=at).reshape(shape)
        for name, dtype, shape, at in listed
    }
    return dict(arrays)
