"""Arrays from buffers are those of `pa.array`, and no worker imports pandas to make them."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flow.conftest import group, write_runs
from trace_flywheel.lake.columns import column

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


def test_an_unknown_kind_is_refused():
    with pytest.raises(TypeError, match="date32"):
        column([], pa.date32())


def test_a_worker_reads_redacts_and_describes_without_pandas(tmp_path):
    """All three steps in one process: what a worker of each holds."""
    code = """
import sys
from pathlib import Path
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.ingest_tasks import *
from trace_flywheel.redaction.policy import policy_named
from trace_flywheel.sources.discover import discover, units
from trace_flywheel.sources.reader import ReadOptions

base = Path(sys.argv[1])
(run,) = discover([base / "data"]).runs
folders = [base / name for name in "abc"]
for folder in folders:
    folder.mkdir()
read = read_chunk(ReadOptions(), Chunk(run, 0, tuple(units(run)), folders[0], "c", True))
first = folders[0] / read.parts[0].name
clean = redact_parts(policy_named("standard"), Parts(first, read.parts, folders[1], {}, Erased()))
task = Described(folders[1] / clean.parts[0].name, 0, folders[2])
described = describe_part(Describing(Holdout((), 0.5), "mask"), task)
print(described.parts[0].rows, "pandas" in sys.modules)
"""
    write_runs(tmp_path / "data", {"r": group("t", (1.0, 0.0), 1)})
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2", "False"], done.stderr
