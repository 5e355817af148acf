"""The sample: the same bytes each time, every planted case in it, no secret in the project's own files."""

import hashlib
import json
from pathlib import Path

import pytest

import trace_flywheel.sample
from trace_flywheel.sample.plan import secrets
from trace_flywheel.sample.write import write_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder)
    return folder


def bytes_of(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def results(sample: Path) -> dict[str, dict]:
    whole = [p for p in trials(sample) if p.read_text().endswith("}\n")]
    return {p.parent.name.split("__")[0] + str(i): json.loads(p.read_text()) for i, p in enumerate(whole)}


def trials(sample: Path) -> list[Path]:
    return sorted(sample.rglob("result.json"))


def test_each_writing_gives_the_same_bytes(sample: Path, tmp_path: Path) -> None:
    write_sample(tmp_path)
    assert bytes_of(tmp_path) == bytes_of(sample)


def test_a_second_writing_touches_no_file(tmp_path: Path) -> None:
    write_sample(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()}
    write_sample(tmp_path)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.is_file()} == before


def test_two_finished_jobs_an_eval_run_and_three_recordings(sample: Path) -> None:
    markers = [p.parent.parent.name for p in sorted(sample.glob("benchflow/*/*/results.jsonl"))]
    assert markers == ["claude-code", "opencode"]
    assert all(p.read_text().endswith("}\n") for p in sample.glob("benchflow/*/*/results.jsonl"))
    assert len(list(sample.glob("support/runs/*/results.json"))) == 1
    assert len((sample / "support/eval/goldens.jsonl").read_text().splitlines()) == 2
    assert len(list(sample.glob("recordings/*.atraj"))) == 3


def test_every_planted_case_is_there(sample: Path) -> None:
    found = list(results(sample).values())
    assert [r["rollout_name"] for r in found if r["error_category"] == "timeout"] != []
    assert [r["rollout_name"] for r in found if r["rewards"] is None and r["verifier_error"]] != []
    rewards = [r["rewards"]["reward"] for r in found if r["task_name"] == "fix-date-parser"]
    assert sorted(rewards) == [0.0, 0.0, 1.0, 1.0]
    captures = {p.parents[1].name: p.read_text() for p in sample.rglob("llm_trajectory.jsonl")}
    cut = [name for name, text in captures.items() if not text.endswith("}")]
    assert [name.split("__")[0] for name in cut] == ["rename-columns"]
    unreadable = [p.parent.name for p in trials(sample) if not p.read_text().endswith("}\n")]
    assert [name.split("__")[0] for name in unreadable] == ["rename-columns"]
    rows = json.loads(next(sample.glob("support/runs/*/results.json")).read_text())["results"]
    goldens = [json.loads(line) for line in (sample / "support/eval/goldens.jsonl").read_text().splitlines()]
    assert {g["task_id"] for g in goldens} & {r["task_id"] for r in rows} == {"refund-window"}
    copied = [r["task_id"] for r in rows if r["messages"][1]["content"] == goldens[1]["prompt"]]
    assert copied == ["kb-041"]
    assert [r["task_id"] for r in rows if "correction" in r] == ["cancel-trial"]


def test_secrets_are_planted_and_assembled_at_run_time(sample: Path) -> None:
    written = b"".join(p.read_bytes() for p in sorted(sample.rglob("*")) if p.is_file()).decode()
    own = "".join(p.read_text() for p in Path(str(trace_flywheel.sample.__path__[0])).glob("*.py"))
    for name, value in secrets().items():
        assert value in written, name
        assert value not in own, name
