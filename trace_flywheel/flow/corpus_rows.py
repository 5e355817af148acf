"""Corpora as they lie: rows in their order, each with its number and the place where it can be read again.

A corpus is a JSON Lines or Parquet file, or a published version (`dataset:NAME@VERSION`): rows of `messages`, of
`prompt` with `completion` or `response`, or of `instruction` with `response` or `output`.
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.lake.dataset import Version, find_version, shards
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.message import Message, Tool
from trace_flywheel.settings import DATASET_CORPUS
from trace_flywheel.sources.jsonl import BLOCK_BYTES, Fault, decode_json, open_regular, read_lines
from trace_flywheel.sources.wires.openai_chat import messages_of, tools_of
from trace_flywheel.sources.wires.parts import WireError

MAX_LINE_BYTES = 64_000_000
BATCH_ROWS = 1_000
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("instruction", "response"), ("instruction", "output"))
SHARD = 1 << 40
"""A place in a version is shard x SHARD + offset."""
Conversation = tuple[tuple[Message, ...], tuple[Tool, ...]]


class Placed(NamedTuple):
    """A row: its number for people, where its text begins, what it says (None: of no known shape)."""

    number: int
    place: int
    conversation: Conversation | None


class Mark(msgspec.Struct, frozen=True):
    """What a file was when it was read. Equal marks are equal bytes; `stamp` tells it without reading."""

    sha256: str
    size: int
    lines: int
    """Line feeds in it."""
    ended: bool
    """Whether its last byte is one, so that more lines can follow."""
    stamp: tuple[int, int, int, int]
    """Size, times of change of content and of anything (ns), inode."""


class Reader(Protocol):
    """How one kind of corpus is read."""

    name: str
    """What its rows are named by."""
    address: str
    """Where it stands."""

    def stamp(self) -> tuple[int, int, int, int]: ...
    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        """What it is now, and whether that begins with all it was before. `FlywheelError` where it cannot be read."""
        ...

    def identity(self, mark: Mark) -> str:
        """As the manifest names it."""
        ...

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        """All rows, or those after a mark that it begins with."""
        ...

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        """The rows at these places, which ascend."""
        ...


def reader_of(path: Path, home: Path) -> Reader:
    """The reader of one entry of `corpora`. `FlywheelError` names a version that is not there."""
    address = str(path)
    if address.startswith(DATASET_CORPUS):
        name, _, version = address.removeprefix(DATASET_CORPUS).partition("@")
        if not version:
            raise FlywheelError(
                f"corpora: {address} names no version; `flywheel datasets {name}` lists them (the newest would change "
                "with every refresh)"
            )
        return Published(path, find_version(home, f"{name}@{version}"))
    return Table(path) if path.suffix == ".parquet" else JsonLines(path)


class File:
    """What files of rows share."""

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.address = path, path.name, str(path.absolute())

    def stamp(self) -> tuple[int, int, int, int]:
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError as error:
            raise self.unreadable(error.strerror or "unreadable_file") from None
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino

    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        stamp, digest, begins = self.stamp(), hashlib.sha256(), False
        limit, size, lines, last = before.size if before else -1, 0, 0, b""
        try:
            with open_regular(self.path, self.path.parent) as file:
                while block := file.read(BLOCK_BYTES):
                    if before is not None and size < limit <= size + len(block):
                        digest.update(block[: limit - size])
                        begins = digest.hexdigest() == before.sha256
                        digest.update(block[limit - size :])
                    else:
                        digest.update(block)
                    size, lines, last = size + len(block), lines + block.count(b"\n"), block[-1:]
        except OSError:
            raise self.unreadable("unreadable_file") from None
        if stamp != self.stamp():
            raise FlywheelError(f"{self.path}: changed while it was read; run it again")
        return Mark(digest.hexdigest(), size, lines, last == b"\n", stamp), begins

    def identity(self, mark: Mark) -> str:
        return f"{self.name}@{mark.sha256}"

    def unreadable(self, reason: str) -> FlywheelError:
        return FlywheelError(
            f"{self.path}: the corpus cannot be read ({reason}); correct --dedup-against or the setting `corpora`"
        )


class JsonLines(File):
    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        mark, begins = super().mark(before)
        return mark, begins and before is not None and before.ended

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        start = (after.size, after.lines + 1) if after else (0, 1)
        lines = read_lines(self.path, self.path.parent, MAX_LINE_BYTES, start=start)
        for line in lines:
            if isinstance(line, Fault):
                yield Placed(line.line or 0, 0, None)
            else:
                yield Placed(line.number, lines.offset, conversation_of(line.value))

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        with io.BufferedReader(open_regular(self.path, self.path.parent)) as file:
            for place in places:
                file.seek(place)
                yield _read(file.readline(), self.name)


class Table(File):
    """A Parquet file: a place is a row's position. Columns of JSON text are read as what they spell."""

    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        return super().mark(before)[0], False  # a table that grows is written anew

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        position = 0
        with self._opened() as file:
            for batch in file.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    yield Placed(position + 1, position, conversation_of(_told(row)))
                    position += 1

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        wanted, start = np.asarray(places), 0
        with self._opened() as file:
            for group in range(file.metadata.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                here = wanted[(wanted >= start) & (wanted < end)] - start
                if len(here):
                    for row in file.read_row_group(group).take(pa.array(here)).to_pylist():
                        yield _conversation(_told(row), self.name)
                start = end

    def _opened(self) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(self.path)
        except pa.ArrowInvalid as error:
            raise FlywheelError(
                f"{self.path}: no Parquet file ({error}); correct --dedup-against or the setting `corpora`"
            ) from None


class Published:
    """A published version: what it is never changes."""

    def __init__(self, path: Path, version: Version) -> None:
        self.version, self.name = version, path.name
        self.address = f"{DATASET_CORPUS}{version.name}@{version.version}"

    def stamp(self) -> tuple[int, int, int, int]:
        return (0, 0, 0, 0)

    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        return Mark(self.version.version, 0, 0, False, (0, 0, 0, 0)), False

    def identity(self, mark: Mark) -> str:
        return self.address

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        number = 0
        for shard, path in enumerate(shards(self.version)):
            lines = read_lines(path, path.parent, MAX_LINE_BYTES)
            for line in lines:
                number += 1
                if isinstance(line, Fault):
                    yield Placed(number, 0, None)
                else:
                    yield Placed(number, shard * SHARD + lines.offset, conversation_of(line.value))

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        files = shards(self.version)
        wanted = np.asarray(places)
        for shard in np.unique(wanted // SHARD).tolist():
            with files[shard].open("rb") as file:
                for place in wanted[wanted // SHARD == shard].tolist():
                    file.seek(place % SHARD)
                    yield _read(file.readline(), self.name)


def _read(line: bytes, name: str) -> Conversation:
    value = decode_json(line.rstrip(b"\n"), None)
    return _conversation(None if isinstance(value, Fault) else value[0], name)


def _conversation(row: Any, name: str) -> Conversation:
    found = conversation_of(row)
    if found is None:
        raise FlywheelError(f"{name}: changed while it was compared; run it again")
    return found


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """A table's row, absent columns as if they were not there."""
    return {name: _plain(value) for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """A cell without the nulls that a table's struct fills in; JSON text of a list is that list."""
    if isinstance(value, str) and value[:1] == "[":
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def conversation_of(value: Any) -> Conversation | None:
    """Messages and tools of a row; None for a row of no known shape."""
    if not isinstance(value, dict):
        return None
    tools = tools_of(value.get("tools") or value.get("tool_defs"))
    try:
        if isinstance(value.get("messages"), list):
            return messages_of(value["messages"]), tools
        for asked, said in PAIRS:
            question, answer = value.get(asked), value.get(said)
            if isinstance(question, str) and isinstance(answer, str):
                return (Message("user", question), Message("assistant", answer)), tools
            if isinstance(question, list) and isinstance(answer, list):
                return messages_of([*question, *answer]), tools
    except WireError:
        return None
    return None
