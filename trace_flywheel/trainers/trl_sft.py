"""trl-sft: TRL's conversational prompt-completion rows. Arguments are objects, a completion is one assistant message.

TRL knows no per-message mask, so a dataset row becomes one row per supervised assistant turn whose prompt is all that
stands before it. `convert` writes one row per conversation, the last assistant turn its completion, as BenchFlow does.
Reasoning is left out: templates drop it from earlier turns, and then prompt and completion no longer line up.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.chat import ChatMessage, chat_messages, chat_tools, supervised_turns, without_mask
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls, reward_of, source_keys
from trace_flywheel.trainers.rules import conversation_faults, group_faults, target_faults
from trace_flywheel.trainers.schema import shape_faults


class TrlSft(Layout):
    NAME = "trl-sft"
    VERSION = 1
    KINDS = ("sft",)
    LOSES = ("reasoning", "token ids and logprobs", "the role of a system turn that is not first")

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        chat = [without_mask(message) for message in chat_messages(row.messages, arguments="object")]
        tools = chat_tools(row.tools)
        for position in supervised_turns(row.messages):
            yield dropped_nulls(
                {
                    "prompt": chat[:position],
                    "completion": [chat[position]],
                    "tools": tools,
                    "reward": reward_of(row.provenance),
                    "task_id": row.provenance.task_id,
                    "row_id": row.row_id,
                    "turn": sum(message["role"] == "assistant" for message in chat[:position]),
                }
            )

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        source, source_path, rollout_dir = source_keys(rollout, base)
        chat = chat_messages(candidate.messages, arguments="object")
        end = _last_assistant(chat)
        return dropped_nulls(
            {
                "prompt": [without_mask(message) for message in chat[:end]],
                # a masked completion keeps its mark, which the validator refuses: nothing is trained on in silence
                "completion": chat[end : end + 1],
                "tools": chat_tools(candidate.tools),
                "reward": rollout.reward,
                "scoring": rollout.scoring,
                "task_id": rollout.task_id,
                "agent": rollout.agent,
                "model": candidate.model,
                "exchange_index": candidate.exchange_index,
                "call_purpose": candidate.purpose,
                "source": source,
                "source_path": source_path,
                "source_rollout_dir": rollout_dir,
                "token_usage": rollout.token_usage,
            }
        )

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("trl-sft-row.v1", row))
        yield from shape
        if not shape:
            conversation = row["prompt"] + row["completion"]
            yield from conversation_faults(conversation, row.get("tools") or (), "prompt + completion")
            yield from target_faults(row["completion"], "completion")
            yield from group_faults(row)


def _last_assistant(chat: list[ChatMessage]) -> int:
    for position in range(len(chat) - 1, -1, -1):
        if chat[position]["role"] == "assistant":
            return position
    return len(chat)


LAYOUT = TrlSft()
