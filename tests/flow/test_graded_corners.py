"""Graded traces where several rules meet in one task: the outcome of each case was worked out by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.flow.conftest import Flow, Row, group, sentence, trace
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.decided import decided
from trace_flywheel.flow.funnel import Curated, Kind
from trace_flywheel.lake.dataset import find_version, lines, provenance

MakeFlow = Callable[..., Flow]
Pair = tuple[str, str, float]


def curation(one: Flow) -> Curation:
    one.ingest()
    return one.curation()


def told(curated: Curated) -> dict[str, str]:
    """By trace `kept`, or `stage/reason`."""
    traces = curated.index.frame["trace_id"].tolist()
    dropped = curated.drops[["row", "stage", "reason"]].itertuples(index=False)
    lost = {traces[row]: f"{stage}/{reason}" for row, stage, reason in dropped}
    return lost | {traces[row]: "kept" for row in curated.kept.tolist()}


def fates(one: Curation, kind: Kind) -> dict[str, str]:
    return told(decided(one, kind, None))


def evidence(one: Curation, kind: Kind, trace_id: str) -> Any:
    curated = decided(one, kind, None)
    (row,) = [i for i, t in enumerate(curated.index.frame["trace_id"]) if t == trace_id]
    return orjson.loads(curated.drops.set_index("row").loc[row, "evidence"])


def pairs(one: Curation) -> list[Pair]:
    built = decided(one, "pair", None)
    assert built.pairs is not None
    traces, table = built.index.frame["trace_id"].tolist(), built.pairs.table
    sides = zip(table["chosen"], table["rejected"], table["delta"], strict=True)
    return [(traces[c], traces[r], pytest.approx(d)) for c, r, d in sides]


def advantages(one: Curation) -> dict[str, float]:
    given = zip(one.index.frame["trace_id"], one.attempts.groups["advantage"], strict=True)
    return {trace_id: value for trace_id, value in given if value == value}


def kept(found: dict[str, str]) -> set[str]:
    return {trace_id for trace_id, fate in found.items() if fate == "kept"}


def written(path: Path, *rows: Row) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ALL = {"keep_fraction": 1.0}


def test_ties_under_the_cap_go_to_the_newest_policy_and_then_to_the_judge(flow: MakeFlow) -> None:
    """Ten passes of one reward, cap 3: all of the new policy (by its last finish), then the best judged old one."""
    old = {"policy_version": "p1", "finished_at": "2025-03-01T10:00:00Z"}
    new = {"policy_version": "p2", "finished_at": "2025-03-02T10:00:00Z"}
    rows = [trace(f"o{i}", "t", 1.0, 1 + i, **old, judge_score=0.1 * i) for i in range(7)]
    rows += [trace(f"n{i}", "t", 1.0, 20 + i, **new, judge_score=0.0) for i in range(2)]
    rows.append(trace("x", "t", 1.0, 30, judge_score=1.0))  # of no policy: oldest of all
    found = fates(curation(flow({"r": rows}, selection=ALL | {"max_per_task": 3})), "sft")
    assert kept(found) == {"n0", "n1", "o6"}
    assert {fate for name, fate in found.items() if name not in {"n0", "n1", "o6"}} == {"cap/over_task_cap"}


def test_a_corrected_trace_with_step_verdicts_is_the_correction(flow: MakeFlow) -> None:
    """Its step verdicts spoke of the turn that is no longer there; only the corrected turn is learned."""
    row = trace("t", "a", 0.0, 1, step_verdicts=["pass", "fail"])
    row["messages"] += [{"role": "user", "content": "On."}, {"role": "assistant", "content": sentence(2)}]
    row["correction"] = {"content": sentence(3), "corrected_by": "ann"}
    one = flow({"r": [row]})
    made = one.run()["sft_dataset"]
    (about,) = provenance(find_version(one.settings.home, "sft_dataset"))
    assert (about.kind, about.corrected_by, about.masked_steps) == ("correction", "ann", 0)
    (said,) = [json.loads(line)["messages"] for line in lines(find_version(one.settings.home, "sft_dataset"))]
    flags = [(m["content"], m.get("train_on")) for m in said if m["role"] == "assistant"]
    assert flags == [(sentence(1), False), (sentence(3), True)]
    assert made.facts["kinds"] == {"correction": 1}


def test_scores_by_partial_ids_join_what_they_name_and_nothing_else(flow: MakeFlow, tmp_path: Path) -> None:
    scores = written(
        tmp_path / "scores.jsonl",
        {"trace_id": "a-0", "value": 1.0, "judge": "j"},  # stands in two runs: nobody's
        {"trace_id": "a-0", "run_id": "r1", "value": 8, "scale": [0, 10], "judge": "j"},
        {"trace_id": "a-3", "run_id": "data/runs/r1", "value": 3, "scale": [0, 10], "judge": "j"},
        {"trace_id": "b-0", "value": 0.5, "judge": "j"},  # in one run only
    )
    runs = {"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": [*group("b", (1.0, 0.9, 0.2, 0.0), 11)]}
    runs["r2"].append(trace("a-0", "b", 0.95, 15))
    one = curation(flow(runs, judge_scores=[scores]))
    assert pairs(one) == [("a-0", "a-3", 0.5), ("b-0", "b-3", 1.0)]
    assert one.index.joined["judge_scores"] == {"lines": 4, "rollouts": 3, "unmatched": 1, "unjudged": 6}


def test_of_mixed_graders_one_comparable_part_gives_its_pair_and_advantages(flow: MakeFlow) -> None:
    rows = group("a", (1.0, 0.8, 0.2, 0.0), 1)
    rows += [trace("b0", "a", 0.0, 9, grader="judge"), trace("b1", "a", 5.0, 10, "pass", reward_range=[0, 10])]
    one = curation(flow({"r": rows}))
    assert pairs(one) == [("a-0", "a-3", 1.0)]
    found = fates(one, "pair")
    assert (found["b0"], found["b1"]) == ("convertible/mixed_graders", "convertible/mixed_graders")
    rl = fates(one, "rl")
    assert kept(rl) == {"a-0", "a-1", "a-2", "a-3"}
    assert (rl["b0"], rl["b1"]) == ("convertible/mixed_graders", "convertible/mixed_graders")
    # mean 0.5, standard deviation (ddof 1) of 1.0, 0.8, 0.2, 0.0: sqrt(0.68 / 3) = 0.47610
    assert advantages(one) == pytest.approx(
        {"a-0": 1.04998, "a-1": 0.62999, "a-2": -0.62999, "a-3": -1.04998}, abs=1e-5
    )


@pytest.mark.parametrize(
    ("normalisation", "expected"),
    [
        ("loo", {"a-0": 1.0, "a-1": -1.0}),
        ("grpo", {"a-0": 0.5 / (0.5**0.5 + 1e-4), "a-1": -0.5 / (0.5**0.5 + 1e-4)}),
        ("dr-grpo", {"a-0": 0.5, "a-1": -0.5}),
        ("max-rl", {"a-0": 1.0, "a-1": -1.0}),
    ],
)
def test_a_group_of_two_has_a_baseline_and_one_of_one_has_none(
    flow: MakeFlow, normalisation: str, expected: dict[str, float]
) -> None:
    rows = [*group("a", (1.0, 0.0), 1), trace("alone", "b", 1.0, 9)]
    one = curation(flow({"r": rows}, groups={"normalisation": normalisation}))
    assert advantages(one) == pytest.approx(expected)
    assert fates(one, "rl")["alone"] == "groups/single_scored_rollout"


def test_what_broke_off_counts_in_the_spread_and_is_rejected_only_where_set(flow: MakeFlow) -> None:
    rows = group("a", (1.0, 0.9, 0.3, 0.1, 0.0), 1)
    rows[3]["error"] = {"category": "timeout", "by": "agent"}
    rows[4]["is_truncated"] = True
    one = curation(flow({"r": rows}))
    assert pairs(one) == [("a-0", "a-2", 0.7)]
    built = decided(one, "pair", None).pairs
    assert built is not None
    assert built.table["group_size"].tolist() == [5]
    assert built.table["mu"].tolist() == [pytest.approx(0.46)]
    assert built.table["rejected_is_min"].tolist() == [False]
    found = fates(one, "pair")
    assert (found["a-3"], found["a-4"]) == ("pairs/not_selected_for_pair", "quality/truncated")
    assert fates(one, "kto") == {
        "a-0": "pairs/used_in_pair", "a-1": "pairs/no_contrast", "a-2": "pairs/used_in_pair",
        "a-3": "pairs/errored_or_truncated", "a-4": "quality/truncated",
    }  # fmt: skip
    taken = curation(flow({"r": rows}, name="other", pairs={"errored_rejected": True}))
    assert pairs(taken) == [("a-0", "a-4", 1.0)]


def test_the_top_by_delta_goes_round_tasks_of_unequal_size(flow: MakeFlow) -> None:
    """Six tasks' worth of pairs from three tasks, four kept: each task's widest, then the widest second."""
    rows = group("a", (1.0, 0.98, 0.96, 0.94, 0.0, 0.01, 0.02, 0.03), 1)
    rows += group("b", (0.9, 0.85, 0.2, 0.25), 20) + group("c", (0.6, 0.55, 0.3, 0.35), 30)
    one = curation(flow({"r": rows}, pairs={"per_task": 3, "keep": 4}))
    assert pairs(one) == [("a-0", "a-4", 1.0), ("a-1", "a-5", 0.97), ("b-0", "b-2", 0.7), ("c-0", "c-2", 0.3)]
    found = fates(one, "pair")
    assert {found[name] for name in ("a-2", "a-6", "b-1", "b-3", "c-1", "c-3")} == {"pairs/below_delta"}
    assert (found["a-3"], found["a-7"]) == ("pairs/not_selected_for_pair", "pairs/not_selected_for_pair")
    # after four: 0.6 (b), 0.2 (c) in the second round, 0.94 (a) in the third
    assert [evidence(one, "pair", name)["rank"] for name in ("b-1", "c-1", "a-2")] == [5, 6, 7]


@pytest.mark.parametrize(
    ("per_task", "labels"),
    [
        (1, {"a-1": True, "a-2": True, "a-4": False, "a-5": False}),
        (2, {"a-2": True, "a-5": False}),
        (3, {}),
    ],
)
def test_unpaired_answers_are_what_the_pairs_leave(flow: MakeFlow, per_task: int, labels: dict[str, bool]) -> None:
    rows = group("a", (1.0, 0.9, 0.8, 0.0, 0.1, 0.2), 1)
    one = curation(flow({"r": rows}, pairs={"per_task": per_task}))
    assert len(pairs(one)) == per_task
    found = fates(one, "kto")
    assert kept(found) == labels.keys()
    assert set(found.values()) - {"kept"} == {"pairs/used_in_pair"}
    verdicts = dict(zip(one.index.frame["trace_id"], one.index.frame["verdict"], strict=True))
    assert {name: verdicts[name] == "pass" for name in labels} == labels


def test_graded_twice_again_the_last_counts_and_the_first_is_kept(flow: MakeFlow, tmp_path: Path) -> None:
    verdicts = written(
        tmp_path / "v.jsonl",
        {"trace_id": "a-0", "run_id": "r1", "verdict": "fail", "reward": 0.1, "grader": "ann"},
        {"trace_id": "a-0", "run_id": "r2", "verdict": "fail", "reward": 0.2, "grader": "ann"},
        {"trace_id": "a-0", "run_id": "r1", "verdict": "pass", "reward": 0.6, "grader": "bob", "grader_version": "2"},
    )
    runs = {"r1": [trace("a-0", "a", 1.0, 1)], "r2": [trace("a-0", "b", 0.9, 2)]}
    one = curation(flow(runs, grading={"verdicts": [verdicts]}))
    frame = one.index.frame.set_index("run_id")
    (first, second) = (frame.loc[f"data/runs/{run}"] for run in ("r1", "r2"))
    assert (first["verdict"], first["reward"], first["grader"], first["grader_version"]) == ("pass", 0.6, "bob", "2")
    assert (second["verdict"], second["reward"], second["grader"]) == ("fail", 0.2, "ann")
    before = json.loads(first["superseded"])
    assert (before["verdict"], before["reward"], before["grader"], before["by"]) == ("pass", 1, "exact", "v.jsonl:3")
    assert one.index.joined["verdicts"] == {"lines": 3, "rollouts": 2, "unmatched": 0}


def test_a_golden_holds_out_by_alias_in_its_suite_and_by_what_it_says_in_every_other(flow: MakeFlow) -> None:
    statement = sentence(90, 24)
    golden = {"task_id": "g", "suite": "s", "aliases": ["any", {"task_id": "own", "suite": "s"}], "prompt": statement}
    rows = [
        trace("by-id", "g", 1.0, 1, suite="s"),
        trace("other-suite", "g", 1.0, 2, suite="z"),
        trace("by-alias", "any", 1.0, 3, suite="z"),
        trace("alias-of-suite", "own", 1.0, 4, suite="s"),
        trace("alias-elsewhere", "own", 1.0, 5, suite="z"),
        trace("said", "free", 1.0, 6),
        trace("half", "free2", 1.0, 7),
        trace("by-a-tool", "free3", 1.0, 8),
    ]
    words = statement.split()
    rows[5]["messages"][0]["content"] = f"Please: {statement}"
    rows[6]["messages"][0]["content"] = " ".join(words[:14])  # 7 of its 17 runs of eight words
    call = {"id": "c", "function": {"name": "read", "arguments": "{}"}}
    rows[7]["messages"][1:1] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": statement},
    ]
    one = curation(flow({"r": rows}, [golden], selection=ALL))
    for kind in ("sft", "kto", "rl", "pair", "prompt"):
        found = fates(one, kind)
        assert {n for n, f in found.items() if f == "golden/golden_id"} == {"by-id", "by-alias", "alias-of-suite"}
        assert {n for n, f in found.items() if f == "golden/golden_near_duplicate"} == {"said"}
    assert kept(fates(one, "sft")) == {"other-suite", "alias-elsewhere", "half", "by-a-tool"}
    assert evidence(one, "sft", "said")["share"] == 1.0


def test_a_correction_that_gives_a_golden_away_is_held_out(flow: MakeFlow) -> None:
    answer = sentence(91, 12)
    fix = {"content": f"It is {answer}", "corrected_by": "ann"}
    rows = [trace("a", "t", 0.0, 1, correction=fix), trace("b", "t", 1.0, 2)]
    found = fates(curation(flow({"r": rows}, [{"task_id": "g", "answer": answer}])), "sft")
    assert found == {"a": "golden/golden_near_duplicate", "b": "kept"}


@pytest.mark.parametrize(("mode", "expected"), [("cumulative", {"a", "b", "c"}), ("delta", {"c"})])
def test_a_version_is_whole_or_only_what_all_named_ones_lack(flow: MakeFlow, mode: str, expected: set[str]) -> None:
    rows = {"r1": [trace("a", "a", 1.0, 1)]}
    first = flow(rows)
    first.run()
    one = find_version(first.settings.home, "sft_dataset").version
    corpora = [f"dataset:sft_dataset@{one}"]
    second = flow({"r2": [trace("b", "b", 1.0, 9)]}, corpora=corpora, dedup={"mode": "delta"})
    second.run()
    two = find_version(first.settings.home, "sft_dataset")
    assert [p.trace_ids for p in provenance(two)] == [("b",)]
    corpora.append(f"dataset:sft_dataset@{two.version}")
    third = flow({"r3": [trace("c", "c", 1.0, 19)]}, corpora=corpora, dedup={"mode": mode})
    found = fates(curation(third), "sft")
    assert kept(found) == expected
    assert set(found.values()) - {"kept"} == ({"exact_duplicate/corpus_exact_duplicate"} if mode == "delta" else set())


def test_each_grader_keeps_its_own_fraction_and_the_cap_is_of_both(flow: MakeFlow) -> None:
    """Of 4 and 8 passes a quarter is 1 and 2; the cap of 2 takes the best of the three, whatever its grader."""
    rows = [trace(f"x{i}", "t", 0.5 + i / 100, 1 + i, "pass") for i in range(4)]
    rows += [trace(f"y{i}", "t", 0.9 + i / 100, 20 + i, grader="other") for i in range(8)]
    found = fates(curation(flow({"r": rows}, selection={"max_per_task": 2})), "sft")
    assert kept(found) == {"y7", "y6"}
    assert found["x3"] == "cap/over_task_cap"
    assert {found[n] for n in ("x0", "x1", "x2", "y0", "y5")} == {"selection/below_fraction"}


def test_a_correction_stands_for_the_attempts_that_say_the_same(flow: MakeFlow) -> None:
    """Exactly and nearly: the correction is kept, and the passes go although they have a reward."""
    said = sentence(5, 80)
    rows = [trace("same", "t", 1.0, 5), trace("near", "t", 0.9, 6), trace("own", "t", 0.8, 7)]
    rows[0]["messages"][1]["content"] = said.upper()
    rows[1]["messages"][1]["content"] = f"{said} indeed"
    rows.append(trace("fixed", "t", 0.0, 8, correction={"content": said, "corrected_by": "ann"}))
    found = fates(curation(flow({"r": rows}, selection=ALL)), "sft")
    assert found == {
        "same": "exact_duplicate/exact_duplicate",
        "near": "near_duplicate/near_duplicate",
        "own": "kept",
        "fixed": "kept",
    }


def test_a_regrade_makes_the_group_comparable_again(flow: MakeFlow, tmp_path: Path) -> None:
    """Half of the group was judged by another version; verdicts of one grader for all of it give the pair."""
    rows = [trace(f"a-{i}", "a", r, 1 + i, grader_version=str(i % 2)) for i, r in enumerate((1.0, 0.9, 0.1, 0.0))]
    assert pairs(curation(flow({"r": rows}))) == []
    assert set(fates(flow({"r": rows}).curation(), "pair").values()) == {"convertible/mixed_graders"}
    given = ({"trace_id": f"a-{i}", "verdict": v, "reward": r, "grader": "ann"} for i, (v, r) in enumerate(
        (("fail", 0.0), ("pass", 0.8), ("pass", 1.0), ("fail", 0.3))))  # fmt: skip
    verdicts = written(tmp_path / "v.jsonl", *given)
    one = curation(flow({"r": rows}, grading={"verdicts": [verdicts]}))
    assert pairs(one) == [("a-2", "a-0", 1.0)]
    assert kept(fates(one, "rl")) == {"a-0", "a-1", "a-2", "a-3"}
