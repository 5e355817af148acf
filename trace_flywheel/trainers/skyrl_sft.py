"""skyrl-sft: SkyRL's SFT trainer (0.4). Tools are one JSON text, its safest form in a table.

Masks exist there for token rows only, and tokens need the trainer's own template. A conversation with a masked turn is
cut behind the last supervised turn before the first masked one, and refused where there is none.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.chat import chat_messages, chat_tools, unmasked
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls
from trace_flywheel.trainers.rules import conversation_faults, mask_faults, target_faults
from trace_flywheel.trainers.schema import shape_faults


class SkyrlSft(Layout):
    NAME = "skyrl-sft"
    VERSION = 1
    KINDS = ("sft",)
    LOSES = ("reasoning", "token ids and logprobs", "turns behind a masked one")

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        chat = chat_messages(unmasked(row.messages))
        tools = orjson.dumps(chat_tools(row.tools)).decode()
        yield {"messages": chat, "tools": tools, "task_id": row.provenance.task_id, "row_id": row.row_id}

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        chat = chat_messages(unmasked(candidate.messages))
        tools = orjson.dumps(chat_tools(candidate.tools)).decode()
        return dropped_nulls({"messages": chat, "tools": tools, "task_id": rollout.task_id, "reward": rollout.reward})

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("skyrl-sft-row.v1", row))
        yield from shape
        if shape:
            return
        try:
            tools = orjson.loads(row["tools"])
        except orjson.JSONDecodeError:
            tools = None
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            yield "tools: is no JSON list of tools"
            return
        yield from conversation_faults(row["messages"], tools)
        yield from target_faults(row["messages"])
        yield from mask_faults(row["messages"])


LAYOUT = SkyrlSft()
