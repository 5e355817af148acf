"""Rows of corpora: each with its number and the place where it can be read again.

A corpus is a JSON Lines or Parquet file, or a published version (`dataset:NAME@VERSION`). `corpus_shapes` says which
shapes its rows may have.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from trace_flywheel.flow.corpus_shapes import Conversation, conversation_of
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources.jsonl import Fault, decode_json

MAX_LINE_BYTES = 64_000_000


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


def read_again(line: bytes, name: str) -> Conversation:
    value = decode_json(line.rstrip(b"\n"), None)
    return known_again(None if isinstance(value, Fault) else value[0], name)


def known_again(row: Any, name: str) -> Conversation:
    found = conversation_of(row)
    if found is None:
        raise FlywheelError(f"{name}: changed while it was compared; run it again")
    return found
