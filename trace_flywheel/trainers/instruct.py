"""instruct: one question, one answer, as plain text. What has more turns, calls or parts is refused."""

from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.records.message import Message, has_only_text, text_of
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import SftRow
from trace_flywheel.trainers.chat import chat_messages
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls
from trace_flywheel.trainers.schema import shape_faults

FITS = (["user", "assistant"], ["system", "user", "assistant"])


class Instruct(Layout):
    NAME = "instruct"
    VERSION = 1
    KINDS = ("sft",)
    LOSES = ("reasoning", "tool declarations", "token ids and logprobs")

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        yield _row(row.messages, task_id=row.provenance.task_id, row_id=row.row_id)

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        return _row(candidate.messages, task_id=rollout.task_id, reward=rollout.reward)

    def validate(self, row: Any) -> Iterator[str]:
        if isinstance(row, dict) and "messages" in row:
            yield "messages: not one question and one plain answer to train on"
            return
        yield from shape_faults("instruct-row.v1", row)


def _row(messages: Sequence[Message], **values: Any) -> Row:
    if not _fits(messages):
        return {"messages": chat_messages(messages), **values}
    *system, user, answer = messages
    texts = {"instruction": text_of(user.content), "response": text_of(answer.content)}
    return dropped_nulls({**texts, "system": text_of(system[0].content) if system else None, **values})


def _fits(messages: Sequence[Message]) -> bool:
    if [str(message.role) for message in messages] not in FITS:
        return False
    answer = messages[-1]
    plain = all(has_only_text(message.content) for message in messages)
    return plain and not answer.tool_calls and answer.train_on is not False


LAYOUT = Instruct()
