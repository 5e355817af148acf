"""How a step of curation answers: a table of drops, everything else is kept.

A million drops are four columns, not a million objects: `row` (position in the index frame), `stage` and `reason` (a
byte each, of all that there are) and `evidence` (JSON text). A row is dropped at most once; the first stage that drops
it decides.

pandas, 50 MB and a second of any process, is imported where the first table is made: workers that judge one rollout at
a time share modules with these steps and make none.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from trace_flywheel.records.fate import REASONS, Stage

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

COLUMNS = ("row", "stage", "reason", "evidence")
BLOCK = 1 << 14
"""Rows that stand as Python's objects, or become a column, at a time."""


_ALL = tuple(dict.fromkeys(reason for reasons in REASONS.values() for reason in reasons))
_NUMBER = {reason: number for number, reason in enumerate(_ALL)}


def drops(
    stage: Stage, rows: Sequence[int] | np.ndarray, reasons: str | Sequence[str], evidence: Iterable[dict[str, Any]]
) -> "pd.DataFrame":
    """The drops of one stage. `reasons` is one for all rows or one each; an unknown reason raises. Evidence is taken
    one by one, so that of a generator few objects are there at a time."""
    positions = np.asarray(rows, dtype=np.int64)
    listed = [reasons] * len(positions) if isinstance(reasons, str) else list(reasons)
    return _table(stage, positions, _codes(stage, listed), [_texts(evidence)])


def drops_of_kinds(
    stage: Stage,
    rows: np.ndarray,
    kind: np.ndarray,
    reasons: Sequence[str],
    evidence: Sequence[dict[str, Any]],
) -> "pd.DataFrame":
    """The drops of one stage where many share a reason and its evidence. `kind`: of each row its place in both."""
    import pyarrow as pa

    used, kind = np.unique(kind, return_inverse=True)
    codes = _codes(stage, [reasons[number] for number in used.tolist()])
    texts = _texts(evidence[number] for number in used.tolist())
    blocks = (texts.take(pa.array(kind[at : at + BLOCK])) for at in range(0, len(kind), BLOCK))
    return _table(stage, rows, codes[kind], blocks)


def _table(stage: Stage, rows: np.ndarray, codes: np.ndarray, evidence: "Iterable[pa.Array]") -> "pd.DataFrame":
    import pandas as pd
    import pyarrow as pa

    of_stage = np.full(len(rows), list(Stage).index(stage), dtype=np.int8)
    return pd.DataFrame(
        {
            "row": rows,
            "stage": pd.Categorical.from_codes(of_stage, pd.Index([stage.value for stage in Stage])),
            "reason": pd.Categorical.from_codes(codes, pd.Index(_ALL)),
            "evidence": pa.chunked_array(evidence, pa.large_string()).to_pandas(),
        },
        columns=list(COLUMNS),
    )


def records(frame: "pd.DataFrame", rows: np.ndarray) -> Iterator[dict[str, Any]]:
    """Rows of a frame as dictionaries by column, few at a time."""
    for at in range(0, len(rows), BLOCK):
        yield from frame.iloc[rows[at : at + BLOCK]].to_dict("records")  # type: ignore[misc] # str keys


def no_drops() -> "pd.DataFrame":
    """An answer that keeps everything."""
    return _table(Stage.READ, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8), ())


def _codes(stage: Stage, reasons: Sequence[str]) -> np.ndarray:
    if unknown := set(reasons) - set(REASONS[stage]):
        raise ValueError(f"{sorted(unknown)} are no reasons of stage {stage}")
    return np.fromiter((_NUMBER[reason] for reason in reasons), np.int8, len(reasons))


def _texts(evidence: Iterable[dict[str, Any]]) -> "pa.Array":
    """One behind the other in one buffer: orjson gives each text a kilobyte of room, of which a short one, while it is
    kept, wastes most."""
    import pyarrow as pa

    data, ends = bytearray(), array("q", [0])
    for one in evidence:
        data += orjson.dumps(one, option=orjson.OPT_SORT_KEYS)
        ends.append(len(data))
    return pa.Array.from_buffers(pa.large_string(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def kept(n: int, *answers: "pd.DataFrame") -> np.ndarray:
    """Mask of the `n` rows that no answer dropped."""
    mask = np.ones(n, dtype=bool)
    for answer in answers:
        mask[answer["row"].to_numpy(dtype=np.int64)] = False
    return mask
