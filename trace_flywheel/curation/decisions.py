"""How a step of curation answers: a table of drops, everything else is kept.

A million drops are four columns, not a million objects: `row` (position in the index frame), `stage`, `reason` and
`evidence` (JSON text). A row is dropped at most once; the first stage that drops it decides.

pandas, 50 MB and a second of any process, is imported where the first table is made: workers that judge one rollout at
a time share modules with these steps and make none.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from trace_flywheel.records.fate import REASONS, Stage

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

COLUMNS = ("row", "stage", "reason", "evidence")
BLOCK = 1 << 14
"""Evidence that waits to become a column."""


def drops(
    stage: Stage, rows: Sequence[int] | np.ndarray, reasons: str | Sequence[str], evidence: Iterable[dict[str, Any]]
) -> "pd.DataFrame":
    """The drops of one stage. `reasons` is one for all rows or one each; an unknown reason raises. Evidence is taken
    one by one, so that of a generator few objects are there at a time."""
    import pandas as pd
    import pyarrow as pa

    positions = np.asarray(rows, dtype=np.int64)
    listed = [reasons] * len(positions) if isinstance(reasons, str) else list(reasons)
    unknown = set(listed) - set(REASONS[stage])
    if unknown:
        raise ValueError(f"{sorted(unknown)} are no reasons of stage {stage}")
    return pd.DataFrame(
        {
            "row": positions,
            "stage": [str(stage)] * len(positions),
            "reason": listed,
            "evidence": pa.chunked_array(_texts(evidence), pa.large_string()).to_pandas(),
        },
        columns=list(COLUMNS),
    )


def _texts(evidence: Iterable[dict[str, Any]]) -> "Iterator[pa.Array]":
    import pyarrow as pa

    texts = (orjson.dumps(e, option=orjson.OPT_SORT_KEYS) for e in evidence)
    while block := list(islice(texts, BLOCK)):
        yield pa.array(block, pa.large_string())


def no_drops() -> "pd.DataFrame":
    """An answer that keeps everything."""
    import pandas as pd

    return pd.DataFrame({"row": np.zeros(0, dtype=np.int64), "stage": [], "reason": [], "evidence": []})


def kept(n: int, *answers: "pd.DataFrame") -> np.ndarray:
    """Mask of the `n` rows that no answer dropped."""
    mask = np.ones(n, dtype=bool)
    for answer in answers:
        mask[answer["row"].to_numpy(dtype=np.int64)] = False
    return mask
