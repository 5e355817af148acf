"""A trainer file checked line by line: strict JSON, the layout's rules, and that no row stands twice.

All faults are told, each with its line; a file is sound when there is none. Rows are streamed; what is kept is a
digest each, for the duplicates.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from trace_flywheel.flow.containers import rows_file, table_lines
from trace_flywheel.records.canonical import canonical_json, sha256_hex
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources.jsonl import Fault, Line, read_lines
from trace_flywheel.trainers.layout import Layout


class LineFault(msgspec.Struct, frozen=True):
    line: int
    text: str


class FileCheck:
    """Iterate once for `LineFault`s; the counts are complete when the iterator is."""

    def __init__(self, path: Path, layout: Layout, max_line_bytes: int = 64_000_000) -> None:
        self.path = path
        self.layout = layout
        self.max_line_bytes = max_line_bytes
        self.rows = 0
        self.rows_with_calls = 0
        self.counts = layout.counts()

    def __iter__(self) -> Iterator[LineFault]:
        file = rows_file(self.layout, self.path)
        if not file.is_file():
            said = "is a folder" if file.is_dir() else "is no regular file" if file.exists() else "no such file"
            wanted = "folder" if self.layout.CONTAINER == "folder" else "file"
            raise FlywheelError(f"{self.path}: {said}; give a {wanted} of trainer rows")
        path = file.resolve()
        lines = read_lines(path, path.parent, self.max_line_bytes, strict_json)
        rows: Iterable[Line | Fault] = table_lines(path) if self.layout.CONTAINER == "parquet" else lines
        seen: dict[str, int] = {}
        across = self.layout.across()
        for line in rows:
            self.rows += 1
            if isinstance(line, Fault):
                if line.line is None:
                    raise FlywheelError(f"{self.path}: {line.text}")
                yield LineFault(line.line, f"{line.reason}: {line.text}")
                continue
            self.rows_with_calls += has_calls(line.value)
            try:
                digest = sha256_hex(canonical_json(line.value))
            except (TypeError, RecursionError):  # past the serializer's own limit, far below the parser's
                yield LineFault(line.number, "bad_json: nested too deeply")
                continue
            faults = list(self.layout.validate(line.value))
            if not faults:
                self.counts.add(line.value)
            yield from (LineFault(line.number, text) for text in faults or across(line.value))
            first = seen.setdefault(digest, line.number)
            if first != line.number:
                yield LineFault(line.number, f"the same row stands in line {first}")
        if lines.bom:
            yield LineFault(1, "the file starts with a byte-order mark, which JSONL readers refuse")


def strict_json(data: bytes) -> Any:
    """A line's value; a NaN or an infinity is named, for the parser only says where it stumbled."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if any(token in data for token in (b"NaN", b"Infinity")):
            raise ValueError("NaN and Infinity are no JSON numbers") from None
        raise


def has_calls(row: Any) -> bool:
    """Whether a message of the row, in any of a layout's lists, calls a tool."""
    if not isinstance(row, dict):
        return False
    lists = (row.get(name) for name in ("messages", "prompt", "completion", "chosen", "rejected", "steps", "content"))
    messages = (message for some in lists if isinstance(some, list) for message in some)
    return any(
        isinstance(message, dict) and (bool(message.get("tool_calls")) or message.get("class_") == "api_action")
        for message in messages
    )
