"""Runs of an eval harness: `runs/<run-id>/results.json`, graded traces as an array, as lines, or under `results`.

The shape is told by content. A bad row is a Drop with its number, and the rest of the file is read; of an array that
does not parse, everything is lost and the file is named. What a row means is `eval_row`'s.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.sources.eval_row import RowError, identity_of, rollout_of
from trace_flywheel.sources.jsonl import Document, Fault, decode_json, digest_of, peek, read_document, read_lines
from trace_flywheel.sources.reader import Folder, ReadOptions, Run, Unit, dropped, size_of

NAMES = ("results.json", "results.jsonl")
PEEK_BYTES = 1 << 18
_EMPTY = re.compile(rb'\s*(\[\s*\]|\{\s*"results"\s*:\s*\[\s*\]\s*\})\s*')
_OPENING = re.compile(rb'\{\s*|\{\s*"results"\s*:.*', re.DOTALL)

Placed = tuple[dict[str, int], Any | Fault]
"""Where a row stands ({"row": n} or {"line": n}, from 1), and the row."""


class EvalRunReader:
    """See the module's docstring."""

    format = "eval_run"
    precedence = 30

    def claims(self, folder: Folder) -> bool:
        """By the first bytes of `results.json` or `results.jsonl`; a file given by itself may have any name."""
        return any(self._is_graded(folder, name) for name in _candidates(folder))

    def finished(self, folder: Folder) -> bool:
        """Whether every results file ends as a JSON value does."""
        return all(_ends_closed(folder, name) for name in _candidates(folder))

    def units(self, run: Run) -> Sequence[Unit]:
        """The results files."""
        if not run.path.is_dir():
            return (Unit(run.path, run.path.name, size_of(run.path)),)
        paths = [run.path / name for name in NAMES]
        return tuple(
            Unit(path, path.relative_to(run.root).as_posix(), size_of(path)) for path in paths if path.is_file()
        )

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
        """A rollout or a drop for each row, in the file's order."""
        digest = digest_of(unit.path, run.root)
        if isinstance(digest, Fault):
            yield dropped(run, unit, digest.reason, digest.evidence())
            return
        source = Source(self.format, unit.relative, digest)
        for place, row in _rows(run, unit, options):
            if isinstance(row, Fault):
                yield dropped(run, unit, row.reason, row.evidence())
                continue
            try:
                yield rollout_of(row, run, source, options.verdict_map)
            except RowError as refused:
                yield dropped(run, unit, refused.reason, {**place, "text": str(refused)}, **identity_of(row))

    def _is_graded(self, folder: Folder, name: str) -> bool:
        head = peek(folder.path / name, folder.path, PEEK_BYTES)
        if _EMPTY.fullmatch(head):
            return True
        return head.lstrip()[:1] in (b"[", b"{") and b'"trace_id"' in head and b'"messages"' in head


def _candidates(folder: Folder) -> list[str]:
    named = [name for name in NAMES if name in folder.files]
    alone = not folder.folders and len(folder.files) == 1 and folder.files[0].endswith((".json", ".jsonl"))
    return named or (list(folder.files) if alone else [])


def _ends_closed(folder: Folder, name: str) -> bool:
    try:
        with open(folder.path / name, "rb") as file:
            file.seek(max(0, size_of(folder.path / name) - 64))
            return file.read().rstrip()[-1:] in (b"]", b"}")
    except OSError:
        return False


def _rows(run: Run, unit: Unit, options: ReadOptions) -> Iterator[Placed]:
    """The rows of a file in any of its three shapes."""
    limit = options.max_line_bytes
    whole = _is_document(peek(unit.path, run.root, PEEK_BYTES))
    if whole is not False:
        document = read_document(unit.path, run.root, limit)
        if isinstance(document, Document):
            yield from _rows_of(document.value)
            return
        if whole:
            yield {}, document
            return
    for line in read_lines(unit.path, run.root, limit):
        yield ({}, line) if isinstance(line, Fault) else ({"line": line.number}, line.value)


def _rows_of(value: Any) -> Iterator[Placed]:
    rows = value.get("results", [value]) if isinstance(value, dict) else value
    if not isinstance(rows, list):
        yield {}, Fault("unknown_shape", "neither an array of rows, nor rows as lines, nor rows under results")
        return
    yield from (({"row": number}, row) for number, row in enumerate(rows, 1))


def _is_document(head: bytes) -> bool | None:
    """Whether a file is one JSON document and not lines of it; None where its first line alone does not tell."""
    first, newline, _ = head.lstrip().partition(b"\n")
    if first.startswith(b"[") or _OPENING.fullmatch(first):
        return True
    decoded = decode_json(first) if newline else Fault("bad_json", "cut")
    return None if isinstance(decoded, Fault) else isinstance(decoded[0], dict) and "results" in decoded[0]


READER = EvalRunReader()
