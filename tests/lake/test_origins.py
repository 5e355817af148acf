"""The provenance of a draft's rows comes back as it was given, one by one and as a table in any order."""

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_flywheel.lake import origins
from trace_flywheel.lake.dataset import provenance_in
from trace_flywheel.lake.order import ranks
from trace_flywheel.lake.origins import PROVENANCE_SCHEMA, Origins
from trace_flywheel.records.rows import Provenance

HASH = "0" * 64
ROWS = [
    Provenance("a", "sft", "k", "r", ("t",)),
    Provenance("b", "pair", "k", "r", ("t", "u"), "g", "1", (1.0, None), (f"p#{HASH}", f"q#{HASH}"), delta=0.5),
    Provenance("c", "masked", "ü", "r", ("t",), masked_steps=2, transforms=("redacted", "masked"), split="held_out"),
    Provenance("d", "pair", "k", "r", ("t", "u"), rejected_is_min=False, group_size=3, spread=0.25, group_id="k|a"),
    Provenance("e", "correction", "k", "r", ("t",), corrected_by="me", weight=1.5, suite="s", rejected_run_id="r2"),
]


def written(folder: Path, numbers: list[int]) -> Path:
    made = Origins(folder)
    for row in ROWS:
        made.add(row)
    assert [made[number] for number in (3, 0, 4)] == [ROWS[3], ROWS[0], ROWS[4]]
    made.write(folder / "provenance.parquet", np.array(numbers, dtype=np.uint32))
    made.close()
    return folder / "provenance.parquet"


def test_the_columns_are_the_fields_in_their_order() -> None:
    assert tuple(PROVENANCE_SCHEMA.names) == Provenance.__struct_fields__


@pytest.mark.parametrize("numbers", [[0, 1, 2, 3, 4], [4, 2, 2, 0], []])
def test_rows_come_back_in_the_order_that_is_asked_for(tmp_path: Path, numbers: list[int]) -> None:
    path = written(tmp_path, numbers)
    assert pq.read_schema(path) == PROVENANCE_SCHEMA
    assert list(provenance_in(tmp_path)) == [ROWS[number] for number in numbers]


def test_batches_leave_no_trace_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole = written(tmp_path / "one", [1, 3, 0, 2, 4]).read_bytes()
    monkeypatch.setattr(origins, "BATCH", 2)
    assert written(tmp_path / "two", [1, 3, 0, 2, 4]).read_bytes() == whole
    pq.write_table(
        pa.Table.from_pylist([msgspec.to_builtins(ROWS[n]) for n in (1, 3, 0, 2, 4)], schema=PROVENANCE_SCHEMA),
        tmp_path / "plain.parquet",
    )
    assert pq.read_table(tmp_path / "plain.parquet").equals(pq.read_table(tmp_path / "two/provenance.parquet"))


def test_ranks_are_places_in_sorted_order() -> None:
    assert ranks(["b", "ü", "a", "B"]).tolist() == [2, 3, 1, 0]
    assert ranks([]).tolist() == []
