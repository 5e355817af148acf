"""The lines of a JSONL file that is small and plainly whole, decoded in one go: what `jsonl.Lines` gives, sooner.

Plainly whole: UTF-8 without a byte-order mark, an object on every line, a newline behind every one but, perhaps, the
last. Anything else is for `Lines` to read and to explain.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from trace_flywheel.sources.jsonl import Line
from trace_flywheel.sources.regular_file import open_regular

WHOLE_BYTES = 4_000_000
"""Of a file that is held at once."""


class Decoder(Protocol):
    """What `msgspec.json.Decoder` is among others."""

    def decode_lines(self, data: bytes, /) -> list[Any]: ...


class WholeLines(msgspec.Struct, frozen=True):
    """The decoded lines, of which nothing had to be tolerated."""

    values: list[Any]
    sha256: str
    bom: bool = False
    surrogates: int = 0

    def __iter__(self) -> Iterator[Line]:
        return map(Line, range(1, len(self.values) + 1), self.values)


def read_whole(path: Path, root: Path, max_line_bytes: int, decoder: Decoder) -> WholeLines | None:
    """The lines of such a file, each an object for the decoder; None for every other file."""
    limit = min(WHOLE_BYTES, max_line_bytes)
    try:
        with open_regular(path, root) as file:
            size = os.fstat(file.fileno()).st_size
            # Room for as much as there is, and to see that no more is.
            data = file.read(size + 1) if size <= limit else b""
    except OSError:
        return None
    lines = _lines(data) if len(data) == size else 0
    if not lines:
        return None
    try:
        if not data.isascii():
            data.decode()
        values = decoder.decode_lines(data)
    except (ValueError, RecursionError):
        return None
    # The decoder takes a newline for any other blank.
    return WholeLines(values, hashlib.sha256(data).hexdigest()) if len(values) == lines else None


def _lines(data: bytes) -> int:
    """How many lines there are; 0 unless objects meet at every newline. Between two braces JSON has a comma, so that no
    such newline stands inside of a value."""
    count, at = 1, data.find(b"\n")
    while at >= 0:
        meeting = data[at - 1 : at + 2]
        if meeting != b"}\n{":
            return count if meeting == b"}\n" else 0
        count, at = count + 1, data.find(b"\n", at + 1)
    return count if data.startswith(b"{") else 0
