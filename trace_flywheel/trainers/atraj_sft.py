"""atraj-sft: the rows that PostTrainLLM's `sft` takes, one per supervised assistant turn.

A *turn* is a step as the original writes it: `role`, `content`, and where recorded `output_ids`, `tool_call` and
`tool_result`. The `answer-only` export pairs a user turn with the last assistant turn before the next one; the
`trajectory` export gives a row per assistant turn, all that stands before it as context and `supervise` on the target
alone. Its trainer knows no tool-call objects: a call is the turn's own text, as the model wrote it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from trace_flywheel.records.message import Message, text_of
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.chat import supervised_turns
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls, source_keys

Turn = dict[str, Any]


class AtrajSft(Layout):
    NAME = "atraj-sft"
    VERSION = 1
    KINDS = ("sft",)
    LOSES = ("reasoning", "tool schemas", "call ids", "content parts that are no text", "logprobs")

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        turns = turns_of(row.messages)
        for position in supervised_turns(row.messages):
            yield {
                "export": "trajectory",
                "messages": trajectory_messages(turns, position),
                "task": row.provenance.task_id,
                "row_id": row.row_id,
            }

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        source, source_path, _ = source_keys(rollout, base)
        learned = supervised_turns(candidate.messages)
        turns = turns_of(candidate.messages)
        return {
            "export": "trajectory",
            "messages": trajectory_messages(turns, learned[-1] if learned else len(turns)),
            "task": rollout.task_id,
            "reward": rollout.reward,
            "source": source,
            "source_path": source_path,
        }

    def validate(self, row: Any) -> Iterator[str]:
        messages = row.get("messages") if isinstance(row, dict) else None
        if not isinstance(messages, list) or not messages:
            yield "messages: must be a list with at least one message"
            return
        assistants = 0
        for i, message in enumerate(messages):
            faults = list(_message_faults(message))
            yield from (f"messages[{i}]: {fault}" for fault in faults)
            assistants += not faults and message["role"] == "assistant"
        if not assistants:
            yield "messages: no assistant message, so there is nothing to train on"
        elif all(isinstance(message, dict) for message in messages):
            yield from _target_faults(messages, row.get("export") == "trajectory")


def _target_faults(messages: list[Row], trajectory: bool) -> Iterator[str]:
    """Where flags are set they name what is learned: a row without one teaches nothing, and a trajectory row teaches
    its last turn alone, so that the text after the target is the stop that the template writes."""
    flagged = [i for i, message in enumerate(messages) if message.get("supervise") is True]
    if not flagged and (trajectory or any("supervise" in message for message in messages)):
        yield "messages: no message is supervised, so there is nothing to train on"
    elif trajectory and flagged != [len(messages) - 1]:
        yield f"messages: a trajectory row supervises its last message alone, this one {flagged}"


def _message_faults(message: Any) -> Iterator[str]:
    if not isinstance(message, dict):
        yield "must be an object"
        return
    for key in ("role", "content"):
        if not isinstance(message.get(key), str):
            yield f"{key} must be text"
    if message.get("supervise") is True and message.get("role") != "assistant":
        yield f"a {message.get('role')} message cannot be supervised"
    ids = message.get("output_ids")
    if ids is not None and not (isinstance(ids, list) and all(isinstance(i, int) for i in ids)):
        yield "output_ids must be a list of integers"


def turns_of(messages: Sequence[Message]) -> list[Turn]:
    """Canonical messages as turns. A call that its text does not tell is written as the recorder writes it."""
    return [_turn(message) for message in messages]


def _turn(message: Message) -> Turn:
    extra = message.extra or {}
    turn: Turn = {"role": message.role, "content": text_of(message.content)}
    if message.role == "user" and extra.get("input_ids") is not None:
        turn["input_ids"] = list(extra["input_ids"])
    if message.role == "assistant" and message.tool_calls:
        call = message.tool_calls[0]
        turn["tool_call"] = {"name": call.name, "arguments_json": call.arguments}
        turn["content"] = extra.get("recorded_content") or turn["content"] or _written(message)
    if message.role == "assistant" and message.token_ids is not None:
        turn["output_ids"] = list(message.token_ids)
    if message.role == "tool" and (result := _result(message, extra)) is not None:
        turn["tool_result"] = result
    return turn


def _written(message: Message) -> str:
    """The calls of a turn in the recorder's protocol, one object a line."""
    calls = [f'{{"tool":{_json(c.name)},"arguments":{c.arguments if c.parsed else "{}"}}}' for c in message.tool_calls]
    return "\n".join(calls)


def _result(message: Message, extra: dict[str, Any]) -> dict[str, Any] | None:
    """The payload behind a tool turn whose text is the JSON that the model was fed."""
    try:
        fed = orjson.loads(text_of(message.content))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fed, dict) or fed.keys() != {"exit_code", "stderr", "stdout", "tool"}:
        return None
    name = fed.pop("tool")
    return dropped_nulls({**fed, "name": name, "duration_sec": extra.get("duration_sec")})


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def answer_pairs(turns: Sequence[Turn]) -> Iterator[tuple[int, int | None]]:
    """(user turn, the last assistant turn before the next user turn, None where nobody answered), in order."""
    user: int | None = None
    answer: int | None = None
    for i, turn in enumerate(turns):
        if turn["role"] == "user":
            if user is not None:
                yield user, answer
            user, answer = i, None
        elif turn["role"] == "assistant":
            answer = i
    if user is not None:
        yield user, answer


def trajectory_targets(turns: Sequence[Turn]) -> list[int]:
    """Assistant turns that say something, as text or as token ids."""
    return [
        i
        for i, turn in enumerate(turns)
        if turn["role"] == "assistant" and (turn["content"].strip() or turn.get("output_ids"))
    ]


def trajectory_messages(turns: Sequence[Turn], target: int) -> list[Row]:
    """The context and, last, the supervised target."""
    return [{**turn, "supervise": i == target} for i, turn in enumerate(turns[: target + 1])]


def parsed_turn(text: str) -> dict[str, Any] | None:
    """The object of the recorder's protocol that a turn's text spells (`tool` or `answer`); None for other text."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and ("tool" in value or "answer" in value) else None


LAYOUT = AtrajSft()
