"""Grades and corrections that come in files: joined by name, told where they fit nothing, never lost in a refresh."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, group, sentence, trace
from trace_flywheel.cli.main import main
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import find_version, lines, provenance
from trace_flywheel.records.errors import FlywheelError

MakeFlow = Callable[..., Flow]


def file_of(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fates(made: Made) -> dict[str, dict[str, Any]]:
    """By trace, from the newest curation's table beside the rows."""
    rows = pq.read_table(made.path / "fates.parquet").to_pylist()
    return {r["trace_id"]: {**r, "evidence": json.loads(r["evidence"] or "{}")} for r in rows}


def manifest(made: Made) -> Any:
    return json.loads((made.path / "manifest.json").read_text())


def rows_of(made: Made) -> list[Any]:
    return [json.loads(line) for line in lines(find_version(made.path.parents[2], made.name))]


def test_what_needs_grading_comes_back_by_a_verdict_file(flow: MakeFlow, tmp_path: Path) -> None:
    runs = {"r1": [trace("n", "a", None, 1, "unsure"), *group("b", (1.0,), 9)]}
    first = flow(runs)
    first.run()
    listed = [json.loads(line) for line in (first.lake.root / "needs_grading.jsonl").read_text().splitlines()]
    assert [(one["trace_id"], one["reason"]) for one in listed] == [("n", "no_verdict")]
    back = [
        {"trace_id": one["trace_id"], "run_id": one["run_id"], "verdict": "pass", "reward": 1, "grader": "ann"}
        for one in listed
    ]
    given = {"verdicts": [file_of(tmp_path / "verdicts.jsonl", *back)]}
    second = Flow(first.root, first.settings.home, grading=given)
    made = second.run()["sft_dataset"]
    assert second.results == ()  # no text is read again for a grade
    assert fates(made)["n"]["kept"]
    assert fates(made)["n"]["evidence"]["superseded"]["verdict_text"] == '"unsure"'
    by_trace = {p.trace_ids[0]: p for p in provenance(find_version(second.settings.home, "sft_dataset"))}
    assert (by_trace["n"].grader, by_trace["n"].rewards) == ("ann", (1.0,))
    assert (second.lake.root / "needs_grading.jsonl").read_text() == ""
    assert manifest(made)["facts"]["verdicts"] == {"lines": 1, "rollouts": 1, "unmatched": 0}


def test_a_regrade_moves_advantages_pairs_and_rows(flow: MakeFlow, tmp_path: Path) -> None:
    verdicts = file_of(
        tmp_path / "v.jsonl",
        *({"trace_id": f"a-{i}", "verdict": v, "reward": r, "grader": "exact", "grader_version": "2"}
          for i, (v, r) in enumerate([("fail", 0.0), ("pass", 0.9), ("fail", 0.1), ("fail", 0.2)])),
        {"trace_id": "nobody", "verdict": "pass", "grader": "ann"},
    )  # fmt: skip
    one = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1)}, grading={"verdicts": [verdicts]})
    made = one.run()
    assert [p.trace_ids for p in provenance(find_version(one.settings.home, "sft_dataset"))] == [("a-1",)]
    (pair,) = provenance(find_version(one.settings.home, "dpo_dataset"))
    assert (pair.trace_ids, pair.rewards, pair.grader_version) == (("a-1", "a-0"), (0.9, 0.0), "2")
    assert fates(made["sft_dataset"])["a-0"]["reason"] == "not_passing"
    assert fates(made["sft_dataset"])["a-0"]["evidence"]["superseded"]["reward"] == 1
    rewards = {p.trace_ids[0]: p.rewards for p in provenance(find_version(one.settings.home, "rl_dataset"))}
    assert rewards == {"a-0": (0.0,), "a-1": (0.9,), "a-2": (0.1,), "a-3": (0.2,)}
    (warning,) = manifest(made["sft_dataset"])["warnings"]
    assert warning == "1 verdicts fit no rollout, or several; the first is v.jsonl:5."


