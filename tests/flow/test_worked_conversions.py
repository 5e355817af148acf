"""The five worked conversions of graded traces, through the whole flow: each input and the exact row it becomes."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, trace
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import find_version, lines, provenance

MakeFlow = Callable[..., Flow]
QUESTION = {"role": "user", "content": "Which invoice is overdue?"}


def graded(trace_id: str, answer: str, verdict: str, reward: float | None, **more: Any) -> dict[str, Any]:
    messages = [QUESTION, {"role": "assistant", "content": answer}]
    row = {"task_id": "t-042", "trace_id": trace_id, "messages": messages, "verdict": verdict, "grader": "exact_match"}
    return {**row, "reward": reward, **more}


def rows(made: Made, layout: str = "messages") -> list[Any]:
    return [json.loads(line) for line in lines(find_version(made.path.parents[2], made.name), layout)]


def reasons(made: Made) -> dict[str, str | None]:
    return {r["trace_id"]: r["reason"] for r in pq.read_table(made.path / "fates.parquet").to_pylist()}


def test_a_graded_trace_becomes_an_sft_row(flow: MakeFlow) -> None:
    made = flow({"r": [graded("t-042-a3", "Invoice 17.", "pass", 0.91)]}).run()["sft_dataset"]
    (row,) = rows(made)
    (told,) = provenance(find_version(made.path.parents[2], made.name))
    assert row["messages"] == [QUESTION, {"role": "assistant", "content": "Invoice 17."}]
    assert (told.run_id.rsplit("/")[-1], told.trace_ids, told.rewards) == ("r", ("t-042-a3",), (0.91,))
    assert (told.kind, told.grader, told.task_id) == ("sft", "exact_match", "t-042")


def test_a_pass_and_a_fail_become_a_preference_pair(flow: MakeFlow) -> None:
    one = flow(
        {"r": [graded("a1", "Invoice 17.", "pass", 0.9), graded("a2", "None of them.", "fail", 0.2)]},
        pairs={"min_group": 2},
    )
    made = one.run()["dpo_dataset"]
    (row,) = rows(made, "trl-dpo")
    assert row["prompt"] == [QUESTION]
    assert row["chosen"] == [{"role": "assistant", "content": "Invoice 17."}]
    assert row["rejected"] == [{"role": "assistant", "content": "None of them."}]
    (told,) = provenance(find_version(made.path.parents[2], made.name))
    assert (told.trace_ids, told.delta, told.rejected_is_min) == (("a1", "a2"), pytest.approx(0.7), True)


def test_a_corrected_failure_becomes_an_sft_row_without_a_reward(flow: MakeFlow) -> None:
    fix = {"content": "Invoice 17, due 3 May.", "corrected_by": "reviewer-7"}
    made = flow({"r": [graded("a1", "No idea.", "fail", None, correction=fix)]}).run()["sft_dataset"]
    (row,) = rows(made)
    assert row["messages"] == [QUESTION, {"role": "assistant", "content": "Invoice 17, due 3 May."}]
    (told,) = provenance(find_version(made.path.parents[2], made.name))
    assert (told.kind, told.corrected_by, told.transforms) == ("correction", "reviewer-7", ("corrected",))


def test_rejection_sampling_keeps_the_top_fraction_of_each_task_whatever_its_level(flow: MakeFlow) -> None:
    """Eight candidates at 0.25 keep two a task; one cut over all tasks would keep none of the hard one."""
    easy = [trace(f"e{i}", "easy", 0.9 + i / 100, 10 + i) for i in range(8)]
    hard = [trace(f"h{i}", "hard", 0.5 + i / 100, 30 + i, "pass") for i in range(8)]
    made = flow({"r": [*easy, *hard]}).run()["sft_dataset"]
    kept = {t for p in provenance(find_version(made.path.parents[2], made.name)) for t in p.trace_ids}
    assert kept == {"e6", "e7", "h6", "h7"}
    facts = json.loads((made.path / "manifest.json").read_text())["facts"]
    assert facts["thresholds"] == {"easy": pytest.approx(0.96), "hard": pytest.approx(0.56)}
    assert reasons(made)["e5"] == "below_fraction"


def test_a_golden_is_held_out_of_every_set(flow: MakeFlow) -> None:
    fix = {"content": "Invoice 17.", "corrected_by": "reviewer-7"}
    mine = [graded("a1", "Invoice 17.", "pass", 0.9), graded("a2", "None.", "fail", 0.1, correction=fix)]
    one = flow({"r": [*mine, trace("free", "other", 1.0, 3)]}, [{"task_id": "t-042"}], pairs={"min_group": 2})
    for name, made in one.run().items():
        if name in ("sft_dataset", "dpo_dataset", "rl_dataset"):
            assert (reasons(made)["a1"], reasons(made)["a2"]) == ("golden_id", "golden_id")
            assert not {t for p in provenance(find_version(made.path.parents[2], name)) for t in p.trace_ids} & {
                "a1",
                "a2",
            }
