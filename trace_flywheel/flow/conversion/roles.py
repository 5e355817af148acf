"""Who speaks in a row of `--subagent-rows`: the parent, or a sub-agent with the call that spawned it."""

import orjson

from trace_flywheel.records.message import ToolCall
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.trainers.layout import Candidate, Row

ROLE_KEYS = ("agent_role", "parent_tool_call_id", "subagent_type", "subagent_description")


def role_keys(rollout: Rollout, candidate: Candidate, asked: bool) -> Row:
    """The row's `agent_role`, of a sub-agent also `parent_tool_call_id`, `subagent_type` and `subagent_description`
    as far as they are known. Nothing for rows of rollouts without sub-agents, and where nobody `asked` for theirs."""
    if not asked or all(exchange.purpose != "subagent" for exchange in rollout.exchanges):
        return {}
    if candidate.purpose != "subagent":
        return {"agent_role": "parent"} if candidate.purpose == "agent" else {}
    keys: Row = {"agent_role": "subagent"}
    if candidate.spawned_by is None:
        return keys
    keys["parent_tool_call_id"] = candidate.spawned_by
    spawn = _call(rollout, candidate.spawned_by)
    arguments = orjson.loads(spawn.arguments) if spawn is not None and spawn.parsed else {}
    for name, argument in (("subagent_type", "subagent_type"), ("subagent_description", "description")):
        if isinstance(arguments.get(argument), str):
            keys[name] = arguments[argument]
    return keys


def _call(rollout: Rollout, call_id: str) -> ToolCall | None:
    """The call, made by the main thread or by another sub-agent."""
    conversations = (rollout.messages, *(exchange.messages for exchange in rollout.exchanges))
    calls = (call for messages in conversations for message in messages for call in message.tool_calls)
    return next((call for call in calls if call.id == call_id), None)
