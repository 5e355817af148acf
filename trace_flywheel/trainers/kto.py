"""kto: TRL's conversational unpaired rows: `prompt` and `completion` as message lists, `label`, and `tools`.

The completion is everything from the first assistant turn on, because the label was given to the whole attempt. Its
tool results and user turns are part of it; a trainer that must not learn them needs a template with generation marks.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import KtoRow
from trace_flywheel.trainers.chat import chat_messages, chat_tools, without_mask
from trace_flywheel.trainers.episode import chat, task_turns
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls
from trace_flywheel.trainers.rules import conversation_faults, is_empty_answer, taught_faults
from trace_flywheel.trainers.schema import shape_faults


class Kto(Layout):
    NAME = "kto"
    VERSION = 1
    KINDS = ("kto",)
    LOSES = ("reasoning", "token ids and logprobs", "the role of a system turn that is not first")

    def kto_rows(self, row: KtoRow) -> Iterator[Row]:
        chat = [without_mask(m) for m in chat_messages((*row.prompt, *row.completion), arguments="object")]
        yield {
            "prompt": chat[: len(row.prompt)],
            "completion": chat[len(row.prompt) :],
            "label": row.label,
            "tools": chat_tools(row.tools),
            "task_id": row.provenance.task_id,
            "row_id": row.row_id,
        }

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        split = task_turns(candidate.messages)
        messages = chat(candidate.messages)
        return dropped_nulls(
            {
                "prompt": messages[:split],
                "completion": messages[split:],
                # an ungraded rollout has no label, which the validator refuses
                "label": None if rollout.verdict is None else rollout.verdict == "pass",
                "tools": chat_tools(candidate.tools),
                "task_id": rollout.task_id,
                "reward": rollout.reward,
            }
        )

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("kto-row.v1", row))
        yield from shape
        if shape:
            return
        completion = row["completion"]
        yield from conversation_faults(row["prompt"] + completion, row.get("tools") or (), "prompt + completion")
        if completion[0]["role"] != "assistant":
            yield f"completion[0]: a {completion[0]['role']} message; a completion begins with the assistant"
        if row["label"]:
            yield from taught_faults(completion, "completion")
        if all(is_empty_answer(message) for message in completion if message["role"] == "assistant"):
            yield "completion: the answer is empty"


LAYOUT = Kto()
