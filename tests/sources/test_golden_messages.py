"""Message shapes as files: one source record a line in, its canonical messages a line out."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.sources.atraj import READER
from trace_flywheel.sources.eval_row import rollout_of
from trace_flywheel.sources.reader import ReadOptions, Run, Unit
from trace_flywheel.sources.wires.atif import conversation_of

GOLDEN = Path(__file__).parent.parent / "golden"
RUN = Run("bench/r1", "any", Path("/bench"), Path("/bench/r1"))


def eval_run(line: bytes) -> tuple[Message, ...]:
    return rollout_of(msgspec.json.decode(line), RUN, Source("eval_run", "results.json", "0"), {}).messages


def atif(line: bytes) -> tuple[Message, ...]:
    return conversation_of(msgspec.json.decode(line), lambda reference: None).messages


def atraj(line: bytes) -> tuple[Message, ...]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.atraj"
        path.write_bytes(line)
        run = Run("x.atraj", "atraj", Path(folder), path)
        (found,) = READER.read(run, Unit(path, path.name, 0), ReadOptions())
    assert isinstance(found, Rollout)
    return found.messages


SHAPES: dict[str, Callable[[bytes], tuple[Message, ...]]] = {"eval_run": eval_run, "atif": atif, "atraj": atraj}


@pytest.mark.parametrize("shape", SHAPES)
def test_golden(shape: str) -> None:
    given = (GOLDEN / f"{shape}.in.jsonl").read_bytes().split(b"\n")[:-1]
    expected = (GOLDEN / f"{shape}.out.jsonl").read_bytes().split(b"\n")[:-1]
    assert [msgspec.json.encode(SHAPES[shape](line)) for line in given] == expected
