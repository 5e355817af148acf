"""Each message shape as a pair of files: a capture (or ACP events), and the canonical messages it must become."""

from pathlib import Path

import msgspec
import pytest

from trace_flywheel.records.message import Message
from trace_flywheel.sources.assembly import assemble
from trace_flywheel.sources.capture import Capture, read_capture
from trace_flywheel.sources.jsonl import Line, read_lines
from trace_flywheel.sources.threads import Evidence, threads_of
from trace_flywheel.sources.wires import acp

GOLDEN = Path(__file__).parents[2] / "golden"
SHAPES = (
    "absent_content",
    "acp",
    "anthropic_native",
    "arguments",
    "claude_gateway",
    "gemini",
    "ids_used_again",
    "legacy_function_call",
    "parts",
    "responses_parallel",
)
LIMIT = 1_000_000


def canonical(shape: str) -> list[Message]:
    source = GOLDEN / f"{shape}.in.jsonl"
    if shape == "acp":
        return list(
            acp.messages_of([line.value for line in read_lines(source, GOLDEN, LIMIT) if isinstance(line, Line)])
        )
    capture = read_capture(source, GOLDEN, LIMIT)
    assert isinstance(capture, Capture)
    return list(assemble(threads_of(capture.calls, None, Evidence), exchanges=True).messages)


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(shape: str) -> None:
    expected = (GOLDEN / f"{shape}.out.jsonl").read_bytes().splitlines()
    assert canonical(shape) == [msgspec.json.decode(line, type=Message) for line in expected]