def test_judges_decide_the_delta_and_the_unjudged_are_counted(flow: MakeFlow, tmp_path: Path) -> None:
    scores = file_of(
        tmp_path / "scores.jsonl",
        {"trace_id": "a-0", "value": 9, "scale": [0, 10], "judge": "j"},
        {"trace_id": "a-3", "run_id": "r1", "value": 2, "scale": [0, 10], "judge": "j"},
        {"trace_id": "b-0", "value": 1.0, "judge": "j"},
        {"trace_id": "b-3", "value": 0.9, "judge": "k"},
        {"trace_id": "gone", "value": 1.0, "judge": "j"},
    )
    runs = {"r1": [*group("a", (1.0, 0.9, 0.2, 0.0), 1), *group("b", (1.0, 0.9, 0.2, 0.0), 21)]}
    one = flow(runs, judge_scores=[scores])
    made = one.run()["dpo_dataset"]
    deltas = {p.task_id: p.delta for p in provenance(find_version(one.settings.home, "dpo_dataset"))}
    assert deltas == {"a": 0.7, "b": 1.0}  # two judges of one pair have no difference to speak of
    assert manifest(made)["facts"]["judge_scores"] == {"lines": 5, "rollouts": 4, "unmatched": 1, "unjudged": 4}
    by_reward = flow(runs, name="other", judge_scores=[scores], pairs={"delta_source": "reward"})
    by_reward.run()
    assert {p.delta for p in provenance(find_version(by_reward.settings.home, "dpo_dataset"))} == {1.0}


def test_a_correction_from_a_file_becomes_the_row(flow: MakeFlow, tmp_path: Path) -> None:
    token = "ghp_" + "a" * 36
    fixes = file_of(
        tmp_path / "fixes.jsonl",
        {"trace_id": "a-1", "run_id": "r1", "content": sentence(49), "corrected_by": "bob"},
        {"trace_id": "a-1", "run_id": "r1", "content": sentence(50), "corrected_by": "ann"},
        {"trace_id": "a-2", "run_id": "elsewhere", "content": "not here"},
        {"trace_id": "a-3", "content": f"Use {token}."},
        {"trace_id": "a-3"},
    )
    one = flow({"r1": group("a", (1.0, 0.0, 0.0, 0.0), 1)}, corrections=[fixes])
    made = one.run()["sft_dataset"]
    by_trace = {p.trace_ids[0]: p for p in provenance(find_version(one.settings.home, "sft_dataset"))}
    assert set(by_trace) == {"a-0", "a-1"}
    fixed = by_trace["a-1"]
    assert (fixed.kind, fixed.corrected_by, fixed.grader) == ("correction", "ann", "exact")
    assert fixed.transforms == ("corrected",)
    assert fates(made)["a-3"]["reason"] == "nothing_to_train_on"  # it would teach a placeholder
    text = json.dumps(rows_of(made))
    assert sentence(50) in text
    assert token not in text
    assert sentence(2) not in text
    assert manifest(made)["facts"]["kinds"] == {"correction": 1, "sft": 1}
    assert "from_human_correction: 1" in (made.path / "README.md").read_text()
    assert sentence(49) not in text
    assert manifest(made)["warnings"] == [
        "1 corrections are replaced by a later one of their trace; the first is of trace 'a-1'.",
        "1 corrections fit no rollout; the first is of trace 'a-2'.",
        "1 lines of input files could not be used; the first is fixes.jsonl:5.",
    ]


def test_only_the_corrected_turn_of_a_conversation_is_learned(flow: MakeFlow, tmp_path: Path) -> None:
    row = trace("t", "a", 0.0, 1)
    row["messages"] += [{"role": "user", "content": "Again."}, {"role": "assistant", "content": sentence(2)}]
    fixes = file_of(tmp_path / "fixes.jsonl", {"trace_id": "t", "content": sentence(3), "turn": 0})
    (made,) = rows_of(flow({"r1": [row]}, corrections=[fixes]).run()["sft_dataset"])
    assert [(m["content"], m["train_on"]) for m in made["messages"] if m["role"] == "assistant"] == [
        (sentence(3), True),
        (sentence(2), False),
    ]


