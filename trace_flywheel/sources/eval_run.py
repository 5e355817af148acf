"""Runs of an eval harness: `runs/<run-id>/results.json`, graded traces as an array, as lines, or under `results`.

The shape is told by content. A bad row is a Drop with its number, and the rest of the file is read; an array that is
too large or too broken to be decoded whole is read row by row up to the break. What a row means is `eval_row`'s.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.sources.arrays import opens_array, read_elements
from trace_flywheel.sources.eval_row import RowError, identity_of, rollout_of
from trace_flywheel.sources.jsonl import BOM, Document, Fault, decode_json, digest_of, peek, read_document, read_lines
from trace_flywheel.sources.own_output import is_own_output
from trace_flywheel.sources.reader import Folder, ReadOptions, Run, Unit, dropped, listed, noting_surrogates, size_of

NAMES = ("results.json", "results.jsonl")
PEEKS = (1 << 14, 1 << 20)
_EMPTY = re.compile(rb'\s*(\[\s*\]|\{\s*"results"\s*:\s*\[\s*\]\s*\})\s*')
_OPENING = re.compile(rb'\{\s*|\{\s*"results"\s*:.*', re.DOTALL)

Placed = tuple[dict[str, int], Any, int]
"""Where a row stands ({"row": n} or {"line": n}, from 1), the row, and the lone surrogates replaced in it."""


class EvalRunReader:
    """See the module's docstring."""

    format = "eval_run"
    precedence = 30

    def claims(self, folder: Folder) -> bool:
        """By the first bytes of `results.json` or `results.jsonl`; a file that is alone may have any name."""
        return bool(_graded(folder))

    def finished(self, folder: Folder) -> bool:
        """Whether every results file ends as a JSON value does. A folder with one was claimed for that one."""
        names = _candidates(folder)
        return all(_ends_closed(folder, name) for name in (names if len(names) == 1 else _graded(folder)))

    def units(self, run: Run) -> Sequence[Unit]:
        """The results files; a link among them is one too, which reading refuses by name."""
        if run.path.is_dir():
            folder = listed(run.path)
            paths = [run.path / name for name in (*_graded(folder), *(n for n in NAMES if n in folder.links))]
        else:
            paths = [run.path]
        return [Unit(path, path.relative_to(run.root).as_posix(), size_of(path)) for path in paths]

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
        """A rollout or a drop for each row, in the file's order."""
        digest = digest_of(unit.path, run.root)
        if isinstance(digest, Fault):
            yield dropped(run, unit, digest.reason, digest.evidence())
            return
        source = Source(self.format, unit.relative, digest)
        for found in _rows(run, unit, options, digest):
            if isinstance(found, Fault):
                yield dropped(run, unit, found.reason, found.evidence())
                continue
            place, row, surrogates = found
            try:
                yield noting_surrogates(rollout_of(row, run, source, options.verdict_map), surrogates)
            except RowError as refused:
                yield dropped(run, unit, refused.reason, {**place, "text": str(refused)}, **identity_of(row))


READER = EvalRunReader()


def _candidates(folder: Folder) -> list[str]:
    """The files of a folder that may hold graded traces, by their names."""
    named = [name for name in NAMES if name in folder.files]
    alone = not folder.folders and len(folder.files) == 1 and folder.files[0].endswith((".json", ".jsonl"))
    return named or list(folder.files if alone else ())


def _graded(folder: Folder) -> list[str]:
    """The files of a folder that hold graded traces."""
    return [
        name
        for name in _candidates(folder)
        if _is_graded(folder, name) and not is_own_output(folder.path / name, folder.path)
    ]


def _is_graded(folder: Folder, name: str) -> bool:
    """By the least that tells: rows are small as a rule, and a sensor asks for every run on every tick."""
    for size in PEEKS:
        head = peek(folder.path / name, folder.path, size)
        if _EMPTY.fullmatch(head):
            return True
        if head.lstrip()[:1] not in (b"[", b"{"):
            return False
        if b'"trace_id"' in head and b'"messages"' in head:
            return True
        if len(head) < size - len(BOM):
            return False
    return False


def _ends_closed(folder: Folder, name: str) -> bool:
    try:
        with open(folder.path / name, "rb") as file:
            file.seek(max(0, size_of(folder.path / name) - 64))
            return file.read().rstrip()[-1:] in (b"]", b"}")
    except OSError:
        return False


def _rows(run: Run, unit: Unit, options: ReadOptions, digest: str) -> Iterator[Placed | Fault]:
    """The rows of a file in any of its three shapes."""
    limit = options.max_line_bytes
    head = peek(unit.path, run.root, PEEKS[-1])
    whole = _is_document(head)
    if whole is not False:
        document = read_document(unit.path, run.root, limit, sha256=digest)
        if isinstance(document, Document):
            yield from _rows_of(document)
            return
        if whole and document.reason in {"line_too_long", "bad_json", "bad_encoding"} and opens_array(head):
            for element in read_elements(unit.path, run.root, limit):
                yield (
                    element
                    if isinstance(element, Fault)
                    else ({"row": element.number}, element.value, element.surrogates)
                )
            return
        if whole:
            yield document
            return
    for line in read_lines(unit.path, run.root, limit):
        yield line if isinstance(line, Fault) else ({"line": line.number}, line.value, line.surrogates)


def _rows_of(document: Document) -> Iterator[Placed | Fault]:
    value = document.value
    rows = value.get("results", [value]) if isinstance(value, dict) else value
    if not isinstance(rows, list):
        yield Fault("unknown_shape", "neither an array of rows, nor rows as lines, nor rows under results")
        return
    for number, row in enumerate(rows, 1):
        # The document's count says nothing about one row; the row's own replacement characters do.
        surrogates = json.dumps(row, ensure_ascii=False).count("\ufffd") if document.surrogates else 0
        yield {"row": number}, row, surrogates


def _is_document(head: bytes) -> bool | None:
    """Whether a file is one JSON document and not lines of it; None where its first line alone does not tell."""
    first, newline, _ = head.lstrip().partition(b"\n")
    if first.startswith(b"[") or _OPENING.fullmatch(first):
        return True
    decoded = decode_json(first) if newline else Fault("bad_json", "cut")
    return None if isinstance(decoded, Fault) else isinstance(decoded[0], dict) and "results" in decoded[0]
