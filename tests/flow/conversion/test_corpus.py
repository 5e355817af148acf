"""`--dedup-against`: what exists already is not written again, and each row left out says what it equals."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_flywheel.flow.conversion import corpus as convert_corpus
from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.candidates import Choice

LONG = " ".join(f"word{n}" for n in range(60))


@pytest.fixture
def jobs(tmp_path: Path, benchflow_trial) -> Path:
    benchflow_trial(tmp_path / "jobs" / "j", "a__1", prompts=(f"First. {LONG}",), answer=f"It is one. {LONG}")
    benchflow_trial(tmp_path / "jobs" / "j", "b__1", prompts=("Second, and something else.",), answer="It is two.")
    return tmp_path / "jobs"


def run(jobs, *existing, name="rows.jsonl", **values):
    out = jobs.parent / name
    warnings = []
    tally = convert(Request((jobs,), out, existing=existing, **values), 1, warnings.append)
    return [orjson.loads(line) for line in out.read_bytes().split(b"\n") if line], tally, warnings


@pytest.mark.parametrize("format", ["prime-sft", "trl-sft", "messages", "openai-ft", "verifiers"])
@pytest.mark.parametrize("batch", [1, 2_000])
def test_a_file_holds_all_of_its_own_rows(jobs, monkeypatch, format, batch):
    monkeypatch.setattr(convert_corpus, "BATCH_ROWS", batch)
    rows, _, _ = run(jobs, name="before.jsonl", format=format)
    assert len(rows) == 2
    again, tally, _ = run(jobs, jobs.parent / "before.jsonl", format=format)
    assert (again, tally.converted, tally.rows_with_calls) == ([], 0, 0)
    assert [(d["stage"], d["reason"], d["evidence"]) for d in tally.drops] == [
        ("exact_duplicate", "corpus_exact_duplicate", {"corpus": f"before.jsonl:{n}"}) for n in (1, 2)
    ]


def test_a_near_duplicate_says_how_near(jobs):
    rows, _, _ = run(jobs, name="before.jsonl")
    near = rows[0]
    near["messages"][-1]["content"] += " Done."
    (jobs.parent / "before.jsonl").write_bytes(orjson.dumps(near) + b"\n")
    (kept,), tally, _ = run(jobs, jobs.parent / "before.jsonl")
    assert kept["task_name"] == "b"
    (drop,) = tally.drops
    assert (drop["rollout"].endswith("a__1"), drop["reason"]) == (True, "corpus_near_duplicate")
    assert drop["evidence"]["corpus"] == "before.jsonl:1"
    assert drop["evidence"]["jaccard_prompt"] == 1.0
    assert 0.85 <= drop["evidence"]["jaccard_supervised"] < 1.0
    assert tally.existing[0].startswith("before.jsonl@")
    loose, _, _ = run(jobs, jobs.parent / "before.jsonl", near=1.0)
    assert len(loose) == 2


def test_of_a_rollout_only_the_rows_that_exist_are_left_out(jobs):
    rows, _, _ = run(jobs, name="before.jsonl", choice=Choice("exchange"))
    (jobs.parent / "before.jsonl").write_bytes(orjson.dumps(rows[1]) + b"\n")
    left, tally, _ = run(jobs, jobs.parent / "before.jsonl", choice=Choice("exchange"))
    assert left == [rows[0], rows[2], rows[3]]
    assert (tally.rows_with_calls, tally.converted) == (3, 2)
    assert [(d["exchange_index"], d["reason"]) for d in tally.drops] == [(1, "corpus_exact_duplicate")]


def test_a_member_left_out_still_counts_in_its_group(jobs, benchflow_trial):
    benchflow_trial(jobs / "j", "a__2", reward=0.0, prompts=("First.",), answer="No.")
    rows, _, _ = run(jobs, name="before.jsonl")
    (jobs.parent / "before.jsonl").write_bytes(orjson.dumps(rows[1]) + b"\n")
    left, _, _ = run(jobs, jobs.parent / "before.jsonl", group_advantage="loo")
    assert [(r["reward"], r["advantage"]) for r in left] == [(1.0, 1.0), (1.0, None)]


def test_a_table_and_lines_of_no_known_shape(jobs):
    rows, _, _ = run(jobs, name="before.jsonl")
    texts = {key: [orjson.dumps(row[key]).decode() for row in rows] for key in ("messages", "tool_defs")}
    pq.write_table(pa.table(texts), jobs.parent / "before.parquet")
    (jobs.parent / "other.jsonl").write_text('{"text": "x"}\n[]\n')
    left, tally, warnings = run(jobs, jobs.parent / "before.parquet", jobs.parent / "other.jsonl")
    assert (left, len(tally.drops)) == ([], 2)
    assert warnings == ["other.jsonl: 2 line(s) of no known shape are not compared"]


def test_tables_take_no_memory_of_the_process_that_converts(jobs):
    """Neither the corpus that is one nor the output that becomes one: their library alone takes 30 MB."""
    convert(Request((jobs,), jobs.parent / "before.parquet", format="verl-sft"), 1)
    program = """
import sys
from trace_flywheel.cli.main import main

code = main(sys.argv[1:])
sys.exit(code or "pyarrow" in sys.modules)
"""
    words = ["convert", "jobs", "--out", "rows.parquet", "--format", "verl-sft", "--dedup-against", "before.parquet"]
    command = [sys.executable, "-c", program, *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=jobs.parent, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Converted 0 row(s) from 2 rollout(s) -> rows.parquet\n"
    assert pq.read_metadata(jobs.parent / "rows.parquet").num_rows == 0


def test_what_cannot_be_compared_stops_before_anything_is_written(jobs):
    with pytest.raises(FlywheelError, match=r"gone.jsonl: the corpus cannot be read"):
        run(jobs, jobs.parent / "gone.jsonl")
    (jobs.parent / "other.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(FlywheelError, match="no row of messages"):
        run(jobs, jobs.parent / "other.jsonl")
    run(jobs, name="before.jsonl")
    with pytest.raises(FlywheelError, match="rows of this layout hold no messages"):
        run(jobs, jobs.parent / "before.jsonl", format="adp")
    assert not (jobs.parent / "rows.jsonl").exists()


def test_a_lake_in_the_home_costs_no_table_library(jobs):
    """Tombstones are no table; a lake of another format is refused all the same."""
    home = jobs.parent / "home"
    (home / "lake").mkdir(parents=True)
    run(jobs, name="before.jsonl")
    code = (
        "import sys; from trace_flywheel.cli.main import main;"
        "code = main(['convert', 'jobs', '--out', 'again.jsonl', '--workers', '1', '--dedup-against', 'before.jsonl']);"
        "sys.exit(f'{code} {sorted(sys.modules)}' if code or 'pyarrow' in sys.modules else 0)"
    )
    root = str(Path(__file__).parents[3])
    env = {**os.environ, "PYTHONPATH": root, "FLYWHEEL_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=jobs.parent, env=env)
    assert done.returncode == 0, done.stderr
    assert (jobs.parent / "again.jsonl").read_bytes() == b""
    assert any((home / "lake").iterdir())
    (home / "lake" / "format").write_text("99\n")
    with pytest.raises(FlywheelError, match=r"format '99'.*another --home"):
        run(jobs, jobs.parent / "before.jsonl", home=home)
