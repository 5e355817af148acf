"""The frame says what the index files say; columns in which many rollouts say the same take little."""

import numpy as np
import pyarrow as pa

from trace_flywheel.flow.frame import _sorted
from trace_flywheel.lake.index import DECIDING, INDEX_SCHEMA

ROWS = 2_000


def index(n: int) -> pa.Table:
    """Rollouts of ten files, in disorder; of most columns nobody says anything."""
    said = {
        "run_id": ["run"] * n,
        "trace_id": [f"t-{(7 * row) % n:06d}" for row in range(n)],
        "part": [0] * n,
        "position": list(range(n)),
        "source_path": [f"a/long/path/of/a/file/{row % 10}.json" for row in range(n)],
        "roles": ["suatata" * (1 + row % 3) for row in range(n)],
        "source_format": ["eval_run"] * n,
        "verdict": ["pass" if row % 2 else None for row in range(n)],
    }
    fields = [INDEX_SCHEMA.field(name) for name in DECIDING]
    return pa.table([pa.array(said.get(f.name, [None] * n), f.type) for f in fields], schema=pa.schema(fields))


def test_every_column_says_what_the_table_said() -> None:
    for n in (0, 1, 30):
        table = index(n)
        frame = _sorted(table)
        wanted = table.sort_by([("run_id", "ascending"), ("trace_id", "ascending")]).to_pandas()
        assert list(frame.columns) == list(DECIDING)
        for name in DECIDING:
            told, before = (one[name].astype(object) for one in (frame, wanted))
            assert told.where(told.notna(), None).tolist() == before.where(before.notna(), None).tolist(), name


def test_columns_of_nothing_stand_there_once_and_change_alone() -> None:
    frame = _sorted(index(ROWS))
    frame.loc[3, "suite"] = "s"
    assert frame["suite"].notna().sum() == 1
    assert not frame[["task_digest", "policy_version", "error_by"]].notna().any().any()
    empty = pa.array(frame["task_digest"]).buffers()[1].address
    assert pa.array(frame["error_by"]).buffers()[1].address == empty


def test_what_many_rollouts_say_stands_there_once() -> None:
    frame = _sorted(index(ROWS))
    held = frame[["source_path", "roles", "source_format"]].memory_usage(index=False, deep=True).sum()
    assert held / ROWS < 10, "a number each; as texts 80"
    assert np.array_equal(frame["roles"].str.len().to_numpy() // 7, 1 + frame["position"].to_numpy() % 3)