def test_step_verdicts_mask_and_failing_traces_enter_by_them(flow: MakeFlow) -> None:
    def steps(trace_id: str, reward: float, seed: int, *verdicts: str) -> dict[str, Any]:
        row = trace(trace_id, trace_id, reward, seed, step_verdicts=list(verdicts))
        row["messages"] += [{"role": "user", "content": "On."}, {"role": "assistant", "content": sentence(seed + 1)}]
        return row

    one = flow({"r1": [
        steps("masked", 1.0, 1, "pass", "fail"),
        steps("failing", 0.0, 11, "fail", "pass"),
        steps("nothing", 0.0, 21, "fail", "fail"),
        steps("short", 1.0, 31, "pass"),
    ]})  # fmt: skip
    made = one.run()["sft_dataset"]
    by_task = {row["task_id"]: [m.get("train_on") for m in row["messages"] if m["role"] == "assistant"]
               for row in rows_of(made)}  # fmt: skip
    assert by_task == {"masked": [True, False], "failing": [False, True]}
    assert fates(made)["nothing"]["reason"] == "nothing_to_train_on"
    assert fates(made)["short"]["reason"] == "mask_mismatch"
    assert {p.masked_steps for p in provenance(find_version(one.settings.home, "sft_dataset"))} == {1}
    split = [json.loads(line) for line in lines(find_version(one.settings.home, "sft_dataset"), "trl-sft")]
    learned = {row["task_id"]: row["completion"][-1]["content"] for row in split}
    assert learned == {"masked": sentence(1), "failing": sentence(12)}


def test_why_tells_the_earlier_grade_in_words(
    flow: MakeFlow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = file_of(
        tmp_path / "v.jsonl",
        {"trace_id": "a-0", "verdict": "fail", "reward": 0.0, "grader": "ann"},
        {"trace_id": "n", "verdict": "pass", "reward": 1.0, "grader": "ann"},
    )
    rows = [*group("a", (1.0, 0.9), 1), trace("n", "b", None, 9, "unsure")]
    one = flow({"r1": rows}, grading={"verdicts": [verdicts]})
    one.run()
    for name, said in (("a-0", "pass, reward 1 by exact@1"), ("n", '"unsure" by exact@1')):
        assert main(["why", name, "--home", str(one.settings.home)]) == 0
        told = capsys.readouterr().out
        assert f"superseded: {said}; v.jsonl:{1 + (name == 'n')} stands in its place" in told
    assert "dropped: selection/not_passing" not in told


def test_a_warning_of_an_unusable_line_goes_with_the_line(flow: MakeFlow, tmp_path: Path) -> None:
    """Verdicts that say the same are the same input, but a version also tells of the lines that say nothing."""
    verdicts = tmp_path / "verdicts.jsonl"
    verdicts.write_text("")
    one = flow({"r1": group("a", (1.0, 0.0), 1)}, grading={"verdicts": [str(verdicts)]})
    clean = one.run()["sft_dataset"]
    verdicts.write_text("{broken\n")
    warned = one.run()["sft_dataset"]
    assert manifest(warned)["warnings"] == ["1 lines of input files could not be used; the first is verdicts.jsonl:1."]
    verdicts.write_text("")
    assert one.run()["sft_dataset"].version == clean.version


def test_a_file_of_verdicts_that_is_away_brings_no_earlier_grade_back(
    flow: MakeFlow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best pass was graded anew as a failure: without the file it would be trained on again."""
    again = {"trace_id": "a-0", "verdict": "fail", "reward": 0.0, "grader": "ann"}
    verdicts = file_of(tmp_path / "v.jsonl", again)
    one = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1)}, grading={"verdicts": [verdicts]})
    before = one.run()["sft_dataset"]
    assert fates(before)["a-0"]["reason"] == "not_passing"
    verdicts.rename(tmp_path / "elsewhere.jsonl")
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    monkeypatch.setenv("FLYWHEEL_GRADING__VERDICTS", json.dumps([str(verdicts)]))
    home = ["--home", str(one.settings.home)]
    for command in (["refresh"], ["purge", "--trace", "a-3", "--reason", "x"]):
        assert main([*command, *home]) == 1
        assert f"{verdicts}: the file of verdicts is away" in capsys.readouterr().err
    with pytest.raises(FlywheelError, match="the file of verdicts is away"):
        one.run()
    assert find_version(one.settings.home, "sft_dataset").version == before.version
    assert not (one.lake.root / "purged.jsonl").exists()
    monkeypatch.delenv("FLYWHEEL_GRADING__VERDICTS")
    assert fates(Flow(one.root, one.settings.home).run()["sft_dataset"])["a-0"]["kept"]
    (tmp_path / "elsewhere.jsonl").rename(verdicts)
    assert fates(one.run()["sft_dataset"])["a-0"]["reason"] == "not_passing"
