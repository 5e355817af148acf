"""messages: the canonical layout. Roles, reasoning, masks and content parts stay as they are; an assistant's absent
content is null, that of others empty.

Arguments are the recorded text, so that a table of rows has one type in that column. RL rows keep token ids and
logprobs too. Provenance lies beside the rows (`provenance.parquet`), joined by `row_id`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import KtoRow, PreferencePair, PromptRow, RlRow, SftRow, row_id_of
from trace_flywheel.trainers.chat import ChatMessage, chat_messages, chat_tools
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls
from trace_flywheel.trainers.rules import conversation_faults, target_faults
from trace_flywheel.trainers.schema import shape_faults


class Messages(Layout):
    NAME = "messages"
    VERSION = 1
    KINDS = ("sft", "pair", "kto", "rl", "prompt")
    LOSES = ("token ids and logprobs of SFT rows and pairs", "what a source recorded beside a turn")

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        yield {
            "row_id": row.row_id,
            "messages": _chat(row.messages),
            "tools": chat_tools(row.tools),
            "task_id": row.provenance.task_id,
        }

    def pair_rows(self, pair: PreferencePair) -> Iterator[Row]:
        yield {
            "row_id": pair.row_id,
            "prompt": _chat(pair.prompt),
            "chosen": _chat(pair.chosen),
            "rejected": _chat(pair.rejected),
            "tools": chat_tools(pair.tools),
            "task_id": pair.provenance.task_id,
        }

    def kto_rows(self, row: KtoRow) -> Iterator[Row]:
        yield {
            "row_id": row.row_id,
            "prompt": _chat(row.prompt),
            "completion": _chat(row.completion),
            "label": row.label,
            "tools": chat_tools(row.tools),
            "task_id": row.provenance.task_id,
        }

    def rl_rows(self, row: RlRow) -> Iterator[Row]:
        chat = _chat(row.messages)
        for message, sampled in zip(chat, row.messages, strict=True):
            if sampled.token_ids is not None:
                message["token_ids"] = list(sampled.token_ids)
            if sampled.logprobs is not None:
                message["logprobs"] = list(sampled.logprobs)
        yield {
            "row_id": row.row_id,
            "messages": chat,
            "tools": chat_tools(row.tools),
            "task_id": row.provenance.task_id,
            "reward": row.reward,
            "advantage": row.advantage,
            "group": row.group,
            "policy": row.policy,
        }

    def prompt_rows(self, row: PromptRow) -> Iterator[Row]:
        yield {
            "row_id": row.row_id,
            "prompt": _chat(row.prompt),
            "answer": row.answer,
            "verifier": row.verifier,
            "difficulty": row.difficulty,
            "tools": chat_tools(row.tools),
            "task_id": row.provenance.task_id,
        }

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        return dropped_nulls(
            {
                "row_id": row_id_of(candidate.messages, candidate.tools),
                "messages": _chat(candidate.messages),
                "tools": chat_tools(candidate.tools),
                "task_id": rollout.task_id,
                "run_id": rollout.run_id,
                "trace_id": rollout.trace_id,
                "agent": rollout.agent,
                "model": rollout.model,
                "verdict": rollout.verdict,
                "reward": rollout.reward,
                "grader": rollout.grader,
                "grader_version": rollout.grader_version,
                "exchange_index": candidate.exchange_index,
                "source_path": rollout.source.path,
                "source_sha256": rollout.source.sha256,
            }
        )

    def validate(self, row: Any) -> Iterator[str]:
        if isinstance(row, dict) and "verifier" in row:
            yield from shape_faults("rl-prompt-row.v1", row)
            return
        pair, kto = (isinstance(row, dict) and key in row for key in ("chosen", "completion"))
        schema = "messages-pair-row.v1" if pair else "messages-kto-row.v1" if kto else "messages-row.v1"
        shape = list(shape_faults(schema, row))
        yield from shape
        if shape:
            return
        if pair:
            for side in ("chosen", "rejected"):
                yield from conversation_faults(row["prompt"] + row[side], row["tools"], f"prompt + {side}", True)
        elif kto:
            yield from conversation_faults(row["prompt"] + row["completion"], row["tools"], "prompt + completion", True)
        else:
            yield from conversation_faults(row["messages"], row["tools"], canonical=True)
            if "group" not in row:
                yield from target_faults(row["messages"])


def _chat(messages: Sequence[Message]) -> list[ChatMessage]:
    chat = chat_messages(messages, absent=None, reasoning=True, late_system="system")
    for row, message in zip(chat, messages, strict=True):
        if message.is_error is not None:
            row["is_error"] = message.is_error
    return chat


LAYOUT = Messages()
