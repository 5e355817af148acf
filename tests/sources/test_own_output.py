"""Our own rows below a root are named as ours and never read as a run."""

import json
from pathlib import Path

import pytest

from trace_flywheel.sources.discover import discover

RUN = {"trace_id": "t", "task_id": "k", "messages": [{"role": "user", "content": "q"}], "verdict": "pass"}


def write(folder: Path, name: str, row: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(row) + "\n")
    return folder


@pytest.mark.parametrize("name", ["rows.jsonl", "results.jsonl"])
@pytest.mark.parametrize(
    "mark",
    [{"row_id": "r"}, {"source_sha256": "0"}, {"source": "benchflow-llm-trajectory"}, {"metadata": {"row_id": "r"}}],
)
def test_rows_that_a_flywheel_made_are_no_run(mark: dict[str, object], name: str, tmp_path: Path) -> None:
    write(tmp_path / "out", name, {**mark, **RUN})
    found = discover([tmp_path])
    assert found.runs == ()
    (problem,) = found.problems
    assert problem.evidence["text"] == f"made by flywheel, which does not read its own rows again: {name}"


def test_a_file_of_ours_given_as_a_root_is_told(tmp_path: Path) -> None:
    (problem,) = discover([write(tmp_path, "rows.jsonl", {"row_id": "r", **RUN}) / "rows.jsonl"]).problems
    assert problem.evidence["text"].startswith("made by flywheel")


@pytest.mark.parametrize(
    "row",
    [
        {"messages": []},
        {"prompt": [], "completion": [], "tools": [], "task_id": "t"},
        {"prompt": [], "chosen": [], "rejected": []},
        {"instruction": "q", "response": "a"},
        {"prompt": [], "answer": None, "verifier": "v", "task_id": "t"},
    ],
)
def test_rows_without_our_marks_are_called_what_they_are(row: dict[str, object], tmp_path: Path) -> None:
    (problem,) = discover([write(tmp_path / "out", "rows.jsonl", row).parent]).problems
    assert problem.evidence["text"] == (
        "rows for a trainer, no runs; `flywheel convert` reads such a .jsonl file where it is named itself: rows.jsonl"
    )


def test_other_rows_stay_unknown(tmp_path: Path) -> None:
    (problem,) = discover([write(tmp_path / "out", "rows.jsonl", {"prompt": "p"}) / "rows.jsonl"]).problems
    assert problem.evidence["text"] == "no format known here"


def test_an_eval_run_stays_one(tmp_path: Path) -> None:
    write(tmp_path / "out", "rows.jsonl", RUN)
    assert len(discover([tmp_path]).runs) == 1


def test_a_root_that_is_also_the_home_is_entered_beside_what_we_write(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "a", "results.jsonl", RUN)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "format").write_text("1")
    for name in ("lake/x", "datasets/x", "dagster/x"):
        write(tmp_path / name, "results.jsonl", RUN)
    found = discover([tmp_path])
    assert [run.path.name for run in found.runs] == ["a"]
    assert found.problems == ()
