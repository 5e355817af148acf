"""The mix is made of rows that were published, and every rollout that lost its last row is told why."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.flow.conftest import Flow, sentence, trace
from trace_flywheel.curation.mix import target_mix
from trace_flywheel.flow.datasets import balanced_mix, sft_dataset
from trace_flywheel.flow.mix import Chosen, mixed_fates, told
from trace_flywheel.lake.dataset import find_version, lines
from trace_flywheel.lake.store import LakeError
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage

MakeFlow = Callable[..., Flow]
PROMPTS = {
    "single": "What is the capital of France?",
    "multi": "Find the company that built the bridge, then look up when its founder was born, and compute his age.",
    "comparison": "Compare PostgreSQL and MySQL for a small web shop: which one should we choose and why?",
}


def rows(counts: dict[str, int]) -> list[dict[str, Any]]:
    made = []
    for label, n in counts.items():
        for i in range(n):
            row = trace(f"{label}-{i}", f"{label}-{i}", 1.0, len(made) * 7 + 1)
            row["messages"][0]["content"] = PROMPTS[label] + " " + sentence(100 + len(made), 6)
            made.append(row)
    return made


def test_the_mix_is_a_part_of_the_published_rows(flow: MakeFlow) -> None:
    one = flow({"r1": rows({"single": 6, "multi": 5, "comparison": 4})})
    made = one.run()
    home = one.settings.home
    source, mixed = (set(lines(find_version(home, name))) for name in ("sft_dataset", "balanced_mix"))
    assert mixed <= source
    assert made["balanced_mix"].ledger.entered == 15
    assert made["balanced_mix"].ledger.kept == len(mixed)
    assert made["balanced_mix"].facts["mix"]["total"] == len(mixed)
    tasks = {json.loads(line)["task_id"] for line in mixed}
    assert set(made["balanced_mix"].facts["thresholds"]) == tasks, "no threshold of a row that is not there"


def test_the_mix_needs_its_sft_set(flow: MakeFlow) -> None:
    with pytest.raises(LakeError, match="sft_dataset: not made yet"):
        balanced_mix(flow({"r1": rows({"single": 1})}).curation())


def test_a_shortage_that_must_fail_says_which_class(flow: MakeFlow) -> None:
    one = flow({"r1": rows({"single": 2})}, mix={"shortage": "fail"})
    one.ingest()
    curation = one.curation()
    sft_dataset(curation)
    with pytest.raises(FlywheelError, match="add rows of it, or set"):
        balanced_mix(curation)


def test_an_empty_mix_is_told_with_the_class_that_made_it_so(flow: MakeFlow) -> None:
    one = flow({"r1": rows({"single": 3, "multi": 2})}, mix={"target": {"single": 0.5, "comparison": 0.5}})
    made = one.run()["balanced_mix"]
    assert made.rows == 0
    said = "comparison has no rows: the mix is empty; set mix.target or mix.shortage"
    assert said in made.facts["warnings"]
    assert f"> **Warning.** {said}" in (made.path / "README.md").read_text()


def test_a_mix_with_rows_warns_of_nothing() -> None:
    labels = ["single", "comparison"]
    assert told(target_mix(labels, ["a", "b"], {"single": 1.0, "comparison": 1.0}, "shrink", 1).report) == ()
    assert told(target_mix([], [], {"single": 1.0}, "shrink", 1).report) == (), "there was nothing to choose from"


def test_fates_after_the_mix() -> None:
    classes = {"r1": "single", "r2": "single", "r3": "other"}
    target = {"single": 1.0, "other": 0.0}
    report = target_mix(list(classes.values()), list(classes), target, "shrink", 42).report
    chosen = Chosen(classes, frozenset({"r1", "r2"}), report)
    fates = [{"trace_id": f"t{i}", "kept": True, "row_ids": [f"r{i}"], "stage": None} for i in (1, 2, 3)]
    fates.append({"trace_id": "t4", "kept": False, "row_ids": [], "stage": "quality"})
    late = {"r2": Drop(Stage.PUBLISH, "layout_refused")}
    told = [(f["trace_id"], f["kept"], f["stage"]) for f in mixed_fates(fates, chosen, {"r1"}, late, target)]
    assert told == [("t1", True, None), ("t2", False, "publish"), ("t3", False, "mix"), ("t4", False, "quality")]
    assert mixed_fates(fates, chosen, {"r1"}, late, target)[2]["reason"] == "not_in_target"
