import json
from pathlib import Path
from typing import Any

import pytest

from tests.sources.eval_runs import layout, read, read_row, row
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Correction, Rollout, RolloutError
from trace_flywheel.sources.discover import discover
from trace_flywheel.sources.eval_row import RowError
from trace_flywheel.sources.reader import ReadOptions
from trace_flywheel.sources.wires.openai_chat import message_of
from trace_flywheel.sources.wires.parts import WireError

ROWS = [row("t1"), row("t2", reward=0.0, verdict="fail")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.json", json.dumps(ROWS)),
        ("results.json", json.dumps(ROWS, indent=2)),
        ("results.json", "\n".join(map(json.dumps, ROWS))),
        ("results.json", json.dumps({"results": ROWS})),
        ("results.json", json.dumps({"results": ROWS}, indent=1)),
        ("results.json", json.dumps({"harness": "h", "results": ROWS}, indent=1)),
        ("results.json", '{"harness": "h",\n"results": ' + json.dumps(ROWS) + "}"),
        ("results.json", "\ufeff" + json.dumps(ROWS)),
        ("results.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n"),
    ],
)
def test_every_container_gives_the_same_rollouts(tmp_path: Path, name: str, text: str) -> None:
    first, second = read(layout(tmp_path, text, name))
    assert isinstance(first, Rollout)
    assert isinstance(second, Rollout)
    assert (first.run_id, first.trace_id, first.verdict, first.reward) == ("bench/runs/r1", "t1", "pass", 1.0)
    assert (second.trace_id, second.verdict, second.reward) == ("t2", "fail", 0.0)
    assert first.source.path == f"runs/r1/{name}"
    assert len(first.source.sha256) == 64


def test_the_run_folder_or_its_file_as_the_root(tmp_path: Path) -> None:
    root = layout(tmp_path, json.dumps(ROWS))
    for given_path in (root / "runs" / "r1", root / "runs" / "r1" / "results.json"):
        records = read(given_path)
        assert [(r.run_id, r.trace_id) for r in records] == [("r1", "t1"), ("r1", "t2")]


def test_a_file_of_any_name_given_by_itself_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    assert [r.run_id for r in read(path)] == ["export.jsonl", "export.jsonl"]


def test_a_folder_with_one_file_of_rows_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "jobs" / "exports").mkdir(parents=True)
    (tmp_path / "jobs" / "exports" / "rows.jsonl").write_text(json.dumps(row()))
    (found,) = read(tmp_path / "jobs")
    assert isinstance(found, Rollout)
    assert (found.run_id, found.source.path) == ("jobs/exports", "exports/rows.jsonl")


def test_a_long_first_row_is_known_all_the_same(tmp_path: Path) -> None:
    long = {"messages": [{"role": "user", "content": "x" * 100_000}], "task_id": "t", "trace_id": "long"}
    (found,) = read(layout(tmp_path, json.dumps([long])))
    assert found.trace_id == "long"


def test_an_empty_run_is_a_run_and_another_shape_a_problem(tmp_path: Path) -> None:
    root = layout(tmp_path, "[]\n")
    assert [run.run_id for run in discover([root]).runs] == ["bench/runs/r1"]
    assert read(root) == []
    (root / "runs" / "r1" / "results.json").write_text('{"resolved": true}')
    found = discover([root])
    assert found.runs == ()
    assert [p.reason for p in found.problems] == ["unknown_shape"]


def test_an_array_that_does_not_end_is_unfinished_and_read_to_its_break(tmp_path: Path) -> None:
    root = layout(tmp_path, json.dumps(ROWS)[:-30])
    (run,) = discover([root]).runs
    assert not run.finished
    first, drop = read(root)
    assert first.trace_id == "t1"
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.run_id, drop.path) == ("bad_json", "bench/runs/r1", "runs/r1/results.json")
    assert drop.evidence == {"text": "row 2: the file ends in it", "torn": True}


@pytest.mark.parametrize("text", [json.dumps(ROWS), json.dumps({"results": ROWS}, indent=1)])
def test_an_array_above_the_limit_is_read_row_by_row(tmp_path: Path, text: str) -> None:
    found = read(layout(tmp_path, text), ReadOptions(max_line_bytes=len(text) - 1))
    assert [record.trace_id for record in found] == ["t1", "t2"]
    assert all(isinstance(record, Rollout) for record in found)


