"""Keys and names never change: a secret in one drops the rollout, and the drop names it without the secret."""

import json
from typing import Any

import msgspec
import pytest

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Exchange, Rollout, Source
from trace_flywheel.redaction.redact import redactor

GITHUB = "ghp_" + "Zb9" * 12
OTHER = "ghp_" + "Yc8" * 12
LEFT = "secret_left"


def rollout(*messages: Message, **fields: Any) -> Rollout:
    named = {"run_id": "run", "trace_id": "t1", "task_id": "task", "source": Source("eval_run", "r.json", "0" * 64)}
    return Rollout(**{**named, **fields}, messages=messages)


def refused(case: Rollout) -> Drop:
    result = redactor("standard").redact(case)
    assert isinstance(result, Drop), result
    assert GITHUB not in msgspec.json.encode(result).decode()
    return result


def call(arguments: str, call_id: str = "call_1", name: str = "bash") -> Message:
    return Message("assistant", tool_calls=(ToolCall(call_id, name, arguments),))


@pytest.mark.parametrize(
    "case",
    [
        rollout(call(json.dumps({GITHUB: 1}))),
        rollout(call(json.dumps({"a": [{GITHUB: None}]}))),
        rollout(call(json.dumps({"inner": json.dumps({"x": json.dumps({GITHUB: True})})}))),
        rollout(Message("user", json.dumps({GITHUB: 1}))),
        rollout(Message("user", [{"type": "image", GITHUB: 1}])),
        rollout(Message("user", "x", extra={"deep": {GITHUB: 1}})),
        rollout(tools=(Tool("run", parameters={"properties": {GITHUB: {"type": "string"}}}),)),
        rollout(metadata={GITHUB: 1}),
        rollout(rewards={GITHUB: 1.0}),
        rollout(reward_vector={GITHUB: 1.0}),
        rollout(sampling={GITHUB: 1}),
        rollout(token_usage={GITHUB: 1}),
        rollout(exchanges=(Exchange(0, usage={GITHUB: 1}),)),
    ],
)
def test_a_secret_in_a_key_drops_the_rollout(case: Rollout) -> None:
    assert refused(case) == Drop(
        Stage.REDACT, LEFT, {"rule": "github_token", "place": "key"}, "run", "t1", "task", path="r.json"
    )


def test_a_value_found_elsewhere_may_not_stand_in_a_key() -> None:
    password = "kX9#mQ2$vL7pW4zR"
    drop = redactor("standard").redact(rollout(Message("user", f'password = "{password}"'), metadata={password: 1}))
    assert isinstance(drop, Drop)
    assert drop.evidence == {"rule": "secret", "place": "key"}


def test_a_key_that_names_a_secret_or_a_person_is_no_finding() -> None:
    result = redactor("standard").redact(rollout(metadata={"password": 1, "api_key": None, "ann@mail.example.org": 2}))
    assert isinstance(result, Rollout)
    assert result.redactions == {}


def test_the_second_scan_sees_keys() -> None:
    assert redactor("none").scan({"rows": [{GITHUB: 1}]}) == {"github_token": 1}
    assert redactor("none").scan(json.dumps({"a": {GITHUB: 1}})) == {"github_token": 1}
    assert redactor("standard").scan({"ann@mail.example.org": 1, "password": 2}) == {}


@pytest.mark.parametrize(
    "field",
    [
        *("trace_id", "task_id", "task_digest", "suite", "agent", "agent_version", "model", "request_model"),
        *("policy_version", "job", "session_id", "started_at", "finished_at", "grader", "grader_version"),
        *("source_run_id", "run_id"),
    ],
)
def test_a_secret_in_a_name_drops_the_rollout_and_is_masked(field: str) -> None:
    drop = refused(rollout(**{field: f"x {GITHUB}"}))
    assert (drop.reason, drop.evidence) == (LEFT, {"rule": "github_token", "field": field})
    if hasattr(drop, field):
        assert getattr(drop, field).startswith("x [REDACTED:github_token:1]~")


@pytest.mark.parametrize(
    ("field", "case"),
    [
        ("tool_calls.id", rollout(call("{}", call_id=GITHUB))),
        ("tool_calls.name", rollout(call("{}", name=GITHUB))),
        ("tool_call_id", rollout(Message("tool", "x", tool_call_id=GITHUB))),
        ("tools.name", rollout(tools=(Tool(GITHUB),))),
        ("exchanges", rollout(exchanges=(Exchange(0, model=GITHUB),))),
        ("source.path", rollout(source=Source("eval_run", f"{GITHUB}/r.json", "0" * 64))),
    ],
)
def test_names_inside_a_rollout_are_looked_at(field: str, case: Rollout) -> None:
    assert refused(case).evidence == {"rule": "github_token", "field": field}


def test_two_masked_names_stay_apart_and_one_is_the_same_everywhere() -> None:
    one, other = (refused(rollout(task_id=f"fix {token} {GITHUB}")) for token in ("a", OTHER))
    again = redactor("all").redact(rollout(task_id=f"fix a {GITHUB}", trace_id="t2"))
    assert one.task_id == "fix a [REDACTED:github_token:1]~de1da67b" == again.task_id  # type: ignore[union-attr]
    assert other.task_id != one.task_id


def test_the_hash_of_a_name_says_nothing_of_a_password() -> None:
    names = [f"db password='{word}9x' of app" for word in ("Winter#202", "Summer#202")]
    first, second = map(redactor("standard").mask, names)
    assert first.startswith("db password='[REDACTED:secret:1]' of app~")
    assert first == second


def test_people_may_be_named() -> None:
    result = redactor("all").redact(rollout(agent="ann@mail.example.org", grader="+49 30 901820"))
    assert isinstance(result, Rollout)
    assert result.agent == "ann@mail.example.org"


def test_a_carried_drop_is_made_safe() -> None:
    evidence = {"row": 3, "text": f"role {GITHUB!r} is not one of user"}
    drop = Drop(Stage.READ, "unknown_shape", evidence, run_id="run", trace_id=GITHUB, path=f"runs/{GITHUB}/r.json")
    safe = redactor("standard").safe(drop)
    assert safe.evidence == {"row": 3, "text": "role '[REDACTED:github_token:1]' is not one of user"}
    assert (safe.trace_id or "").startswith("[REDACTED:github_token:1]~")
    assert (safe.path or "").startswith("runs/[REDACTED:github_token:1]/r.json~")
    clean = Drop(Stage.READ, "bad_json", {"line": 2}, run_id="run")
    assert redactor("standard").safe(clean) is clean
    in_key = Drop(Stage.READ, "unknown_shape", {"found": {GITHUB: 1}})
    assert redactor("standard").safe(in_key).evidence == {"rule": "github_token", "text": "what decided held a secret"}
