"""What every conversation in a row must keep to, whatever the layout: pairing of calls and results, declared tools,
arguments, targets. A rule answers with faults in words; positions count from 0 as in the row.

Results must follow their call and answer it once. An open call is legal only in the last turn: nothing can follow it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.trainers.chat import WRAPPED, argument_object

Row = dict[str, Any]
ADVANTAGE_TOLERANCE = 1e-6
"""Written numbers are doubles; only their sums may have been taken in another order."""


def tool_names(tools: Sequence[Row]) -> set[str]:
    """Names declared in chat shape (`function.name`) or flat."""
    return {str(tool.get("function", tool).get("name")) for tool in tools}


def conversation_faults(
    messages: Sequence[Row], tools: Sequence[Row], at: str = "messages", canonical: bool = False
) -> Iterator[str]:
    """Faults of a conversation that already has the layout's shape. The canonical layout holds late system turns and
    content parts, which trainers do not load."""
    names = tool_names(tools) if tools else None
    calls = 0
    open_calls: dict[str, int] = {}
    for position, message in enumerate(messages):
        role = message["role"]
        if not canonical:
            if role == "system" and position:
                yield f"{at}[{position}]: a system message may only stand first"
            if isinstance(message.get("content"), list):
                yield from part_faults(message, f"{at}[{position}]")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if not call_id or open_calls.pop(call_id, None) is None:
                yield _result_fault(message, f"{at}[{position}]")
            continue
        if open_calls:
            for call_id, asked in open_calls.items():
                yield f"{at}[{asked}]: call {call_id!r} has no result before {at}[{position}]"
            open_calls.clear()
        asks = message.get("tool_calls")
        if not asks:
            continue
        if role != "assistant":
            yield f"{at}[{position}]: tool_calls on a {role} message; only an assistant calls tools"
            continue
        for call in asks:
            calls += 1
            for fault in _call_faults(call, names):
                yield f"{at}[{position}]: {fault}"
            if call["id"] in open_calls:
                yield f"{at}[{position}]: two calls have the id {call['id']!r}"
            open_calls[call["id"]] = position
    last = len(messages) - 1
    for call_id, asked in open_calls.items():
        if asked != last:
            yield f"{at}[{asked}]: call {call_id!r} has no result although the turn's other results follow"
    if calls and not tools:
        yield f"{at}: {calls} tool call(s) but no tool is declared"


def part_faults(message: Row, where: str) -> Iterator[str]:
    """For a layout of texts."""
    if isinstance(message.get("content"), list):
        yield f"{where}: content has parts that are no text, which this layout cannot hold"


def is_malformed(message: Row) -> bool:
    """Whether an assistant's call holds what was no JSON object, under the names that `chat` gives it."""
    calls = message.get("tool_calls") or ()
    return any(name in call["function"]["arguments"] for call in calls for name in WRAPPED)


def taught_faults(messages: Sequence[Row], at: str) -> Iterator[str]:
    """For an answer that is to be preferred, by a trainer without masks: a malformed call must not be learned."""
    for position, message in enumerate(messages):
        if message["role"] == "assistant" and is_malformed(message):
            yield f"{at}[{position}]: a call without a JSON object as arguments, which this trainer would train on"


def _result_fault(message: Row, where: str) -> str:
    """Of a result that no open call has asked for."""
    call_id = message.get("tool_call_id")
    if not call_id:
        return f"{where}: a tool message needs a tool_call_id"
    return f"{where}: tool_call_id {call_id!r} answers no open call of the turn before it"


def _call_faults(call: Row, names: set[str] | None) -> list[str]:
    function, faults = call["function"], []
    if names is not None and function["name"] not in names:
        faults.append(f"tool {function['name']!r} is not declared")
    arguments = function["arguments"]
    if arguments.__class__ is str and argument_object(arguments) is None:
        faults.append(f"arguments of call {call['id']!r} are no JSON object")
    return faults


def target_faults(messages: Sequence[Row], at: str = "messages") -> Iterator[str]:
    """A supervised turn must teach something, and a row must have one."""
    supervised = [
        (position, message)
        for position, message in enumerate(messages)
        if message["role"] == "assistant" and message.get("train_on") is not False
    ]
    if not supervised:
        yield f"{at}: no assistant turn to train on"
    for position, message in supervised:
        if is_empty_answer(message) and position == len(messages) - 1:
            yield f"{at}[{position}]: the answer is empty"


def mask_faults(messages: Sequence[Row], at: str = "messages") -> Iterator[str]:
    """For a trainer without masks: no turn may be marked as one that is not trained on."""
    for position, message in enumerate(messages):
        if message.get("train_on") is False:
            yield f"{at}[{position}]: a masked turn, which this trainer would train on"


def is_empty_answer(message: Row) -> bool:
    """Whether an assistant turn says and calls nothing."""
    content = message.get("content")
    blank = not content or (isinstance(content, str) and not content.strip())
    return blank and not message.get("tool_calls") and not message.get("reasoning_content")


def group_faults(row: Row) -> Iterator[str]:
    """An advantage names its group, and is what the group's own numbers say it is."""
    if "advantage" not in row:
        return
    advantage, group, reward = row["advantage"], row.get("group"), row.get("reward")
    if group is None:
        yield "advantage: there is no group that it belongs to"
        return
    if advantage is None:
        return
    if reward is None:
        yield "advantage: the row has no reward"
        return
    expected = _expected_advantage(float(reward), group)
    if expected is not None and abs(expected - advantage) > ADVANTAGE_TOLERANCE:
        yield f"advantage: {advantage} is not {expected:.6g}, which reward, mean and std of the group give"


def _expected_advantage(reward: float, group: Row) -> float | None:
    """By the group's mean, std and size; None where the block does not say enough."""
    mean, std, scored = group.get("mean"), group.get("std"), group.get("scored")
    if mean is None or not scored or scored < 2:
        return None
    if group.get("normalisation") == "loo":
        return float(reward - (mean * scored - reward) / (scored - 1))
    if group.get("normalisation") == "dr-grpo":
        return float(reward - mean)
    if group.get("normalisation") == "max-rl":
        return float((reward - mean) / mean) if mean > 0 else 0.0
    if group.get("normalisation") != "grpo" or std is None:
        return None
    return 0.0 if std == 0 else float((reward - mean) / (std + group.get("eps", 1e-4)))
