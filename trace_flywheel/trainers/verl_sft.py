"""verl-sft: Parquet for verl's `MultiTurnSFTDataset` (0.9).

It tokenises each message by itself and trains on every assistant message; there is no mask. A conversation with a
masked turn is therefore cut behind the last supervised turn before the first masked one, and refused where there is
none. Arguments and parameters are JSON text, so that one declared type fits all tools; every message has all keys.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from trace_flywheel.records.message import Tool
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.chat import ChatMessage, chat_messages, chat_tools, unmasked, without_mask
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls
from trace_flywheel.trainers.rules import conversation_faults, mask_faults, target_faults
from trace_flywheel.trainers.schema import shape_faults


class VerlSft(Layout):
    NAME = "verl-sft"
    VERSION = 1
    KINDS = ("sft",)
    CONTAINER = "parquet"
    LOSES = ("reasoning", "token ids and logprobs", "turns behind a masked one")

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        chat = chat_messages(unmasked(row.messages))
        yield _row(chat, row.tools, task_id=row.provenance.task_id, row_id=row.row_id)

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        chat = chat_messages(unmasked(candidate.messages))
        return _row(chat, candidate.tools, task_id=rollout.task_id, reward=rollout.reward)

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("verl-sft-row.v1", row))
        yield from shape
        if not shape:
            yield from conversation_faults(row["messages"], row["tools"])
            yield from target_faults(row["messages"])
            yield from mask_faults(row["messages"])


def _row(chat: list[ChatMessage], tools: tuple[Tool, ...], **values: Any) -> Row:
    return dropped_nulls({"messages": [_message(message) for message in chat], "tools": _tools(tools), **values})


def _message(message: ChatMessage) -> ChatMessage:
    whole = {"role": "", "content": "", "tool_calls": [], "tool_call_id": None, "name": None, **message}
    return whole if message.get("train_on") is False else without_mask(whole)


def _tools(tools: tuple[Tool, ...]) -> list[dict[str, Any]]:
    told = []
    for tool in chat_tools(tools):
        function = tool["function"]
        parameters = orjson.dumps(function["parameters"]).decode()
        named = {"name": function["name"], "description": function.get("description") or "", "parameters": parameters}
        told.append({"type": "function", "function": named})
    return told


LAYOUT = VerlSft()
