"""Recordings to SFT rows: what is kept, what is lost and to which rule, and that every row is counted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recordings import answer, call, record, rows_of, user
from trace_flywheel.flow.judgments import Policy
from trace_flywheel.flow.recordings.compat import Sketch
from trace_flywheel.flow.recordings.report import Report
from trace_flywheel.flow.recordings.traces_to_data import Request, traces_to_data
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.atraj_sft import LAYOUT

EIGHT_WORDS = "one two three four five six seven eight"
Export = Callable[..., tuple[Report, list[dict[str, Any]]]]


@pytest.fixture
def run(tmp_path: Path) -> Export:
    def export(**options: Any) -> tuple[Report, list[dict[str, Any]]]:
        out = tmp_path / "out.jsonl"
        report = traces_to_data(Request(**{"folder": tmp_path / "in", "out": out, **options}))
        assert_adds_up(report)
        rows = rows_of(out) if out.exists() else []
        assert not [fault for row in rows for fault in LAYOUT.validate(row)]
        return report, rows

    return export


def assert_adds_up(report: Report) -> None:
    assert report.harvested == report.emitted + sum(report.dropped.values())


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["messages"][-1]["content"] for row in rows]


def test_an_answer_only_row_and_where_it_came_from(tmp_path: Path, run: Export) -> None:
    path = record(
        tmp_path / "in",
        "R1",
        user("How many?", input_ids=[5]),
        *call("wc", "113", path="a"),
        answer("113", reward=0.5, output_ids=[7, 8]),
        task="files",
        checkpoint_path="/models/local-1b",
        model_fingerprint="f00",
    )
    _, (row,) = run()
    assert row["messages"] == [
        {"role": "user", "content": "How many?", "input_ids": [5]},
        {"role": "assistant", "content": '{"answer": "113"}', "output_ids": [7, 8]},
    ]
    assert (row["source_atraj"], row["task"], row["rollout_id"], row["step"]) == ("R1.atraj", "files", "R1", 3)
    assert (row["reward"], row["rollout_reward"], row["grader"]) == (0.5, 0.5, "ungraded")
    assert (row["model"], row["model_fingerprint"], row["corrected"]) == ("local-1b", "f00", False)
    assert (row["source_path"], len(row["source_sha256"])) == (path.name, 64)
    assert row["signals"] == {
        "answer_grounded": 1.0,
        "arguments_valid": 1.0,
        "calls_distinct": 1.0,
        "calls_succeeded": 1.0,
        "ended": 1.0,
    }


def test_a_trajectory_gives_a_row_per_assistant_turn(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "R1", user("q"), *call("ls", "x"), answer("x"), user("and?"), answer("no"))
    _, rows = run(export="trajectory")
    assert [row["step"] for row in rows] == [1, 3, 5]
    assert [len(row["messages"]) for row in rows] == [2, 4, 6]
    assert all([m["supervise"] for m in row["messages"]].count(True) == 1 for row in rows)
    assert rows[0]["messages"][-1]["tool_call"] == {"name": "ls", "arguments_json": "{}"}
    assert rows[1]["messages"][2]["tool_result"] == {"name": "ls", "stdout": "x", "stderr": "", "exit_code": 0}
    assert all(row["export"] == "trajectory" for row in rows)


def test_task_labels_and_task_filter_leaves_out(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "a", user("one"), answer("1"), task="math")
    record(tmp_path / "in", "b", user("two"), answer("2"), task="geo")
    report, rows = run(task="all")
    assert [row["task"] for row in rows] == ["all", "all"]
    report, rows = run(task_filter="geo")
    assert [(row["task"], row["rollout_id"]) for row in rows] == [("geo", "b")]
    assert report.other_task == 1


@pytest.mark.parametrize(
    ("steps", "rule"),
    [
        ([user("q")], "unanswered"),
        ([user("q"), user("r"), answer("a")], "unanswered"),
        ([user("q"), {"role": "assistant", "content": "  "}], "blank_answer"),
        ([user("q"), *call("ls", "x")], "tool_call"),
        ([user("q"), {"role": "assistant", "content": '{"tool" : "ls", "arguments": {}}'}], "tool_call"),
        (
            [
                user("q"),
                *call("cat", "one two three four five six seven eight"),
                answer("One two three four five six seven eight"),
            ],
            "tool_echo",
        ),
    ],
)
def test_each_rule_counts_what_it_takes(tmp_path: Path, run: Export, steps: list[dict[str, Any]], rule: str) -> None:
    record(tmp_path / "in", "a", *steps)
    report, _ = run()
    assert report.not_harvested == {rule: 1}


def test_a_short_answer_that_is_the_tools_output_is_an_answer(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "a", user("How many?"), *call("wc", "113"), answer("113"))
    assert texts(run()[1]) == ['{"answer": "113"}']


def test_calls_and_echoes_stay_where_asked(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "a", user("q"), *call("ls", "x"))
    assert len(run(echo_drop=False)[1]) == 1


def test_a_call_whose_arguments_are_no_object_is_never_a_target(tmp_path: Path, run: Export) -> None:
    bad = {"role": "assistant", "content": "run it", "tool_call": {"name": "sh", "arguments_json": "rm -rf"}}
    record(tmp_path / "in", "a", user("q"), bad, {"role": "tool", "content": "?"}, answer("done"))
    report, rows = run(export="trajectory")
    assert report.not_harvested == {"masked": 1}
    assert texts(rows) == ['{"answer": "done"}']


def test_best_of_n_keeps_the_best_by_reward_and_not_the_first_path(tmp_path: Path, run: Export) -> None:
    for name, text, reward in (("a", "Bergen", 0.0), ("b", "Oslo", 1.0), ("c", "Stockholm", 0.2)):
        record(tmp_path / "in", name, user("Capital of Norway?"), answer(text, reward=reward))
    for export in ("answer-only", "trajectory"):
        report, rows = run(export=export)
        assert texts(rows) == ['{"answer": "Oslo"}']
        assert report.dropped["not_best_of_n"] == 2
        assert [(d["path"], d["kept"]) for d in report.rollouts_dropped] == [("a.atraj", "b"), ("c.atraj", "b")]


def test_different_answers_without_a_score_are_all_kept(tmp_path: Path, run: Export) -> None:
    for name, text in (("a", "Oslo, on the fjord"), ("b", "It is Bergen, I think")):
        record(tmp_path / "in", name, user("Capital of Norway?"), answer(text))
    assert len(run()[1]) == 2


def test_exact_duplicates_across_rollouts_keep_the_better_rewarded_file(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "a", user("q"), answer("yes"))
    record(tmp_path / "in", "b", user("Q "), answer("yes", reward=1.0))
    report, rows = run()
    assert [row["rollout_id"] for row in rows] == ["b"]
    assert report.dropped["exact_duplicate"] == 1


def test_near_duplicates_need_both_prompt_and_answer(tmp_path: Path, run: Export) -> None:
    words = " ".join(f"word{i}" for i in range(60))
    record(tmp_path / "in", "a", user(words), answer(words))
    record(tmp_path / "in", "b", user(words + " more"), answer(words + " more"))
    record(tmp_path / "in", "c", user(words + " other"), answer(" ".join(f"else{i}" for i in range(60))))
    report, rows = run()
    assert report.dropped["near_duplicate"] == 1
    assert len(rows) == 2
    assert run(threshold=1.01)[0].dropped["near_duplicate"] == 0


def test_a_shared_system_prompt_makes_no_two_prompts_duplicates(tmp_path: Path, run: Export) -> None:
    system = {"role": "system", "content": "You are a careful assistant with many tools. " * 90}
    for i in range(20):
        record(
            tmp_path / "in",
            f"r{i:02}",
            system,
            user(f"Question {i * 7919} about item {i * 104729}"),
            answer(f"Reply {i * 31337}"),
        )
    assert len(run(export="trajectory")[1]) == 20


def test_turns_of_one_rollout_are_never_compared(tmp_path: Path, run: Export) -> None:
    system = {"role": "system", "content": "You are a careful assistant. " * 50}
    steps = [s for i in range(6) for s in call("grep", f"line {i}", pattern=f"retry_{i}")]
    record(tmp_path / "in", "a", system, user("Find the retry policy"), *steps, answer("It is in m3"))
    assert len(run(export="trajectory")[1]) == 7


def test_first_turns_that_two_attempts_share_are_taught_once(tmp_path: Path, run: Export) -> None:
    shared = (user("q"), *call("ls", "x"))
    record(tmp_path / "in", "a", *shared, answer("one thing"))
    record(tmp_path / "in", "b", *shared, answer("quite another"))
    report, rows = run(export="trajectory")
    assert len(rows) == 3
    assert report.dropped["exact_duplicate"] == 1


def test_unusable_files_are_named_with_their_reason(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "ok", user("q"), answer("a"))
    record(tmp_path / "in" / "deep", "v9", user("q"), answer("a"), version=9)
    (tmp_path / "in" / "torn.atraj").write_text('{"version":1,"id":"x"')
    (tmp_path / "in" / "p.atraj.gz").write_bytes(b"")
    record(tmp_path / "in" / ".hidden", "h", user("q"), answer("a"))
    report, rows = run()
    assert [(row["path"], row["reason"]) for row in report.failed] == [
        ("deep/v9.atraj", "read/unknown_shape"),
        ("torn.atraj", "read/bad_json"),
    ]
    assert (report.scanned, report.packed, len(rows)) == (3, ["p.atraj.gz"], 1)


def test_one_id_with_two_contents_is_told_from_nobody_knows_what(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "ok", user("other"), answer("x"))
    record(tmp_path / "in" / "1", "same", user("q"), answer("a"))
    record(tmp_path / "in" / "2", "same", user("q"), answer("b"))
    report, rows = run()
    assert [row["reason"] for row in report.failed] == ["read/conflicting_trace_id"] * 2
    assert [row["rollout_id"] for row in rows] == ["ok"]


def test_the_same_recording_twice_counts_once(tmp_path: Path, run: Export) -> None:
    for folder in ("1", "2"):
        record(tmp_path / "in" / folder, "same", user("q"), answer("a"))
    report, rows = run()
    assert (report.same_rollout, len(rows)) == (1, 1)


def test_nothing_usable_is_a_failure_and_leaves_the_old_output(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "v9", version=9)
    (tmp_path / "out.jsonl").write_text("old")
    with pytest.raises(FlywheelError, match=r"none of the 1 recordings can be used; the first: v9.atraj: version 9"):
        run()
    assert (tmp_path / "out.jsonl").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.jsonl"]


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("{}")])
def test_a_folder_without_recordings(tmp_path: Path, run: Export, make: Callable[[Path], Any]) -> None:
    make(tmp_path / "in")
    with pytest.raises(FlywheelError, match=r"give a folder|give the folder"):
        run()


def test_a_dry_run_tells_the_same_and_writes_nothing(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "a", user("q"), answer("a"))
    (tmp_path / "out.jsonl").write_text('{"messages": [{"role": "assistant", "content": "old"}]}')
    before = sorted(tmp_path.rglob("*"))
    report, _ = run(dry_run=True, requests=tmp_path / "requests.jsonl")
    assert sorted(tmp_path.rglob("*")) == before
    assert "old" in (tmp_path / "out.jsonl").read_text()
    assert report == run()[0]


def test_secrets_are_replaced_counted_and_not_taught(tmp_path: Path, run: Export) -> None:
    token = "ghp_" + "a1B2" * 9
    record(tmp_path / "in", "a", user(f"my key is {token}", input_ids=[1]), answer("thanks, noted", output_ids=[2]))
    record(tmp_path / "in", "b", user("another"), answer(f"the key is {token}"))
    report, rows = run()
    assert token not in (tmp_path / "out.jsonl").read_text()
    assert [row["rollout_id"] for row in rows] == ["a"]
    assert "input_ids" not in rows[0]["messages"][0]
    assert rows[0]["redactions"] == 1
    assert report.not_harvested == {"masked": 1}
    assert len(run(placeholders="keep")[1]) == 2


def test_a_correction_replaces_the_turn_and_is_the_only_target(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "a", user("q"), answer("wrong"), user("r"), answer("fine"))
    fixes = tmp_path / "fix.jsonl"
    fixes.write_text(json.dumps({"trace_id": "a", "content": "right", "turn": 0, "corrected_by": "ann"}))
    report, rows = run(corrections=fixes)
    assert texts(rows) == ["right"]
    assert rows[0]["corrected"] is True
    assert report.not_harvested == {"masked": 1}
    fixes.write_text(json.dumps({"trace_id": "nobody", "content": "x"}))
    with pytest.raises(FlywheelError, match="corrects 'nobody', which is no recording"):
        run(corrections=fixes)


def test_signals_can_keep_rows_out(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "a", user("q"), *call("ls", "no", exit_code=2), answer("gave up"))
    record(tmp_path / "in", "b", user("r"), answer("no tool needed"))
    report, rows = run(min_signals={"calls_succeeded": 0.5})
    assert [row["rollout_id"] for row in rows] == ["b"]
    assert report.dropped["signal_calls_succeeded"] == 1


def test_judged_rows_stay_above_the_threshold(tmp_path: Path, run: Export) -> None:
    for name in ("a", "b", "c"):
        record(tmp_path / "in", name, user(f"question {name}"), answer(f"reply {name}"))
    scores = tmp_path / "scores.jsonl"
    lines = [
        {"target": {"trace_id": "a"}, "value": 9, "scale": [1, 10]},
        {"target": {"source": "b.atraj", "step": 1}, "value": 0.2},
        {"target": {"trace_id": "gone"}, "value": 1},
    ]
    scores.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(FlywheelError, match=r"1 of 3 rows have no judgment.*--judge-missing keep or drop"):
        run(judgments=scores)
    report, rows = run(judgments=scores, policy=Policy(missing="drop"))
    assert [(row["rollout_id"], row["judge_score"]) for row in rows] == [("a", pytest.approx(8 / 9))]
    assert (report.dropped["below_judge_threshold"], report.dropped["unjudged"]) == (1, 1)
    assert report.judge is not None
    assert (report.judge["rows_judged"], report.judge["judgments_unmatched"]) == (2, 1)
    assert report.judge["kept_at_threshold"]["0.2"] == 2
    assert {row["rollout_id"] for row in run(judgments=scores, policy=Policy(missing="keep"))[1]} == {"a", "c"}


def test_requests_go_out_and_their_answers_come_back_by_row_hash(tmp_path: Path, run: Export) -> None:
    for name in ("a", "b"):
        record(tmp_path / "in", name, user(f"question {name}"), answer(f"reply {name}"))
    requests = tmp_path / "requests.jsonl"
    _, rows = run(requests=requests, task="one")
    asked = rows_of(requests)
    assert [line["custom_id"] for line in asked] == [row["row_hash"] for row in rows]
    assert all(line["method"] == "POST" and "reply" in line["body"]["messages"][1]["content"] for line in asked)
    results = tmp_path / "results.jsonl"
    with results.open("w") as file:
        for line, rating in zip(asked, (10, 1), strict=True):
            body = {"choices": [{"message": {"content": json.dumps({"rating": rating})}}]}
            file.write(json.dumps({"custom_id": line["custom_id"], "response": {"body": body}}) + "\n")
    report, kept = run(judgments=results, task="renamed")
    assert [row["rollout_id"] for row in kept] == ["a"]
    assert report.dropped["below_judge_threshold"] == 1


@given(st.permutations(["r0", "r1", "r2", "r3"]))
def test_names_do_not_decide_which_duplicate_stays(tmp_path_factory: pytest.TempPathFactory, order: list[str]) -> None:
    folder = tmp_path_factory.mktemp("rec")
    for reward, name in enumerate(order):
        record(folder / "in", name, user("q"), answer("same", reward=float(reward)))
    traces_to_data(Request(folder=folder / "in", out=folder / "out.jsonl"))
    assert [row["rollout_reward"] for row in rows_of(folder / "out.jsonl")] == [3.0]


def test_a_secret_in_a_name_keeps_the_recording_out(tmp_path: Path, run: Export) -> None:
    record(tmp_path / "in", "ok", user("q"), answer("a"), task="t", model_fingerprint="0" * 64)
    record(tmp_path / "in", "3F2504E0-4F89-11D3-9A0C-0305E82C3301", user("r"), answer("b"))
    record(tmp_path / "in", "bad", user("s"), answer("c"), task="ghp_" + "a1B2" * 9)
    report, rows = run()
    assert len(rows) == 2
    assert [(row["path"], row["reason"]) for row in report.failed] == [("bad.atraj", "redact/secret_left")]
    assert "ghp_" not in json.dumps(report.as_dict())


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["one", "two", " ", '{"tool":"x"}']).map(user),
        st.sampled_from(["one", "two", ""]).map(answer),
        st.sampled_from(["", "plain text", '{"tool": "x", "arguments": {}}']).map(
            lambda text: {"role": "assistant", "content": text, "output_ids": [1]}
        ),
        st.sampled_from(["a", "b"]).map(lambda text: call("ls", text)[0]),
        st.sampled_from(["a", "b"]).map(lambda text: call("ls", text)[1]),
        st.just({"role": "system", "content": "be careful"}),
    ),
    max_size=8,
)


@given(st.lists(STEPS, min_size=1, max_size=4), st.sampled_from(["answer-only", "trajectory"]), st.booleans())
@settings(max_examples=60)
def test_whatever_is_recorded_every_row_is_counted_and_taken_by_the_trainer(
    tmp_path_factory: pytest.TempPathFactory, recordings: list[list[dict[str, Any]]], export: Any, original: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    record(folder / "in", "ok", user("a plain question"), answer("a plain answer"))
    for i, steps in enumerate(recordings):
        record(folder / "in", f"r{i}", *steps)
    sketch = Sketch() if original else None
    asked = Request(folder=folder / "in", out=folder / "out.jsonl", export=export, sketch=sketch)
    report = traces_to_data(asked)
    assert_adds_up(report)
    rows = rows_of(folder / "out.jsonl")
    assert len(rows) == report.emitted
    assert not [fault for row in rows for fault in LAYOUT.validate(row)]
    first = (folder / "out.jsonl").read_bytes()
    traces_to_data(asked)
    assert (folder / "out.jsonl").read_bytes() == first


@pytest.mark.corpus
def test_the_originals_fixtures_by_our_own_rules(shared_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    for folder, export, emitted in (
        ("traces", "answer-only", 3),
        ("traces", "trajectory", 4),
        ("edge", "trajectory", 23),
    ):
        report = traces_to_data(Request(folder=shared_dir / "atraj" / "fixtures" / folder, out=out, export=export))  # type: ignore[arg-type]  # a literal
        assert_adds_up(report)
        assert report.emitted == emitted
    kept = {row["source_atraj"] for row in rows_of(out)}
    assert "e09a-best-of-n.atraj" in kept
    assert not kept & {"e09b-best-of-n.atraj", "e09c-best-of-n.atraj"}
    assert sum(row["source_atraj"] == "e11-long-rollout.atraj" for row in rows_of(out)) == 7
