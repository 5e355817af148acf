"""Arrays from buffers are those of `pa.array`, and no worker imports pandas to make them."""

import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flow.conftest import group, write_runs
from trace_flywheel.lake.columns import column, table, table_in

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
WHOLE = st.integers(-(2**63), 2**63 - 1)
KINDS = {
    pa.string(): st.none() | TEXTS,
    pa.large_string(): st.none() | TEXTS,
    pa.bool_(): st.none() | st.booleans(),
    pa.int64(): st.none() | WHOLE,
    pa.float64(): st.none() | st.floats(allow_nan=False),
    pa.binary(4): st.binary(min_size=4, max_size=4),
    pa.list_(pa.int64()): st.lists(WHOLE),
    pa.list_(pa.float64()): st.none() | st.lists(st.none() | st.floats(allow_nan=False)),
    pa.list_(pa.string()): st.none() | st.lists(st.none() | TEXTS),
    pa.list_(pa.uint32()): st.lists(st.integers(0, 2**32 - 1)),
    pa.dictionary(pa.int32(), pa.string()): st.none() | st.sampled_from(["a", "b", ""]),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_a_column_is_the_array_of_its_values(kind, data):
    values = data.draw(st.lists(KINDS[kind], max_size=20))
    made, expected = column(values, kind), pa.array(values, type=kind)
    made.validate(full=True)
    assert made.equals(expected)
    assert made.to_pylist() == values
    assert written(made) == written(expected)


def written(array: pa.Array) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([array], ["x"]), out, compression="zstd", write_statistics=False)
    return out.getvalue().to_pybytes()


def test_a_row_that_lacks_a_value_has_null():
    schema = pa.schema([("a", pa.string()), ("b", pa.int64())])
    rows = [{"a": "x"}, {"b": 2, "c": 3}]
    assert table(rows, schema).equals(pa.Table.from_pylist(rows, schema))


def test_an_unknown_kind_is_refused():
    with pytest.raises(TypeError, match="date32"):
        column([], pa.date32())


STEP = """
import sys
from pathlib import Path
from trace_flywheel.flow import ingest
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import load_settings
from trace_flywheel.sources.discover import discover

base = Path(sys.argv[1])
settings = load_settings(home=base / "home")
shared = Lake(settings.home), settings, SideInputs(), 1
(result,) = ingest.all_of(shared, (getattr(ingest, sys.argv[2]), list(discover([base / "data"]).runs)))
heavy = {"pandas", "hyperscan", "sklearn", "dagster", "pyarrow.dataset"} & sys.modules.keys()
print(result.status, result.sidecar.counts.kept, *sorted(heavy))
"""


@pytest.mark.parametrize("keep_raw", ["true", "false"])
def test_a_worker_holds_what_its_step_needs(tmp_path, keep_raw):
    """Tables of pandas are no step's, rules are redaction's alone: 42 and 33 MB of a process."""
    write_runs(tmp_path / "data", {"r": group("t", (1.0, 0.0), 1)})
    for step, held in (("graded_traces", ""), ("redacted_rollouts", "hyperscan"), ("rollout_index", "")):
        command = [sys.executable, "-c", STEP, tmp_path, step]
        env = {**os.environ, "FLYWHEEL_LAKE__KEEP_RAW": keep_raw}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.stdout.split() == ["made", "2", *held.split()], (step, done.stderr)


REFRESH = """
import sys
from trace_flywheel.cli.main import main
if __name__ == "__main__":
    assert main(["refresh", "--root", sys.argv[1], "--home", sys.argv[2]]) == 0
    print("pyarrow.dataset" in sys.modules)
"""


def test_nothing_that_is_made_or_looked_at_takes_arrow_s_datasets(tmp_path):
    write_runs(tmp_path / "data", {"r": [*group("t", (1.0, 0.0), 1), *group("u", (1.0, 0.0, 0.5), 2)]})
    command = [sys.executable, "-c", REFRESH, tmp_path / "data", tmp_path / "home"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
    assert "dpo_dataset" in done.stdout, "all was made by this process"


def test_columns_of_a_file_are_read_by_their_names(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [None, 0.5]}), tmp_path / "file")
    assert table_in(tmp_path / "file").to_pydict() == {"a": [1, 2], "b": ["x", "y"], "c": [None, 0.5]}
    assert table_in(tmp_path / "file", ["b"]).to_pydict() == {"b": ["x", "y"]}
