import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.discover import discover, read_unit, units
from trace_flywheel.sources.reader import ReadOptions

USER = {"role": "user", "content": "What is 2 + 2?"}
ANSWER = {"role": "assistant", "content": '{"answer": "4"}'}
CALL = {
    "role": "assistant",
    "content": '{"tool": "bash", "arguments": {"cmd": "ls"}}',
    "tool_call": {"name": "bash", "arguments_json": '{"cmd":"ls"}'},
}
RESULT = {
    "role": "tool",
    "content": "a/b\n",
    "tool_result": {"name": "bash", "stdout": "a/b\n", "stderr": "", "exit_code": 0, "duration_sec": 0.5},
}
FED = '{"exit_code":0,"stderr":"","stdout":"a/b\\n","tool":"bash"}'


def recording(*steps: dict[str, Any], **top: Any) -> dict[str, Any]:
    return {"version": 1, "id": "R1", "steps": list(steps), "summary": {"mode": "repl"}} | top


def read(root: Path) -> list[Rollout | Drop]:
    return [
        record for run in discover([root]).runs for unit in units(run) for record in read_unit(run, unit, ReadOptions())
    ]


def one(tmp_path: Path, value: Any) -> Rollout | Drop:
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "x.atraj").write_text(value if isinstance(value, str) else json.dumps(value))
    (found,) = read(tmp_path / "rec")
    return found


def rollout(tmp_path: Path, *steps: dict[str, Any], **top: Any) -> Rollout:
    found = one(tmp_path, recording(*steps, **top))
    assert isinstance(found, Rollout), found
    return found


def test_a_recording_becomes_an_ungraded_rollout(tmp_path: Path) -> None:
    found = rollout(
        tmp_path,
        USER | {"input_ids": [1, 2], "timestamp": 1767225600.5},
        ANSWER | {"output_ids": [3], "timestamp": 1767225601},
        task="math",
        checkpoint_path="/home/ann/models/fixture.tinygpt",
    )
    assert (found.run_id, found.trace_id, found.session_id) == ("rec", "R1", "R1")
    assert (found.task_id, found.suite) == ("math/692a9daa52e4", "math")
    assert (found.verdict, found.reward, found.grader) == (None, None, "ungraded")
    assert found.model == "fixture.tinygpt"
    assert (found.started_at, found.finished_at) == ("2026-01-01T00:00:00.500000+00:00", "2026-01-01T00:00:01+00:00")
    assert found.messages[0].extra == {"input_ids": (1, 2), "timestamp": 1767225600.5}
    assert found.messages[1].token_ids == (3,)
    assert found.source.path == "x.atraj"


