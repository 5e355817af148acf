"""Canonical messages as the OpenAI chat objects that trainers load.

The choices every layout has to make are arguments here and nothing else differs: arguments as JSON text (prime-sft,
messages) or as objects (trl); absent content as `""` or null; whether reasoning stays. Nothing is cut: content parts
other than text stay parts, and a layout that cannot hold them refuses the row in its `validate`.

A call whose arguments are no JSON object is never a target: its text is kept under the name that BenchFlow gives it
(`_malformed_json_arguments`, `_non_object_json_arguments`), so that the context stays loadable, and the turn is masked.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import orjson

from trace_flywheel.records.message import Message, Tool, ToolCall, has_only_text, text_of

Arguments = Literal["text", "object"]
ChatMessage = dict[str, Any]
NO_JSON, NO_OBJECT = WRAPPED = ("_malformed_json_arguments", "_non_object_json_arguments")
"""Under which name a call's text, or its value, stands that is no JSON object."""
EMPTY_PARAMETERS = {"type": "object", "properties": {}}


def chat_messages(
    messages: Iterable[Message],
    *,
    arguments: Arguments = "text",
    absent: str | None = "",
    reasoning: bool = False,
    late_system: Literal["user", "system"] = "user",
) -> list[ChatMessage]:
    """Chat objects in order. `absent` stands for an assistant's missing content, `""` for that of the others; a system
    turn after the first message gets the role `late_system`, because most chat templates refuse it anywhere else."""
    chat = []
    for position, message in enumerate(messages):
        role = late_system if message.role == "system" and position else message.role
        chat.append(_chat_message(message, role, arguments, absent, reasoning))
    return chat


def _chat_message(
    message: Message, role: str, arguments: Arguments, absent: str | None, reasoning: bool
) -> ChatMessage:
    row: ChatMessage = {"role": role}
    if message.tool_call_id is not None:
        row["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        row["name"] = message.name
    content = message.content
    if content.__class__ is list and has_only_text(content):
        content = text_of(content)
    # Chat templates render the text of every other turn; only an assistant's may be missing.
    row["content"] = content or (absent if message.role == "assistant" else "")
    if reasoning and message.reasoning:
        row["reasoning_content"] = message.reasoning
    if calls := message.tool_calls:
        row["tool_calls"] = [chat_call(call, arguments) for call in calls]
    if message.role == "assistant":
        if calls and not all(call.parsed for call in calls):
            row["train_on"] = False
        elif message.train_on is not None:
            row["train_on"] = message.train_on
    return row


def chat_call(call: ToolCall, arguments: Arguments) -> dict[str, Any]:
    """One call; parsed argument text stays byte for byte where the layout wants text."""
    value: Any = call.arguments
    if not call.parsed:
        value = _wrapped(value)
        value = orjson.dumps(value).decode() if arguments == "text" else value
    elif arguments == "object":
        value = argument_object(value) or {}
    elif value.isspace() or not value:
        value = "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": value}}


def argument_object(text: str) -> dict[str, Any] | None:
    """Arguments as an object: empty text and null are an empty one; None where the text holds no object."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None if text.strip() else {}
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def _wrapped(text: str) -> dict[str, Any]:
    try:
        return {NO_OBJECT: orjson.loads(text)}
    except orjson.JSONDecodeError:
        return {NO_JSON: text}


def chat_tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    """Tool declarations, with whatever else the source declared (`strict`); no schema is an empty object."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                **({} if tool.description is None else {"description": tool.description}),
                "parameters": tool.parameters or EMPTY_PARAMETERS,
                **(tool.extra or {}),
            },
        }
        for tool in tools
    ]


def supervised_turns(messages: Sequence[Message]) -> list[int]:
    """Positions of the assistant messages that train: not masked, and every call's arguments an object."""
    return [
        position
        for position, message in enumerate(messages)
        if message.role == "assistant"
        and message.train_on is not False
        and all(call.parsed for call in message.tool_calls)
    ]


def unmasked(messages: Sequence[Message]) -> Sequence[Message]:
    """For a trainer that trains on every assistant turn: the messages up to the last one before the first masked
    turn. Where nothing would be left the messages stay as they are, marks included, for `validate` to refuse."""
    supervised = set(supervised_turns(messages))
    turns = [i for i, message in enumerate(messages) if message.role == "assistant"]
    first = next((n for n, i in enumerate(turns) if i not in supervised), None)
    if not first:
        return messages
    return messages[: turns[first - 1] + 1]


def without_mask(message: ChatMessage) -> ChatMessage:
    """The message for a layout that has no per-message flag."""
    return {key: value for key, value in message.items() if key != "train_on"} if "train_on" in message else message
