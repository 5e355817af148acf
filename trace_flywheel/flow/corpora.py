"""Training data that exists already, as what new rows are held against: exact hashes, sketches and shingles, no text.

A corpus is a JSON Lines or Parquet file, or a published version (`dataset:NAME@VERSION`): rows of `messages`, of
`prompt` with `completion` or `response`, or of `instruction` with `response` or `output`. A row that is none of these
is counted, since a corpus that is silently half read lets duplicates through.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.curation.dedup import Corpus
from trace_flywheel.curation.message_hashes import exact_hash
from trace_flywheel.curation.sketch import Spans, prompt_text, supervised_text
from trace_flywheel.lake.dataset import Version, find_version, lines
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.message import Message, Tool
from trace_flywheel.settings import DATASET_CORPUS
from trace_flywheel.sources.jsonl import Fault, digest_of, read_lines
from trace_flywheel.sources.wires.openai_chat import messages_of, tools_of
from trace_flywheel.sources.wires.parts import WireError

MAX_LINE_BYTES = 64_000_000
BATCH_ROWS = 1_000
Numbered = tuple[int, tuple[tuple[Message, ...], tuple[Tool, ...]] | None]
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("instruction", "response"), ("instruction", "output"))


class Corpora(msgspec.Struct, frozen=True):
    """All corpora together. `skipped` counts the lines that are no row of a known shape, by file name."""

    corpus: Corpus | None
    rows: int
    skipped: dict[str, int]


def corpora_for(name: str, paths: Sequence[Path], mode: str) -> tuple[Path, ...]:
    """The corpora that rows of the dataset `name` are held against: its own versions only in mode `delta`."""
    own = f"{DATASET_CORPUS}{name}@"
    return tuple(path for path in paths if mode == "delta" or not str(path).startswith(own))


def corpora_digest(paths: Sequence[Path], home: Path) -> tuple[str, ...]:
    """`name@sha256` of every file and `dataset:NAME@VERSION` of every version, sorted.

    `FlywheelError` names a file that cannot be read, or a version that is not there.
    """
    found = []
    for path in paths:
        if (version := _version(path, home)) is not None:
            found.append(f"{DATASET_CORPUS}{version.name}@{version.version}")
            continue
        digest = digest_of(path, path.parent)
        if isinstance(digest, Fault):
            raise FlywheelError(
                f"{path}: the corpus cannot be read ({digest.reason}); correct --dedup-against or the setting `corpora`"
            )
        found.append(f"{path.name}@{digest}")
    return tuple(sorted(found))


def _version(path: Path, home: Path) -> Version | None:
    """The published version that a corpus names; None where it is a file."""
    address = str(path)
    if not address.startswith(DATASET_CORPUS):
        return None
    name, _, version = address.removeprefix(DATASET_CORPUS).partition("@")
    if not version:
        raise FlywheelError(
            f"corpora: {address} names no version; `flywheel datasets {name}` lists them (the newest would change "
            "with every refresh)"
        )
    return find_version(home, f"{name}@{version}")


def read_corpora(paths: Sequence[Path], home: Path) -> Corpora:
    """Read every row once; only its hashes and shingles stay in memory."""
    names: list[str] = []
    hashes: list[str] = []
    prompts: list[str] = []
    answers: list[str] = []
    skipped: dict[str, int] = {}
    for path in sorted(paths, key=lambda p: p.name):
        version = _version(path, home)
        for number, row in _rows(path) if version is None else _published(version):
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


def _published(version: Version) -> Iterator[Numbered]:
    for number, line in enumerate(lines(version), 1):
        yield number, conversation_of(orjson.loads(line))


def _rows(path: Path) -> Iterator[Numbered]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    for line in read_lines(path, path.parent, MAX_LINE_BYTES):
        yield (line.line or 0, None) if isinstance(line, Fault) else (line.number, conversation_of(line.value))


def _parquet(path: Path) -> Iterator[Numbered]:
    """Rows of a table; columns of JSON text are read as what they spell, absent ones as if they were not there."""
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield (
                        number,
                        conversation_of({name: _plain(value) for name, value in row.items() if value is not None}),
                    )
    except pa.ArrowInvalid as error:
        raise FlywheelError(
            f"{path}: no Parquet file ({error}); correct --dedup-against or the setting `corpora`"
        ) from None


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


def conversation_of(value: Any) -> tuple[tuple[Message, ...], tuple[Tool, ...]] | None:
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
