"""Index entries <-> Parquet. Scalars are columns, sketches fixed-size bytes, hashes and shingles integer lists."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from trace_flywheel.lake.columns import column
from trace_flywheel.records.index import PERMUTATIONS, IndexEntry

GATHERED = "gathered_index"
"""A copy of the index of all runs in one file: each home makes its own."""
LINES = "_lines"
"""How the table is named, after its dataset, of lines that the next version may copy: each home makes its own too."""
LISTS = {
    "message_hashes": pa.list_(pa.int64()),
    "message_norms": pa.list_(pa.int64()),
    "prompt_shingles": pa.list_(pa.uint32()),
    "supervised_shingles": pa.list_(pa.uint32()),
}
SKETCHES = ("prompt_sketch", "supervised_sketch")
_SHARED = frozenset({"golden_grams", "golden_asked"})
_WHOLE = frozenset({"part", "position", "masked_steps", "n_supervised_chars", "n_chars", "redactions"})
_REAL = frozenset({"reward", "reward_low", "reward_high", "judge_score"})
_FLAGS = frozenset({"is_truncated", "never_called", "retried", "has_correction", "has_step_verdicts", "training_grade"})


def _type(name: str) -> pa.DataType:
    if name in LISTS:
        return LISTS[name]
    if name in _SHARED:
        return pa.dictionary(pa.int32(), pa.string())
    if name in SKETCHES:
        return pa.binary(PERMUTATIONS * 4)
    if name in _WHOLE:
        return pa.int64()
    if name in _REAL:
        return pa.float64()
    return pa.bool_() if name in _FLAGS else pa.string()


INDEX_SCHEMA = pa.schema([pa.field(name, _type(name)) for name in IndexEntry.__struct_fields__])
SCALARS = tuple(n for n in INDEX_SCHEMA.names if n not in LISTS and n not in SKETCHES)
_TOLD = frozenset(
    {
        "source_sha256",
        "started_at",
        "stop_reason",
        "corrected_by",
        "masked_steps",
        "n_supervised_chars",
        "redactions",
        "training_grade",
    }
)
"""Of a single rollout, for those who look at the index; 140 bytes each of a million."""
DECIDING = tuple(name for name in SCALARS if name not in _TOLD)
"""The columns of the index frame: what decisions over all runs read."""


def index_table(entries: Sequence[IndexEntry]) -> pa.Table:
    """Entries as a table, in their order."""
    rows: list[tuple[Any, ...]] = [msgspec.structs.astuple(e) for e in entries]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(INDEX_SCHEMA)
    return pa.Table.from_arrays(
        [column(c, f.type) for c, f in zip(columns, INDEX_SCHEMA, strict=True)], schema=INDEX_SCHEMA
    )
