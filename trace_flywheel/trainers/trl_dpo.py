"""trl-dpo: TRL's conversational preference rows: `prompt`, `chosen`, `rejected` as message lists, and `tools`.

The prompt is the members' common prefix, the two tails start where they diverge. Both tails are made by the same
rules, so that nothing but the answer tells them apart. Reasoning is left out of both.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trace_flywheel.records.message import Message
from trace_flywheel.records.rows import PreferencePair
from trace_flywheel.trainers.chat import ChatMessage, chat_messages, chat_tools, without_mask
from trace_flywheel.trainers.layout import Layout, Row
from trace_flywheel.trainers.rules import conversation_faults, is_empty_answer, taught_faults
from trace_flywheel.trainers.schema import shape_faults


class TrlDpo(Layout):
    NAME = "trl-dpo"
    VERSION = 1
    KINDS = ("pair",)
    LOSES = ("reasoning", "token ids and logprobs", "the role of a system turn that is not first")

    def pair_rows(self, pair: PreferencePair) -> Iterator[Row]:
        yield {
            "prompt": _tail((), pair.prompt),
            "chosen": _tail(pair.prompt, pair.chosen),
            "rejected": _tail(pair.prompt, pair.rejected),
            "tools": chat_tools(pair.tools),
            "task_id": pair.provenance.task_id,
            "row_id": pair.row_id,
        }

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("trl-dpo-row.v1", row))
        yield from shape
        if shape:
            return
        tools = row.get("tools") or ()
        for side in ("chosen", "rejected"):
            tail = row[side]
            yield from conversation_faults(row["prompt"] + tail, tools, f"prompt + {side}")
            if tail[0]["role"] != "assistant":
                yield f"{side}[0]: a {tail[0]['role']} message; the members must diverge at an assistant turn"
            if all(is_empty_answer(message) for message in tail if message["role"] == "assistant"):
                yield f"{side}: the answer is empty"
        yield from taught_faults(row["chosen"], "chosen")
        if row["chosen"] == row["rejected"]:
            yield "chosen and rejected are the same"


def _tail(prefix: Sequence[Message], messages: Sequence[Message]) -> list[ChatMessage]:
    """The messages as they stand after `prefix`: a system turn counts as late there."""
    chat = chat_messages((*prefix[:1], *messages), arguments="object")
    return [without_mask(message) for message in chat[len(prefix[:1]) :]]


LAYOUT = TrlDpo()