def test_a_torn_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    lines = [json.dumps(ROWS[0]), '{"trace_id": "torn', json.dumps(ROWS[1])]
    first, torn, last = read(layout(tmp_path, "\n".join(lines)))
    assert isinstance(torn, Drop)
    assert (torn.reason, torn.evidence["line"]) == ("bad_json", 2)
    assert [first.trace_id, last.trace_id] == ["t1", "t2"]


def test_a_torn_last_line_says_so(tmp_path: Path) -> None:
    torn = read(layout(tmp_path, json.dumps(ROWS[0]) + "\n" + '{"trace_id": "to'))[-1]
    assert isinstance(torn, Drop)
    assert (torn.evidence["line"], torn.evidence["torn"]) == (2, True)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"trace_id": "x", "task_id": "t"}, "messages"),
        ({"trace_id": "x", "messages": []}, "task_id"),
        ({"task_id": "t", "messages": []}, "trace_id"),
        (row("", messages=[]), "trace_id"),
        (["no", "object"], "object"),
        (row("x", messages=[{"role": "narrator", "content": "q"}]), '"narrator"'),
        (row("x", messages=[{"content": "q"}]), "message 1"),
        (row("x", messages=["q"]), "message 1"),
        (row("x", correction={"corrected_by": "ann"}), "correction"),
        (row("x", correction={"content": "c", "turn": -1}), "correction"),
        (row("x", step_verdicts="pass"), "step_verdicts"),
        (row("x", error={"category": "crash", "by": "gremlins"}), "gremlins"),
    ],
)
def test_a_bad_row_is_a_drop_and_the_rest_is_read(tmp_path: Path, bad: Any, says: str) -> None:
    good, drop = read(layout(tmp_path, json.dumps([row("t1"), bad])))
    assert isinstance(good, Rollout)
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence["row"]) == ("unknown_shape", 2)
    assert says in drop.evidence["text"]


def test_a_drop_knows_whose_row_it_was(tmp_path: Path) -> None:
    bad = row("x", messages=None, agent="coder", model="m")
    (drop,) = read(layout(tmp_path, json.dumps(bad)))
    assert isinstance(drop, Drop)
    assert (drop.trace_id, drop.task_id, drop.agent, drop.model, drop.job) == ("x", "task", "coder", "m", "r1")


@pytest.mark.parametrize(
    ("value", "verdict", "text"),
    [
        ("pass", "pass", None),
        ("fail", "fail", None),
        (None, None, None),
        ("PASS", None, '"PASS"'),
        ("", None, '""'),
        (True, None, "true"),
        (1, None, "1"),
    ],
)
def test_only_pass_and_fail_are_verdicts(value: Any, verdict: str | None, text: str | None) -> None:
    found = read_row(row(verdict=value))
    assert (found.verdict, found.verdict_text) == (verdict, text)


def test_a_mapped_spelling_counts() -> None:
    assert read_row(row(verdict="ok"), ok="pass").verdict == "pass"
    assert read_row(row(verdict=False), false="fail").verdict == "fail"
    assert read_row(row(verdict="ok"), ok="pass").verdict_text is None


@pytest.mark.parametrize(
    ("value", "reward", "text"),
    [
        ("0.5", 0.5, None),
        ("-100", -100.0, None),
        ("null", None, None),
        ("NaN", None, "NaN"),
        ("Infinity", None, "Infinity"),
        ("-Infinity", None, "-Infinity"),
        ("1e999", None, "Infinity"),
        ("true", None, "true"),
        ('"0.5"', None, '"0.5"'),
        ("[1]", None, "[1]"),
    ],
)
def test_a_reward_is_a_finite_number(tmp_path: Path, value: str, reward: float | None, text: str | None) -> None:
    line = json.dumps(row(reward="@")).replace('"@"', value)
    (found,) = read(layout(tmp_path, line))
    assert isinstance(found, Rollout)
    assert (found.reward, found.reward_text) == (reward, text)


def test_every_scalar_has_its_place() -> None:
    found = read_row(
        row(
            run_id="other",
            grader="grade.py:exact",
            grader_version="v2",
            agent="coder",
            model="acme/m1",
            policy_version=7,
            suite="maths",
            task_digest="abc",
            reward_range=[0, 1],
            judge_score=0.7,
            session_id="s",
            started_at="2026-01-01T00:00:00Z",
            step_verdicts=["pass", None],
            correction={"content": "better", "corrected_by": "ann", "turn": 1},
            error={"category": "crash", "text": "boom", "by": "infrastructure"},
            stop_reason="length",
            seed=3,
            metadata={"k": "v"},
        )
    )
    assert found.source_run_id == "other"
    assert (found.grader, found.grader_version) == ("grade.py:exact", "v2")
    assert (found.agent, found.model, found.policy_version, found.suite) == ("coder", "acme/m1", "7", "maths")
    assert (found.task_digest, found.reward_range, found.judge_score) == ("abc", (0.0, 1.0), 0.7)
    assert (found.session_id, found.started_at) == ("s", "2026-01-01T00:00:00Z")
    assert found.step_verdicts == ("pass", "null")
    assert found.correction == Correction("better", "ann", 1)
    assert found.error == RolloutError("crash", "boom", "infrastructure")
    assert (found.stop_reason, found.is_truncated) == ("length", True)
    assert found.metadata == {"k": "v", "seed": 3}


