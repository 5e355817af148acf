"""The table of advantages is the same in pieces, and groups are looked at across them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.flow.apart import uneven_groups
from trace_flywheel.flow.home import lake_of
from trace_flywheel.flow.names import ADVANTAGES
from trace_flywheel.flow.tables import advantages_of
from trace_flywheel.lake import tables as module
from trace_flywheel.lake.parts import write_table, write_tables
from trace_flywheel.settings import load_settings

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.sampled_from([0.5, -0.5, None]), st.sampled_from(["ungraded", None])
    ),
    max_size=12,
)


def frames(rows: list[tuple[str | None, float | None, str | None]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = [f"t{i}" for i in range(len(rows))]
    keys = {"run_id": names, "trace_id": names, "task_id": names}
    frame = pd.DataFrame({name: pd.array(values, dtype="str") for name, values in keys.items()})
    frame["reward"] = np.arange(len(rows), dtype=np.float64)
    groups = pd.DataFrame(
        {
            "group_id": pd.Categorical([group for group, _, _ in rows], categories=["a", "b"]),
            "advantage": pd.array([advantage for _, advantage, _ in rows], dtype="float64"),
            "reason": np.array([reason for *_, reason in rows], dtype=object),
            "scored": np.arange(len(rows)),
        }
    )
    return frame, groups


@given(ROWS, st.integers(1, 12))
def test_pieces_are_the_whole(rows: list[tuple[str | None, float | None, str | None]], at_a_time: int) -> None:
    frame, groups = frames(rows)
    (whole,) = advantages_of(frame, groups)
    pieces = list(advantages_of(frame, groups, at_a_time))
    assert all(len(piece) <= at_a_time for piece in pieces)
    joined = pa.concat_tables(pieces)
    assert joined.to_pylist() == whole.to_pylist()
    assert joined.schema.equals(whole.schema)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_tables_make_the_file_that_one_makes(n: int, tmp_path: Path) -> None:
    frame, groups = frames([("a", 0.5, None)] * n)
    (whole,) = advantages_of(frame, groups)
    part = write_table(tmp_path / "one", whole)
    assert write_tables(tmp_path / "of one", iter([whole])).sha256 == part.sha256
    pieces = write_tables(tmp_path / "pieces", advantages_of(frame, groups, 2))
    assert pieces.rows == n
    assert pq.read_table(tmp_path / "pieces").equals(pq.read_table(tmp_path / "one"))


def test_a_group_whose_advantages_do_not_add_up_is_found_across_what_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(home=tmp_path)
    rows = [("a", 0.5, None), ("b", 0.5, None), (None, None, "ungraded"), ("a", -0.5, None), ("b", 0.5, None)]
    monkeypatch.setattr(module, "BATCH", 2)
    lake_of(settings).put(ADVANTAGES, {"advantages": advantages_of(*frames(rows), 2)}, "digest", {})
    assert uneven_groups(settings) == (2, ["b"])
