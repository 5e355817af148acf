"""`--subagent-rows`: rows say whose they are, and a sub-agent's which call spawned it."""

import orjson
import pytest

from trace_flywheel.flow.conversion.roles import role_keys
from trace_flywheel.flow.conversion.rollout import Rules, outcome_of
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Exchange, Rollout, Source
from trace_flywheel.trainers.candidates import Choice
from trace_flywheel.trainers.layout import Candidate
from trace_flywheel.trainers.registry import layout

SPAWN = {"prompt": "Look.", "subagent_type": "Plan", "description": "Review the design"}
USER, DONE = Message("user", "Do it."), Message("assistant", "Done.")
TOOLS = (Tool("Task", "Spawn.", {"type": "object", "properties": {}}),)
CHILD = (Message("user", "Look."), Message("assistant", "Seen."))


def rollout(arguments=SPAWN, spawned_by="call_1", helpers=()):
    call = ToolCall("call_1", "Task", orjson.dumps(arguments).decode())
    messages = (
        USER,
        Message("assistant", None, tool_calls=(call,)),
        Message("tool", "ok", tool_call_id="call_1"),
        DONE,
    )
    child = Exchange(1, "subagent", status=200, thread=1, messages=CHILD, spawned_by=spawned_by)
    main = Exchange(2, status=200, context=3)
    return Rollout("r", "t", "task", Source("benchflow", "p", ""), messages, TOOLS, exchanges=(child, main, *helpers))


def rows(one, **choice):
    outcome = outcome_of(one, layout("messages"), Rules(Choice(**choice)), "")
    told = [orjson.loads(row) for row in outcome.rows]
    return [{k: v for k, v in row.items() if k.startswith(("agent_role", "parent_tool", "subagent_"))} for row in told]


@pytest.mark.parametrize("mode", ["trial", "exchange"])
def test_the_parents_row_and_the_sub_agents(mode):
    child = {"agent_role": "subagent", "parent_tool_call_id": "call_1"}
    child |= {"subagent_type": "Plan", "subagent_description": "Review the design"}
    parent = {"agent_role": "parent"}
    expected = [parent, child] if mode == "trial" else [child, parent]
    assert rows(rollout(), row_mode=mode, subagents=True) == expected


def test_nobody_asked():
    assert rows(rollout()) == [{}]


def test_a_rollout_without_sub_agents_has_no_roles():
    assert role_keys(Rollout("r", "t", "task", Source("benchflow", "p", ""), CHILD), Candidate(CHILD, ()), True) == {}


def test_a_helpers_row_has_none():
    title = Exchange(3, "title", status=200, thread=2, messages=CHILD)
    assert rows(rollout(helpers=(title,)), subagents=True, helpers=True)[2] == {}


@pytest.mark.parametrize(
    ("arguments", "spawned_by"), [({"prompt": "Look.", "subagent_type": 3}, "call_1"), (SPAWN, "x")]
)
def test_what_is_not_known_of_the_spawn_is_not_told(arguments, spawned_by):
    child = {"agent_role": "subagent", "parent_tool_call_id": spawned_by}
    assert rows(rollout(arguments, spawned_by), subagents=True)[1] == child


def test_a_sub_agent_by_its_prompt_alone():
    assert rows(rollout(spawned_by=None), subagents=True)[1] == {"agent_role": "subagent"}