def test_tasks_are_told_by_the_first_user_turn_and_never_by_the_label_alone(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    turns = {"a": "What is 2 + 2?", "b": "what  is 2 + 2?", "c": "What is 3 + 3?"}
    for name, text in turns.items():
        value = recording({"role": "user", "content": text}, ANSWER, id=name)
        (tmp_path / "rec" / f"{name}.atraj").write_text(json.dumps(value))
    first, same, other = (record.task_id for record in read(tmp_path / "rec"))
    assert first == same != other
    assert str(first).startswith("atraj/")
    assert len(str(first)) == len("atraj/") + 12


def test_a_developers_message_is_a_system_message(tmp_path: Path) -> None:
    found = rollout(tmp_path, {"role": "developer", "content": "be terse"}, USER, ANSWER)
    assert [message.role for message in found.messages] == ["system", "user", "assistant"]


def test_a_recording_without_steps_is_empty_and_no_fault(tmp_path: Path) -> None:
    assert rollout(tmp_path).messages == ()


def test_assistant_turns_know_their_step(tmp_path: Path) -> None:
    found = rollout(tmp_path, USER, CALL, RESULT, RESULT, ANSWER)
    assert found.metadata is not None
    assert found.metadata["assistant_steps"] == [1, 4]


def test_a_call_told_twice_is_told_once_and_its_text_kept(tmp_path: Path) -> None:
    found = rollout(tmp_path, USER, CALL, RESULT, ANSWER)
    turn = found.messages[1]
    assert (turn.content, turn.tool_calls) == (None, (ToolCall("call_1", "bash", '{"cmd":"ls"}'),))
    assert turn.extra == {"recorded_content": CALL["content"]}
    assert [(t.name, t.inferred) for t in found.tools] == [("bash", True)]


@pytest.mark.parametrize(
    "content",
    ["I will look.", '{"tool": "bash", "arguments": {"cmd": "pwd"}}', '{"tool": "bash", "arguments": {}, "why": "x"}'],
)
def test_text_that_says_more_than_the_call_stays_beside_it(tmp_path: Path, content: str) -> None:
    turn = rollout(tmp_path, USER, CALL | {"content": content}, RESULT).messages[1]
    assert (turn.content, len(turn.tool_calls), turn.extra) == (content, 1, None)


def test_a_call_that_only_the_text_spells_is_read_where_a_tool_answers(tmp_path: Path) -> None:
    spelled = {"role": "assistant", "content": CALL["content"]}
    answered, open_call = rollout(tmp_path, USER, spelled, RESULT, spelled).messages[1::2]
    assert answered.tool_calls == (ToolCall("call_1", "bash", '{"cmd":"ls"}'),)
    assert (open_call.content, open_call.tool_calls) == (CALL["content"], ())


def test_a_tool_step_is_what_the_model_was_fed(tmp_path: Path) -> None:
    tool = rollout(tmp_path, USER, CALL, RESULT).messages[2]
    assert tool == Message("tool", FED, tool_call_id="call_1", name="bash", is_error=False, extra={"duration_sec": 0.5})


def test_a_failing_tool_and_one_without_payload(tmp_path: Path) -> None:
    failed = RESULT | {"tool_result": RESULT["tool_result"] | {"exit_code": 2}}  # type: ignore[operator]  # a literal
    found = rollout(tmp_path, USER, CALL, failed, CALL, {"role": "tool", "content": "raw"})
    assert [m.is_error for m in found.messages if m.role == "tool"] == [True, None]
    assert found.messages[-1].content == "raw"
    assert found.messages[-1].tool_call_id == "call_2"


def test_step_rewards_are_kept_and_the_last_one_counts(tmp_path: Path) -> None:
    found = rollout(tmp_path, USER | {"reward": 0.25}, ANSWER | {"reward": 1}, USER)
    assert (found.reward, found.rewards) == (1.0, {"steps": [0.25, 1, None]})


def test_a_reward_that_is_no_number_is_evidence(tmp_path: Path) -> None:
    found = one(tmp_path, json.dumps(recording(USER, ANSWER | {"reward": "@"})).replace('"@"', "NaN"))
    assert isinstance(found, Rollout)
    assert (found.reward, found.reward_text) == (None, "NaN")


@pytest.mark.parametrize(
    ("value", "reason", "says"),
    [
        ("{", "bad_json", ""),
        ([], "unknown_shape", "version"),
        (recording(USER, version=2), "unknown_shape", "version 2; known: 1"),
        (recording({"role": "narrator", "content": "x"}), "unknown_shape", "narrator"),
        (recording({"role": "user", "content": None}), "unknown_shape", "content"),
        (recording(USER, summary={"n": 1}), "unknown_shape", "summary"),
        ({"version": 1, "id": "R1", "summary": {}}, "unknown_shape", "steps"),
        (recording(USER, RESULT), "orphan_tool_result", "without a call"),
    ],
)
def test_what_cannot_be_read_is_a_drop(tmp_path: Path, value: Any, reason: str, says: str) -> None:
    drop = one(tmp_path, value)
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.run_id, drop.path) == (reason, "rec", "x.atraj")
    assert says in drop.evidence["text"]
    if isinstance(value, dict):
        assert drop.trace_id == "R1"


def test_a_folder_owns_the_recordings_below_it_and_packed_ones_are_named(tmp_path: Path) -> None:
    for name in ("a.atraj", "deep/b.atraj", ".hidden/c.atraj", "d.ATRAJ", "e.atraj.gz"):
        path = tmp_path / "rec" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(recording(USER, id=name)))
    (run,) = discover([tmp_path]).runs
    assert [unit.relative for unit in units(run)] == ["rec/a.atraj", "rec/deep/b.atraj", "rec/e.atraj.gz"]
    packed = read(tmp_path)[-1]
    assert isinstance(packed, Drop)
    assert (packed.reason, packed.path) == ("unknown_shape", "rec/e.atraj.gz")


def test_one_file_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "x.atraj"
    path.write_text(json.dumps(recording(USER, ANSWER)))
    (found,) = read(path)
    assert (found.run_id, found.trace_id) == ("x.atraj", "R1")


@pytest.mark.corpus
def test_the_producers_fixtures(corpus: Callable[[str], Path]) -> None:
    found = read(corpus("posttrainllm-atraj") / "evals" / "traces-to-data-fixtures")
    assert {record.trace_id for record in found} >= {"01-keep-normal", "02-exact-dup-of-01"}
    assert all(isinstance(record, Rollout) for record in found)


def test_a_linked_recording_is_a_drop(tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "a.atraj").write_text(json.dumps(recording(USER, ANSWER)))
    (tmp_path / "outside.atraj").write_text(json.dumps(recording(USER, ANSWER)))
    (tmp_path / "rec" / "b.atraj").symlink_to(tmp_path / "outside.atraj")
    rollout, drop = read(tmp_path / "rec")
    assert isinstance(rollout, Rollout)
    assert isinstance(drop, Drop)
    assert (drop.path, drop.evidence) == ("b.atraj", {"text": "is a link, which is not followed"})


def test_a_folder_where_a_recording_would_be_is_a_drop(tmp_path: Path) -> None:
    (tmp_path / "a.atraj").write_text(json.dumps(recording(USER, ANSWER)))
    (tmp_path / "deep" / "d.atraj").mkdir(parents=True)
    (tmp_path / "deep" / "d.atraj" / "b.atraj").write_text(json.dumps(recording(USER, ANSWER, id="R2")))
    first, folder, inner = read(tmp_path)
    assert isinstance(folder, Drop)
    assert (folder.reason, folder.path) == ("unreadable_file", "deep/d.atraj")
    assert [r.trace_id for r in (first, inner) if isinstance(r, Rollout)] == ["R1", "R2"]