def test_an_attempt_that_never_ran_stays_a_member_of_its_group() -> None:
    found = read_row(row(messages=[], reward=0, error="sandbox gone"))
    assert found.messages == ()
    assert found.never_called
    assert found.error == RolloutError("error", "sandbox gone")


@pytest.mark.corpus
def test_every_graded_case_is_read_without_a_drop(shared_dir: Path) -> None:
    cases = sorted((shared_dir / "conformance" / "graded-cases").glob("*/input"))
    assert cases
    for case in cases:
        assert all(isinstance(record, Rollout) for record in read(case)), case


@pytest.mark.parametrize("as_lines", [True, False])
def test_replaced_surrogates_are_counted_where_they_stood(tmp_path: Path, as_lines: bool) -> None:
    bad = json.dumps(row("t2", messages=[{"role": "user", "content": "a\udcb2b"}]))
    good = json.dumps(row("t1"))
    first, second = read(layout(tmp_path, f"{good}\n{bad}\n" if as_lines else f"[{good},\n{bad}]"))
    assert isinstance(first, Rollout)
    assert isinstance(second, Rollout)
    assert first.metadata is None
    assert (second.messages[0].content, second.metadata) == ("a\ufffdb", {"replaced_surrogates": 1})


def test_a_row_that_is_no_utf8_is_lost_alone(tmp_path: Path) -> None:
    rows = json.dumps([row("x1"), row("x2", agent="caf\xe9"), row("x3")], ensure_ascii=False)
    root = layout(tmp_path, "")
    (root / "runs" / "r1" / "results.json").write_bytes(rows.encode("latin-1"))
    first, drop, last = read(root)
    assert isinstance(first, Rollout)
    assert isinstance(last, Rollout)
    assert (first.trace_id, last.trace_id) == ("x1", "x3")
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence["text"][:16]) == ("bad_encoding", "row 2: not UTF-8")


def test_a_linked_results_file_beside_a_real_one_is_a_drop(tmp_path: Path) -> None:
    root = layout(tmp_path, json.dumps([row("x1")]))
    (tmp_path / "outside").write_text("{}")
    (root / "runs" / "r1" / "results.jsonl").symlink_to(tmp_path / "outside")
    rollout, drop = read(root)
    assert isinstance(rollout, Rollout)
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence) == ("unreadable_file", {"text": "is a link, which is not followed"})


def test_a_plain_reward_vector_takes_the_common_form() -> None:
    vector = read_row(row(reward_vector={"style": None, "accuracy": 1, "cost": float("inf")})).reward_vector
    assert vector == {
        "source": "verifier",
        "names": ["accuracy", "cost", "style"],
        "kinds": ["verifier"] * 3,
        "weights": [None] * 3,
        "values": [1.0, None, None],
        "formula": "as recorded",
    }
    assert read_row(row(reward_vector={})).reward_vector is None
    given = {"names": ["a"], "values": [0.5], "kinds": ["scored"]}
    told = read_row(row(reward_vector=given)).reward_vector
    assert told is not None
    assert (told["kinds"], told["values"]) == (["scored"], [0.5])


@pytest.mark.parametrize(
    "value",
    [
        [1.0],
        "high",
        {"a": "much"},
        {"a": True},
        {"names": ["a"]},
        {"names": ["a", "a"], "values": [1, 2]},
        {"names": ["a"], "values": [1, 2]},
        {"names": [1], "values": [1]},
        {"names": 1.0},
    ],
)
def test_another_reward_vector_refuses_its_row(value: Any) -> None:
    with pytest.raises(RowError, match="reward_vector is an object of numbers by name"):
        read_row(row(reward_vector=value))


def test_calls_that_are_no_list_refuse_the_row() -> None:
    with pytest.raises(WireError, match="tool_calls is a dict"):
        message_of({"role": "assistant", "content": "x", "tool_calls": {"a": 1}})
