"""A published dataset version in another layout: its own rows read back, written anew, held to the same rules.

The version is the source of truth: nothing is looked up elsewhere, so any version can be exported at any time. A row
that the trainer could not load, or that shows a finding once it is in its last form, is left out and told.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from trace_flywheel.flow.containers import opened, rows_file
from trace_flywheel.flow.dataset_rows import Row
from trace_flywheel.flow.publish import written
from trace_flywheel.lake import dataset
from trace_flywheel.lake.card import card
from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.dataset import Version
from trace_flywheel.lake.files import new_file, settle, workplace
from trace_flywheel.lake.parts import write_table
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rows import KtoRow, PreferencePair, PromptRow, Provenance, RlRow, SftRow, Split
from trace_flywheel.redaction.redact import Redactor
from trace_flywheel.trainers.columns import column_types, specimen
from trace_flywheel.trainers.layout import Layout
from trace_flywheel.trainers.registry import layouts

DATA = {"jsonl": "data-00000.jsonl", "parquet": "data-00000.parquet", "folder": "episodes"}
"""Name of the data by what the trainer opens."""


class Exported(msgspec.Struct, frozen=True):
    """What was written, and by row id why the others were not."""

    path: Path
    rows: int
    refused: dict[str, str]


def export(version: Version, format: str, out: Path, redactor: Redactor, split: Split = "train") -> Exported:
    """Write one split of a version in one layout to a new folder: data, provenance of its rows, card and manifest.

    Raises `FlywheelError` for an unknown layout, one that cannot hold these rows, a version whose files were changed,
    or a folder that is not empty.
    """
    one = _layout(version, format)
    if (changed := dataset.altered(version)) is not None:
        at = version.path / changed
        raise FlywheelError(f"{at}: differs from its manifest; remove the version's folder and run `flywheel refresh`")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FlywheelError(f"{out}: exists already; give a new folder with --out")
    refused: dict[str, str] = {}
    kept: list[int] = []
    with workplace(out.absolute().parent) as folder:
        rows = 0
        data = folder / DATA[one.CONTAINER]
        seen: set[tuple[str, ...]] = set()
        columns: set[str] = set()
        with opened(one, data) as stream:
            for position, row in enumerate(rows_of_version(version)):
                if row.provenance.split != split:
                    continue
                made = list(written(one, row))
                fault = next((f for w in made for f in one.validate(w)), None)
                fault = fault or next((f"finding: {rule}" for w in made for rule in redactor.scan(w)), None)
                if fault is not None:
                    refused[row.row_id] = fault
                    continue
                kept.append(position)
                for line in made:
                    if one.DISTINCT:
                        if (identity := one.identity(line)) in seen:
                            continue
                        seen.add(identity)
                    rows += 1
                    stream.write(orjson.dumps(line) + b"\n")
                columns.update(*made)
        of_kept = table_in(version.path / "provenance.parquet").take(pa.array(kept, pa.int64()))
        write_table(folder / "provenance.parquet", of_kept)
        data = rows_file(one, data)
        file = {"path": data.relative_to(folder).as_posix(), "rows": rows, "bytes": data.stat().st_size}
        own = {"rows": len(kept), "splits": {split: len(kept)}}
        manifest = {**version.manifest, **own, "layout": format, "files": [file], "refused": len(refused)}
        columns = columns or {name for made in written(one, specimen(version.manifest["kind"])) for name in made}
        manifest["columns"] = {format: column_types(format, columns)}
        for name, text in (
            ("manifest.json", orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()),
            ("README.md", card(manifest)),
        ):
            with new_file(folder / name) as stream:
                stream.write(text.encode() + b"\n")
        if out.is_dir():
            out.rmdir()
        settle(folder, out)
    if not version.path.is_dir():  # an erasure looks for exports after it took the versions, and did not see this one
        dataset.discard(out)
        raise FlywheelError(
            f"{version.name}@{version.version}: removed while it was exported; export what there is now"
        )
    return Exported(out, rows, refused)


def rows_of_version(version: Version) -> Iterator[Row]:
    """The rows of a version with their provenance, in order, as they were before they took a layout."""
    for line, about in zip(dataset.lines(version), dataset.provenance(version), strict=True):
        yield _row(orjson.loads(line), about)


def _layout(version: Version, format: str) -> Layout:
    kind = version.manifest["kind"]
    fitting = [name for name, one in layouts().items() if kind in one.KINDS]
    if format not in fitting:
        raise FlywheelError(f"{version.name} cannot be exported as {format!r}; its rows fit: {', '.join(fitting)}")
    return layouts()[format]


def _row(row: Mapping[str, Any], about: Provenance) -> Row:
    tools = tuple(_tool(tool["function"]) for tool in row["tools"])
    if "chosen" in row:
        prompt, chosen, rejected = (tuple(map(_message, row[part])) for part in ("prompt", "chosen", "rejected"))
        return PreferencePair(about.row_id, prompt, chosen, rejected, tools, about)
    if "completion" in row:
        prompt, completion = (tuple(map(_message, row[part])) for part in ("prompt", "completion"))
        return KtoRow(about.row_id, prompt, completion, row["label"], tools, about)
    if "verifier" in row:
        prompt = tuple(map(_message, row["prompt"]))
        return PromptRow(about.row_id, prompt, row["answer"], row["verifier"], row["difficulty"], tools, about)
    messages = tuple(map(_message, row["messages"]))
    if "group" in row:
        policy = row.get("policy") or {}
        return RlRow(about.row_id, messages, tools, row["reward"], row["advantage"], row["group"], about, policy)
    return SftRow(about.row_id, messages, tools, about)


def _message(row: Mapping[str, Any]) -> Message:
    calls = (ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in row.get("tool_calls", ()))
    ids, logprobs = row.get("token_ids"), row.get("logprobs")
    return Message(
        row["role"],
        row["content"],
        row.get("reasoning_content"),
        tuple(calls),
        row.get("tool_call_id"),
        row.get("name"),
        row.get("is_error"),
        row.get("train_on"),
        tuple(ids) if ids is not None else None,
        tuple(logprobs) if logprobs is not None else None,
    )


def _tool(function: Mapping[str, Any]) -> Tool:
    own = {name: value for name, value in function.items() if name not in {"name", "description", "parameters"}}
    return Tool(function["name"], function["description"], function["parameters"], extra=own or None)
