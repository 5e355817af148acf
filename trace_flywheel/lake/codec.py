"""Rollout <-> Parquet row: scalars are columns, everything nested is JSON text.

JSON columns are never inferred into structs, so two rollouts with different tools cannot collide in one schema and one
row reads back as the row that was written. The text is strict JSON: a non-finite number inside nested data is null, and
a message whose log-probabilities are not all finite loses them (they cannot train anything).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from trace_flywheel.lake.columns import column, table
from trace_flywheel.records.canonical import canonical_json
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message, Tool
from trace_flywheel.records.rollout import Correction, Exchange, Rollout, RolloutError, Source

TEXT = (
    "run_id",
    "trace_id",
    "task_id",
    "task_digest",
    "suite",
    "agent",
    "agent_version",
    "model",
    "request_model",
    "policy_version",
    "job",
    "session_id",
    "started_at",
    "finished_at",
    "stop_reason",
    "verdict",
    "verdict_text",
    "reward_text",
    "grader",
    "grader_version",
    "source_run_id",
)
FLAGS = ("is_truncated", "never_called", "retried", "tokens_removed")
NUMBERS = ("reward", "judge_score")
JSON: dict[str, Any] = {
    "messages": tuple[Message, ...],
    "tools": tuple[Tool, ...],
    "exchanges": tuple[Exchange, ...],
    "sampling": dict[str, Any],
    "rewards": dict[str, Any],
    "reward_range": tuple[float, float],
    "reward_vector": dict[str, Any],
    "scoring": dict[str, Any],
    "step_verdicts": tuple[str, ...],
    "correction": Correction,
    "redactions": dict[str, int],
    "error": RolloutError,
    "token_usage": dict[str, Any],
    "metadata": dict[str, Any],
}
HEAVY = frozenset({"messages", "tools", "exchanges", "correction", "metadata", "rewards", "reward_vector", "scoring"})
"""JSON columns that hold text of the run: left out where raw text is not kept."""
SOURCE = ("source_format", "source_path", "source_sha256")
SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in TEXT]
    + [pa.field(name, pa.bool_()) for name in FLAGS]
    + [pa.field(name, pa.float64()) for name in NUMBERS]
    + [pa.field(name, pa.string()) for name in SOURCE]
    + [pa.field(name, pa.large_string()) for name in JSON]
)

# Arrow's own allocator keeps what was freed: 20 to 35 MB more in every process, and no faster on tables of texts.
pa.set_memory_pool(pa.system_memory_pool())

_encoder = msgspec.json.Encoder()
_decoders = {name: msgspec.json.Decoder(kind) for name, kind in JSON.items()}
_EMPTY_IS_ABSENT = frozenset({"messages", "tools", "exchanges"})
Spelt = dict[str, tuple[Any, str]]
"""Of the rollout that was read last: its long columns, each with the JSON that it was read from."""


def _finite(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    if all(m.logprobs is None or all(map(math.isfinite, m.logprobs)) for m in messages):
        return messages
    return tuple(
        m if m.logprobs is None or all(map(math.isfinite, m.logprobs)) else msgspec.structs.replace(m, logprobs=None)
        for m in messages
    )


def _json(name: str, rollout: Rollout, spelt: Spelt) -> str | None:
    value = getattr(rollout, name)
    if name in spelt and spelt[name][0] is value:
        return spelt[name][1]
    if value is None or (name in _EMPTY_IS_ABSENT and not value):
        return None
    if name == "messages":
        value = _finite(value)
    elif name == "exchanges":
        value = tuple(msgspec.structs.replace(e, messages=_finite(e.messages)) if e.messages else e for e in value)
    elif name == "reward_range" and not all(map(math.isfinite, value)):
        return None
    return _encoder.encode(value).decode()


def row_of(rollout: Rollout, keep_text: bool = True, spelt: Spelt | None = None) -> tuple[Any, ...]:
    """The values of one row in the order of `SCHEMA`. Without `keep_text` the columns of `HEAVY` are null.

    What is `spelt` (`rollouts_of`) and still the very object that was read is written as it was."""
    known = spelt or {}
    return (
        *(getattr(rollout, n) for n in (*TEXT, *FLAGS, *NUMBERS)),
        rollout.source.format,
        rollout.source.path,
        rollout.source.sha256,
        *(None if name in HEAVY and not keep_text else _json(name, rollout, known) for name in JSON),
    )


def size_of(row: tuple[Any, ...]) -> int:
    """Characters of a row's JSON columns: what batches and parts are cut by."""
    return sum(len(value) for value in row[-len(JSON) :] if value is not None)


def table_of(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """One table of rows in their order."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.Table.from_arrays([column(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def rollouts_of(table: pa.Table, spelt: Spelt | None = None) -> Iterator[Rollout]:
    """The rollouts of a table made by `table_of`, in order. `spelt` is told of each before it is given."""
    names = [n for n in table.schema.names if n in _FIELDS and table.column(n).null_count < table.num_rows]
    columns = [table.column(n).to_pylist() for n in names]
    sources = zip(*(table.column(n).to_pylist() for n in SOURCE), strict=True)
    for values, source in zip(zip(*columns, strict=True), sources, strict=True):
        given = {
            name: _decoders[name].decode(value) if name in _decoders else value
            for name, value in zip(names, values, strict=True)
            if value is not None
        }
        if spelt is not None:
            spelt.clear()
            spelt.update({n: (given[n], v) for n, v in zip(names, values, strict=True) if n in _EMPTY_IS_ABSENT and v})
        yield Rollout(source=Source(*source), **given)


_FIELDS = frozenset((*TEXT, *FLAGS, *NUMBERS, *JSON))

DROP_SCHEMA = pa.schema(
    [
        pa.field(n, pa.string())
        for n in ("stage", "reason", "evidence", "run_id", "trace_id", "task_id", "agent", "model", "job", "path")
    ]
)


def drop_table(drops: Iterable[Drop]) -> pa.Table:
    """Drops as a table; `evidence` is canonical JSON text."""
    rows = [
        {**{n: getattr(d, n) for n in DROP_SCHEMA.names}, "stage": d.stage.value, "evidence": evidence_text(d.evidence)}
        for d in drops
    ]
    return table(rows, DROP_SCHEMA)


def drops_of(table: pa.Table) -> Iterator[Drop]:
    for row in table.to_pylist():
        yield Drop(**{**row, "stage": Stage(row["stage"]), "evidence": msgspec.json.decode(row["evidence"])})


def evidence_text(evidence: dict[str, Any]) -> str:
    return canonical_json(msgspec.to_builtins(evidence)).decode()
