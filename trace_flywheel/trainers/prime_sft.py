"""prime-sft: what Prime-RL's SFT trainer loads, key for key as BenchFlow writes it.

Arguments are JSON strings, absent content is `""`, a system turn stands first or becomes a user turn. Reasoning is
left out (BenchFlow's validator refuses it); `train_on` stays on assistant messages. Keys without a value are left out.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.chat import chat_messages, chat_tools
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls, reward_of, source_keys
from trace_flywheel.trainers.rules import conversation_faults, group_faults, target_faults
from trace_flywheel.trainers.schema import shape_faults


class PrimeSft(Layout):
    NAME = "prime-sft"
    VERSION = 1
    KINDS = ("sft",)
    LOSES = ("reasoning", "token ids and logprobs", "the role of a system turn that is not first")

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        reward = reward_of(row.provenance)
        yield dropped_nulls(
            {
                "messages": chat_messages(row.messages),
                "tool_defs": chat_tools(row.tools),
                "task_name": row.provenance.task_id,
                "source": "trace-flywheel",
                "source_path": row.provenance.source[0].rpartition("#")[0] if row.provenance.source else None,
                "reward": reward,
                "score": reward,
                "row_id": row.row_id,
            }
        )

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        source, source_path, _ = source_keys(rollout, base)
        return dropped_nulls(
            {
                "messages": chat_messages(candidate.messages),
                "tool_defs": chat_tools(candidate.tools),
                "task_name": rollout.task_id,
                "source": source,
                "source_path": source_path,
                "exchange_index": candidate.exchange_index,
                "reward": rollout.reward,
                "score": rollout.reward,
                "scoring": rollout.scoring,
                "model": candidate.model,
                "agent": rollout.agent,
                "token_usage": rollout.token_usage,
            }
        )

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("prime-sft-row.v1", row))
        yield from shape
        if not shape:
            messages = row["messages"]
            yield from conversation_faults(messages, row.get("tool_defs") or ())
            yield from target_faults(messages)
            yield from group_faults(row)


LAYOUT = PrimeSft()
