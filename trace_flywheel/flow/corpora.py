"""Training data that exists already, as what new rows are held against: exact hashes, sketches and shingles, no text.

A corpus is a JSON Lines file of `messages` rows, of `prompt` with `completion` or `response`, or of `instruction` with
`response` or `output`. A row that is none of these is counted, since a corpus that is silently half read lets
duplicates through.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.curation.dedup import Corpus
from trace_flywheel.curation.message_hashes import exact_hash
from trace_flywheel.curation.sketch import Spans, prompt_text, supervised_text
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.message import Message, Tool
from trace_flywheel.sources.jsonl import Fault, digest_of, read_lines
from trace_flywheel.sources.wires.openai_chat import messages_of, tools_of
from trace_flywheel.sources.wires.parts import WireError

MAX_LINE_BYTES = 64_000_000
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("instruction", "response"), ("instruction", "output"))


class Corpora(msgspec.Struct, frozen=True):
    """All corpora together. `skipped` counts the lines that are no row of a known shape, by file name."""

    corpus: Corpus | None
    rows: int
    skipped: dict[str, int]


def corpora_digest(paths: Sequence[Path]) -> tuple[str, ...]:
    """`name@sha256` of every file, sorted. `FlywheelError` names a file that cannot be read."""
    found = []
    for path in paths:
        digest = digest_of(path, path.parent)
        if isinstance(digest, Fault):
            raise FlywheelError(
                f"{path}: the corpus cannot be read ({digest.reason}); correct `corpora` in the settings"
            )
        found.append(f"{path.name}@{digest}")
    return tuple(sorted(found))


def read_corpora(paths: Sequence[Path]) -> Corpora:
    """Read every row once; only its hashes and shingles stay in memory."""
    names: list[str] = []
    hashes: list[str] = []
    prompts: list[str] = []
    answers: list[str] = []
    skipped: dict[str, int] = {}
    for path in sorted(paths, key=lambda p: p.name):
        for number, row in _rows(path):
            if row is None:
                skipped[path.name] = skipped.get(path.name, 0) + 1
                continue
            messages, tools = row
            names.append(f"{path.name}:{number}")
            hashes.append(exact_hash(messages, tools))
            prompts.append(prompt_text(messages))
            answers.append(supervised_text(messages))
    if not names:
        return Corpora(None, 0, skipped)
    return Corpora(Corpus(names, hashes, Spans.of_texts(prompts), Spans.of_texts(answers)), len(names), skipped)


def _rows(path: Path) -> Iterator[tuple[int, tuple[tuple[Message, ...], tuple[Tool, ...]] | None]]:
    for line in read_lines(path, path.parent, MAX_LINE_BYTES):
        yield (line.line or 0, None) if isinstance(line, Fault) else (line.number, _row(line.value))


def _row(value: Any) -> tuple[tuple[Message, ...], tuple[Tool, ...]] | None:
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
