"""The mix is made of rows that were published, and every rollout that lost its last row is told why."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.conftest import Flow, sentence, trace
from trace_flywheel.curation.depth import DepthModel
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.mix import MixShortageError, target_mix
from trace_flywheel.flow import mix_classes
from trace_flywheel.flow.audit import audit
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.datasets import balanced_mix, sft_dataset
from trace_flywheel.flow.freshness import freshness
from trace_flywheel.flow.mix import Chosen, loss, mixed_fates
from trace_flywheel.flow.standing import refusals
from trace_flywheel.lake.dataset import fates, find_version, lines, names, provenance
from trace_flywheel.lake.ledger import fates_table
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.shortage import shortage_of
from trace_flywheel.redaction.policy import policy_named

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


LOST = {"target": {"single": 0.5, "comparison": 0.5}}


def test_a_mix_that_loses_the_whole_set_takes_no_ones_place(flow: MakeFlow) -> None:
    data = {"r1": rows({"single": 3, "multi": 2})}
    first = flow(data, mix={**LOST, "shortage": "renormalize"}).run()["balanced_mix"]
    assert first.rows == 5
    one = flow(data, mix=LOST)
    refused = one.run()["balanced_mix"]
    assert (refused.status, refused.rows, refused.version) == ("refused", 5, first.version)
    assert (refused.ledger.entered, refused.ledger.kept) == (5, 0)
    assert refused.facts["refused"].startswith("comparison has no rows: the mix is empty; set mix.target")
    assert "the version before stays" in refused.facts["refused"]
    assert refused.facts["mix"]["limiting"] == "comparison"
    assert [made.name for made in refusals(one.lake, one.settings)] == ["balanced_mix"]
    assert "balanced_mix" not in freshness(one.lake, one.settings, one.curation().inputs)[1], "not tried over and over"
    mended = flow(data, mix={"target": {"single": 1.0}})
    assert mended.run()["balanced_mix"].status == "made"
    assert refusals(mended.lake, mended.settings) == ()


def test_rows_that_became_goldens_are_not_kept_by_a_refusal(flow: MakeFlow) -> None:
    data = {"r1": rows({"single": 3, "multi": 2})}
    flow(data, mix={**LOST, "shortage": "renormalize"}).run()
    golden = [{"task_id": "single-0", "prompt": "something else entirely", "answer": "nothing"}]
    made = flow(data, golden, mix=LOST).run()["balanced_mix"]
    assert (made.status, made.rows) == ("made", 0)


def test_a_mix_that_loses_the_whole_set_is_no_first_version_either(flow: MakeFlow) -> None:
    one = flow({"r1": rows({"single": 3, "multi": 2})}, mix=LOST)
    refused = one.run()["balanced_mix"]
    assert (refused.status, refused.rows, refused.version) == ("refused", 0, "none")
    assert refused.facts["refused"] == (
        "comparison has no rows: the mix is empty; set mix.target or mix.shortage. Not published"
    )
    assert "balanced_mix" not in names(one.settings.home)
    again = one.run()["balanced_mix"]
    assert (again.status, again.version) == ("refused", "none")
    assert "balanced_mix" not in freshness(one.lake, one.settings, one.curation().inputs)[1], "not tried over and over"


@given(
    st.dictionaries(st.sampled_from(["single", "multi"]), st.integers(1, 4), min_size=1),
    st.sampled_from(["shrink", "fail", "renormalize", "upsample(3)"]),
)
@settings(max_examples=8, deadline=None)
def test_no_empty_version_is_ever_published(counts: dict[str, int], shortage: str) -> None:
    """Whatever is short: rows at the shares, or a refusal (`fail`: an error), never an empty set."""
    labels = [label for label, n in counts.items() for _ in range(n)]
    ids = [f"{label}-{i}" for i, label in enumerate(labels)]
    policy, times = shortage_of(shortage)
    target = {"single": 0.5, "multi": 0.25, "comparison": 0.25}
    try:
        mix = target_mix(labels, ids, target, policy, 42, times)
    except MixShortageError:
        assert policy == "fail"
        return
    chosen = Chosen(dict(zip(ids, labels, strict=True)), frozenset(ids[i] for i in mix.order), mix.report)
    assert (loss(chosen) is None) == (mix.report.total > 0) == (policy == "renormalize")


def test_fates_of_the_mix_are_the_bytes_that_the_same_fates_always_are(flow: MakeFlow, tmp_path: Path) -> None:
    """They come from another file, in which lists are named differently."""
    version = mix_of(flow, {"single": 6, "multi": 3, "comparison": 1})
    write_table(tmp_path / "fates.parquet", fates_table(fates(version).to_pylist()))
    assert (tmp_path / "fates.parquet").read_bytes() == (version.path / "fates.parquet").read_bytes()


def mix_of(flow: MakeFlow, counts: dict[str, int], **mix: Any) -> Any:
    one = flow({"r1": rows(counts)}, mix={"target": {"single": 0.5, "multi": 0.5}, **mix})
    one.run()
    return find_version(one.settings.home, "balanced_mix")


def test_what_is_chosen_does_not_depend_on_how_many_rows_are_labelled_at_once(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flow({"r1": rows({"single": 6, "multi": 5, "comparison": 4})})
    at_once = one.run()["balanced_mix"].version
    shutil.rmtree(one.settings.home / "datasets" / "balanced_mix")
    asked: list[int] = []
    label = DepthModel.label
    monkeypatch.setattr(DepthModel, "label", lambda self, prompts: asked.append(len(prompts)) or label(self, prompts))
    monkeypatch.setattr(mix_classes, "BATCH_BYTES", 1)
    assert balanced_mix(one.curation()).version == at_once
    assert asked == [1] * 15


@pytest.mark.parametrize("mix", [{}, {"depth_from": "both", "unit": "supervised_tokens"}, {"min_confidence": 0.8}])
def test_a_process_of_its_own_says_what_this_one_would(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, mix: dict[str, Any]
) -> None:
    one = flow({"r1": rows({"single": 6, "multi": 5, "comparison": 4})}, mix={"shortage": "renormalize", **mix})
    here = one.run()["balanced_mix"]
    shutil.rmtree(one.settings.home / "datasets" / "balanced_mix")
    monkeypatch.setattr(DepthModel, "label", None)  # nobody is asked here
    monkeypatch.setattr(mix_classes, "MANY", 0)
    apart = balanced_mix(one.curation())
    assert (apart.version, apart.facts["mix"]) == (here.version, here.facts["mix"])


def test_a_classifier_that_fails_in_its_process_is_told_in_one_line(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flow({"r1": rows({"single": 6})})
    one.run()
    version = find_version(one.settings.home, "sft_dataset")
    monkeypatch.setattr(mix_classes, "MANY", 0)
    with pytest.raises(FlywheelError, match="AttributeError in "):
        mix_classes.by_depth(version, None, one.settings.mix)  # type: ignore[arg-type]


def test_weights_stand_in_the_provenance(flow: MakeFlow) -> None:
    version = mix_of(flow, {"single": 6, "multi": 3, "comparison": 1}, mode="weight")
    assert version.rows == 10
    classes = {p.trace_ids[0].split("-")[0]: p.weight for p in provenance(version)}
    assert classes == {"single": 0.5, "multi": 1.0, "comparison": 1.0}  # 1 of 10 is 0.67 of 6, rounded


def test_repeated_rows_stand_in_the_data_and_pass_the_audit(flow: MakeFlow) -> None:
    version = mix_of(flow, {"single": 6, "multi": 2}, shortage="upsample(3)")
    ids = [json.loads(line)["task_id"].split("-")[0] for line in lines(version)]
    assert (ids.count("single"), ids.count("multi")) == (4, 4)
    assert {ids[i] for i in range(2)} == {"single", "multi"}, "the classes are spread evenly"
    faults = audit(version, Crew(Holdout((), 0.5), 1), policy_named("standard"))
    assert [fault for found in faults.values() for fault in found] == []


def test_tokens_are_balanced_and_not_rows(flow: MakeFlow) -> None:
    made = rows({"single": 4, "multi": 4})
    for row in made:
        if row["trace_id"].startswith("multi"):
            row["messages"][1]["content"] = " ".join([row["messages"][1]["content"]] * 3)
    one = flow({"r1": made}, mix={"target": {"single": 0.5, "multi": 0.5}, "unit": "supervised_tokens"})
    report = one.run()["balanced_mix"].facts["mix"]
    assert report["kept"] == {"multi": 1, "single": 4}
    assert report["supply_size"]["multi"] > 2.5 * report["supply_size"]["single"]


def test_any_column_of_rollouts_can_be_balanced(flow: MakeFlow) -> None:
    made = [trace(f"t{i}", f"t{i}", 1.0, i * 7 + 1, agent="a" if i < 5 else "b") for i in range(8)]
    one = flow({"r1": made}, mix={"column": "agent", "target": {"a": 0.5, "b": 0.5}})
    assert one.run()["balanced_mix"].facts["mix"]["kept"] == {"a": 4, "b": 3}
    one = flow({"r1": made}, mix={"column": "colour", "target": {"a": 0.5, "b": 0.5}})
    with pytest.raises(FlywheelError, match="'colour' is none of depth, agent"):
        one.run()


def call(name: str, result: str, **arguments: str) -> list[dict[str, Any]]:
    made = {"id": f"c{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": f"c{name}", "content": result},
    ]


def test_depth_from_the_work_and_what_it_disagrees_about(flow: MakeFlow) -> None:
    made = rows({"single": 4})
    work = [*call("find", "the id is 48151", q="user"), *call("mail", "sent", to="48151")]
    for row in made[:2]:
        row["messages"][1:1] = work
    target = {"single": 0.5, "multi": 0.5}
    one = flow({"r1": made}, mix={"target": target, "depth_from": "both"})
    report = one.run()["balanced_mix"].facts["mix"]
    assert report["supply"] == {"multi": 2, "single": 2}
    assert report["disagreements"] == {"single-hop/multi-hop": 2}
    one = flow({"r1": made}, mix={"target": {"multi": 1.0}, "depth_from": "trajectory"})
    mixed = one.run()["balanced_mix"]
    assert mixed.facts["mix"]["uncertain"] == 2, "a rollout without calls proves nothing"
    assert mixed.ledger.dropped["mix"] == {"uncertain_class": 2}


def test_uncertain_rows_follow_their_policy(flow: MakeFlow) -> None:
    counts = {"single": 3, "multi": 3}
    one = flow({"r1": rows(counts)}, mix={"min_confidence": 1.0})
    assert "every row is uncertain" in one.run()["balanced_mix"].facts["warnings"][-1]
    report = mix_of(flow, counts, min_confidence=1.0, uncertain="other", target={"other": 1.0}).manifest["facts"]["mix"]
    assert report["kept"] == {"other": 6}


def test_a_rollout_stays_or_goes_whole_and_no_rows_are_no_loss() -> None:
    assert loss(Chosen({}, frozenset(), target_mix([], [], {"single": 1.0}, "shrink", 1).report)) is None


def test_fates_after_the_mix() -> None:
    classes = {"r1": "single", "r2": "single", "r3": "other"}
    target = {"single": 1.0, "other": 0.0}
    report = target_mix(list(classes.values()), list(classes), target, "shrink", 42).report
    chosen = Chosen(classes, frozenset({"r1", "r2"}), report)
    fates = [{"trace_id": f"t{i}", "kept": True, "row_ids": [f"r{i}"], "stage": None} for i in (1, 2, 3)]
    fates.append({"trace_id": "t4", "kept": False, "row_ids": [], "stage": "quality"})
    late = {"r2": Drop(Stage.PUBLISH, "layout_refused")}
    mixed = pa.concat_tables(mixed_fates([fates_table(fates)], chosen, {"r1"}, late, target)).to_pylist()
    told = [(f["trace_id"], f["kept"], f["stage"]) for f in mixed]
    assert told == [("t1", True, None), ("t2", False, "publish"), ("t3", False, "mix"), ("t4", False, "quality")]
    assert mixed[2]["reason"] == "not_in_target"
