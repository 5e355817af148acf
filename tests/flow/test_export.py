"""A published row read back is the row that was published."""

from trace_flywheel.flow.export import _row
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rows import Provenance, SftRow
from trace_flywheel.trainers.registry import layout


def test_a_row_of_the_canonical_layout_comes_back_whole() -> None:
    about = Provenance("r1", "sft", "t", "jobs/a", ("t1",))
    messages = (
        Message("system", "Careful."),
        Message("user", [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "data:,"}}]),
        Message(
            "assistant", None, reasoning="Look.", tool_calls=(ToolCall("c1", "bash", '{"a":  1}'),), train_on=False
        ),
        Message("tool", "no such file", tool_call_id="c1", name="bash", is_error=True),
        Message("assistant", "It is 12.3."),
    )
    strict = Tool("bash", "Run.", {"type": "object", "additionalProperties": False}, extra={"strict": True})
    row = SftRow("r1", messages, (strict, Tool("read", "Read.", {"type": "object"})), about)
    (written,) = layout("messages").sft_rows(row)
    assert _row(written, about) == row
