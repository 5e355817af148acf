"""openai-ft: OpenAI's fine-tuning of chat models, within its documented limits.

Every assistant message has a `weight`, 1 where it is trained on and 0 where it is masked. An example ends with the
assistant's last message: what an agent still got after it is context of nothing. Names of tools are at most 64 letters,
digits, `_` and `-`, and at most 128 tools are declared.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.records.message import Message, Tool
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.chat import chat_messages, chat_tools, without_mask
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls
from trace_flywheel.trainers.rules import conversation_faults, is_empty_answer
from trace_flywheel.trainers.schema import shape_faults

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_TOOLS = 128


class OpenaiFt(Layout):
    NAME = "openai-ft"
    VERSION = 1
    KINDS = ("sft",)
    LOSES = (
        "reasoning",
        "token ids and logprobs",
        "what follows the last answer",
        "provenance: the service takes no other keys",
    )

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        yield _row(row.messages, row.tools)

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        return _row(candidate.messages, candidate.tools)

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("openai-ft-row.v1", row))
        yield from shape
        if shape:
            return
        messages, tools = row["messages"], row.get("tools") or ()
        yield from conversation_faults(messages, tools)
        if messages[-1]["role"] != "assistant":
            yield f"messages[{len(messages) - 1}]: the last message must be the assistant's"
        taught = [m for m in messages if m["role"] == "assistant" and m.get("weight") != 0]
        if not taught:
            yield "messages: no assistant turn to train on"
        elif all(is_empty_answer(message) for message in taught):
            yield "messages: the answer is empty"
        if len(tools) > MAX_TOOLS:
            yield f"tools: {len(tools)} are declared; {MAX_TOOLS} are allowed"
        for i, tool in enumerate(tools):
            if not TOOL_NAME.fullmatch(tool["function"]["name"]):
                yield f"tools[{i}]: the name is not 1 to 64 letters, digits, _ or -"


def _row(messages: Sequence[Message], tools: Sequence[Tool]) -> Row:
    answers = [i for i, message in enumerate(messages) if message.role == "assistant"]
    messages = messages[: answers[-1] + 1] if answers else messages
    chat = []
    for message in chat_messages(messages):
        weighted = without_mask(message)
        if message["role"] == "assistant":
            weighted["weight"] = 0 if message.get("train_on") is False else 1
        chat.append(weighted)
    parallel = any(len(message.tool_calls) > 1 for message in messages) if tools else None
    return dropped_nulls({"messages": chat, "tools": chat_tools(tools) or None, "parallel_tool_calls": parallel})


LAYOUT = OpenaiFt()
