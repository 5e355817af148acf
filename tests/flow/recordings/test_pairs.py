"""`--mode dpo`: one prompt, two answers, from rewards, judges or corrections; and why a group gives none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import answer, call, record, rows_of, user
from trace_flywheel.flow.recordings.report import Report
from trace_flywheel.flow.recordings.traces_to_data import Request, traces_to_data
from trace_flywheel.trainers.trl_dpo import LAYOUT

Run = Callable[..., tuple[Report, list[dict[str, Any]]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def export(**options: Any) -> tuple[Report, list[dict[str, Any]]]:
        out = tmp_path / "out.jsonl"
        report = traces_to_data(Request(**{"folder": tmp_path / "in", "out": out, "mode": "dpo", **options}))
        return report, rows_of(out)

    return export


def test_best_against_worst_by_reward(tmp_path: Path, run: Run) -> None:
    for name, text, reward in (("a", "Bergen", 0.0), ("b", "Oslo", 1.0), ("c", "Stockholm", 0.2)):
        record(tmp_path / "in", name, user("Capital of Norway?"), answer(text, reward=reward), task="geo")
    report, (row,) = run()
    assert not list(LAYOUT.validate(row))
    assert row["prompt"] == [{"role": "user", "content": "Capital of Norway?"}]
    answers = [row[side][0]["content"] for side in ("chosen", "rejected")]
    assert answers == ['{"answer": "Oslo"}', '{"answer": "Bergen"}']
    assert (row["preferred_by"], row["margin"], row["rewards"]) == ("reward", 1.0, [1.0, 0.0])
    assert (row["rollout_ids"], row["steps"], row["reward_scope"]) == (["b", "a"], [1, 1], "step")
    assert (row["task"], report.emitted) == ("geo", 1)


def test_the_original_trainers_shape_is_whole_conversations(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("q"), answer("good", reward=1))
    record(tmp_path / "in", "b", user("q"), answer("poor", reward=0))
    (row,) = run(shape="posttrainllm")[1]
    assert "prompt" not in row
    assert row["chosen"] == [user("q"), answer("good")]
    assert row["rejected"] == [user("q"), answer("poor")]


def test_the_prompt_ends_where_the_attempts_part(tmp_path: Path, run: Run) -> None:
    shared = (user("q"), *call("ls", "x"))
    record(tmp_path / "in", "a", *shared, *call("cat", "42", path="x"), answer("42", reward=1))
    record(tmp_path / "in", "b", *shared, answer("I guess 7", reward=0))
    (row,) = run()[1]
    assert [m["role"] for m in row["prompt"]] == ["user", "assistant", "tool"]
    assert row["chosen"][0]["tool_calls"][0]["function"] == {"name": "cat", "arguments": {"path": "x"}}
    assert len(row["chosen"]) == len(row["rejected"]) == 1
    assert row["reward_scope"] == "rollout"
    assert row["steps"] == [3, 3]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ([user("q"), answer("a", reward=1)], [user("r"), answer("b", reward=0)], "single_rollout"),
        ([user("q"), answer("a")], [user("q"), answer("b")], "no_score"),
        ([user("q"), answer("a", reward=1)], [user("q"), answer("b", reward=1)], "no_margin"),
        ([user("q"), answer("a", reward=1)], [user("q"), answer("A", reward=0)], "identical_responses"),
        (
            [user("q"), answer("a"), user("x"), answer("b", reward=1)],
            [user("q"), answer("a"), user("y"), answer("c", reward=0)],
            "user_divergence",
        ),
        (
            [user("q"), *call("ls", "x"), answer("a", reward=1)],
            [user("q"), *call("ls", "y"), answer("b", reward=0)],
            "user_divergence",
        ),
    ],
)
def test_a_group_without_a_pair_says_why(
    tmp_path: Path, run: Run, first: list[dict[str, Any]], second: list[dict[str, Any]], reason: str
) -> None:
    record(tmp_path / "in", "a", *first)
    record(tmp_path / "in", "b", *second)
    report, rows = run()
    assert rows == []
    assert set(report.dropped) == {reason}


def test_the_next_best_combination_is_tried(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("q"), answer("yes", reward=1))
    record(tmp_path / "in", "b", user("q"), answer("YES", reward=0))
    record(tmp_path / "in", "c", user("q"), answer("no", reward=0.3))
    (row,) = run()[1]
    assert row["rollout_ids"] == ["a", "c"]
    assert run(min_margin=0.8)[1] == []


def test_judges_order_where_rewards_do_not(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("q"), answer("poor"))
    record(tmp_path / "in", "b", user("q"), answer("good"))
    scores = tmp_path / "s.jsonl"
    lines = [{"target": {"trace_id": name}, "value": value} for name, value in (("a", 0.2), ("b", 0.9))]
    scores.write_text("\n".join(map(json.dumps, lines)))
    (row,) = run(judgments=scores)[1]
    assert (row["preferred_by"], row["rollout_ids"], row["reward_scope"]) == ("judge", ["b", "a"], None)
    assert row["margin"] == pytest.approx(0.7)


def test_a_correction_beats_what_it_corrects(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("q"), answer("wrong"), user("r"), answer("fine"))
    record(tmp_path / "in", "b", user("s"), answer("same"))
    fixes = tmp_path / "fix.jsonl"
    lines = [
        {"trace_id": "a", "content": "right", "turn": 0, "corrected_by": "ann"},
        {"trace_id": "b", "content": '{"answer": "SAME"}'},
    ]
    fixes.write_text("\n".join(map(json.dumps, lines)))
    report, (row,) = run(corrections=fixes)
    assert row["prompt"] == [{"role": "user", "content": "q"}]
    assert (row["chosen"][0]["content"], row["rejected"][0]["content"]) == ("right", '{"answer": "wrong"}')
    assert (row["preferred_by"], row["margin"], row["steps"]) == ("correction", None, [1, 1])
    assert report.dropped == {"correction_changes_nothing": 1}


def test_non_finite_rewards_are_no_scores(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("q"), answer("a", reward=float("nan")))
    record(tmp_path / "in", "b", user("q"), answer("b", reward=0))
    report, rows = run()
    assert (rows, report.dropped) == ([], {"no_score": 1})


def test_pairs_do_not_depend_on_the_order_of_files(tmp_path: Path, run: Run) -> None:
    texts = {"w": 0.0, "x": 1.0, "y": 1.0, "z": 0.0}
    for i, (text, reward) in enumerate(texts.items()):
        record(tmp_path / "in", f"{i}", user("q"), answer(text, reward=reward))
    first = run()[1][0]
    for i, (text, reward) in enumerate(reversed(texts.items())):
        record(tmp_path / "in", f"{i}", user("q"), answer(text, reward=reward))
    assert first["row_id"] == run()[1][0]["row_id"]


EVENTS = [
    {"id": "E1", "intentKind": "fix", "input": "Capital of Norway?", "original": "Bergen", "corrected": "Oslo"},
    {"id": "E2", "input": "Who wrote Faust?", "original": "Schiller", "corrected": "Goethe", "source": "ann"},
    {"version": 1, "id": "E3", "original": "7", "corrected": "8"},
    {"version": 1, "id": "E4", "input": "same", "original": "same", "corrected": "same"},
]


def test_correction_events_pair_what_was_said_with_what_should_have_been(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("Hi"), answer("Hello"), user("capital of  Norway?"), answer("Bergen"))
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(map(json.dumps, EVENTS)))
    report, rows = run(corrections=events)
    assert [list(LAYOUT.validate(row)) for row in rows] == [[], []]
    recorded, alone = rows
    assert recorded["rollout_ids"] == ["a", "a"]
    assert [m["role"] for m in recorded["prompt"]] == ["user", "assistant", "user"]
    answers = [recorded[side][0]["content"] for side in ("chosen", "rejected")]
    assert answers == ['{"answer":"Oslo"}', '{"answer": "Bergen"}'], "the recorder's protocol stays"
    assert alone["prompt"] == [{"role": "user", "content": "Who wrote Faust?"}]
    assert (alone["chosen"][0]["content"], alone["rejected"][0]["content"]) == ("Goethe", "Schiller")
    assert (alone["rollout_ids"], alone["preferred_by"]) == (["E2", "E2"], "correction")
    assert report.dropped == {"correction_changes_nothing": 1}
    assert [(one.line, one.of, one.reason) for one in report.corrections_unused] == [(3, "E3", "without_input")]


def test_in_sft_a_corrected_answer_takes_the_place_of_the_wrong_one(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("Capital of Norway?"), answer("Bergen"))
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(map(json.dumps, EVENTS)))
    report, rows = run(corrections=events, mode="sft")
    taught = {row["messages"][0]["content"]: row["messages"][1]["content"] for row in rows}
    assert taught == {"Capital of Norway?": '{"answer":"Oslo"}', "Who wrote Faust?": "Goethe", "same": "same"}
    assert all(row["corrected"] for row in rows)
    assert [(one.line, one.reason) for one in report.corrections_unused] == [(3, "without_input")]


FIX, LATER = {"trace_id": "a", "content": "right", "turn": 0}, {"trace_id": "a", "content": "better", "turn": 1}
QUOTE = {"id": "E", "input": "q", "original": "wrong", "corrected": "quoted"}


@pytest.mark.parametrize(
    ("lines", "taken", "unused"),
    [
        ([FIX, LATER], "better", [(1, "a", "superseded", "line 2 corrects the same recording")]),
        ([LATER, FIX], "right", [(1, "a", "superseded", "line 2 corrects the same recording")]),
        ([QUOTE, FIX], "right", [(1, "a", "superseded", "line 2 corrects the same recording")]),
        ([FIX, QUOTE], '{"answer":"quoted"}', [(1, "a", "superseded", "line 2 corrects the same recording")]),
        (
            [FIX, {"trace_id": "a", "content": "none", "turn": 2}],
            "right",
            [(2, "a", "no_such_turn", "names turn 2, the recording has 2 assistant turns")],
        ),
        (
            [FIX, FIX, LATER],
            "better",
            [(line, "a", "superseded", "line 3 corrects the same recording") for line in (1, 2)],
        ),
    ],
)
def test_of_several_corrections_the_last_that_fits_counts_and_the_others_are_told(
    tmp_path: Path, run: Run, lines: list[dict[str, Any]], taken: str, unused: list[tuple[Any, ...]]
) -> None:
    record(tmp_path / "in", "a", user("q"), answer("wrong"), user("r"), answer("fine"))
    fixes = tmp_path / "fix.jsonl"
    fixes.write_text("\n".join(map(json.dumps, lines)))
    for mode in ("dpo", "sft"):
        report, (row,) = run(corrections=fixes, mode=mode)
        said = row["chosen"] if mode == "dpo" else row["messages"][1:]
        assert said[0]["content"] == taken
        assert [tuple(one.values()) for one in report.as_dict()["corrections_unused"]] == unused


def test_of_events_about_one_answer_or_with_one_id_the_last_counts(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("q"), answer("a"))
    events = tmp_path / "events.jsonl"
    lines = [
        {"id": "E1", "input": "Who wrote Faust?", "original": "Schiller", "corrected": "Lessing"},
        {"id": "E2", "input": "who wrote  Faust?", "original": "schiller", "corrected": "Goethe"},
        {"id": "E3", "input": "7 + 1?", "original": "7", "corrected": "9"},
        {"id": "E3", "input": "7 + 1 =", "original": "6", "corrected": "8"},
    ]
    events.write_text("\n".join(map(json.dumps, lines)))
    report, rows = run(corrections=events)
    assert {row["chosen"][0]["content"] for row in rows} == {"Goethe", "8"}
    told = [(one.line, one.of, one.reason, one.text) for one in report.corrections_unused]
    assert told == [
        (1, "E1", "superseded", "line 2 corrects the same recording"),
        (3, "E3", "superseded", "line 4 corrects the same recording"),
    ]


@pytest.mark.parametrize("mode", ["sft", "dpo", "kto"])
def test_a_correction_of_a_turn_that_is_missing_is_counted_and_its_recording_gives_nothing(
    tmp_path: Path, run: Run, mode: str
) -> None:
    record(tmp_path / "in", "a", user("q"), answer("wrong", reward=1))
    record(tmp_path / "in", "b", user("r"), answer("fine", reward=1))
    fixes = tmp_path / "fix.jsonl"
    fixes.write_text(json.dumps({"trace_id": "a", "content": "right", "turn": 3}))
    report, rows = run(corrections=fixes, mode=mode)
    assert "wrong" not in json.dumps(rows)
    (told,) = report.corrections_unused
    assert (told.line, told.of, told.reason) == (1, "a", "no_such_turn")
    assert told.text == "names turn 3, the recording has 1 assistant turns"
    counted = report.not_harvested if mode == "sft" else report.dropped
    reason = "corrected_without_pair" if mode == "kto" else "mask_mismatch"
    assert counted[reason] == 1


def test_a_secret_in_a_correction_event_goes(tmp_path: Path, run: Run) -> None:
    record(tmp_path / "in", "a", user("q"), answer("a"))
    events = tmp_path / "events.jsonl"
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    events.write_text(json.dumps({"id": "E", "input": f"push with {secret}", "original": "no", "corrected": "yes"}))
    assert secret not in json.dumps(run(corrections=events)[1])
