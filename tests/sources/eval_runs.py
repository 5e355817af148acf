"""Rows and run folders of an eval harness, and what the reader makes of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.sources.discover import discover, read_unit, units
from trace_flywheel.sources.eval_row import rollout_of
from trace_flywheel.sources.reader import ReadOptions, Run

Record = Rollout | Drop


def row(trace_id: str = "t1", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    return {"trace_id": trace_id, "task_id": "task", "messages": messages, "verdict": "pass", "reward": 1.0} | fields


def layout(tmp_path: Path, text: str | bytes, name: str = "results.json") -> Path:
    folder = tmp_path / "bench" / "runs" / "r1"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return tmp_path / "bench"


def read(root: Path, options: ReadOptions | None = None) -> list[Record]:
    def records() -> Iterator[Record]:
        for run in discover([root]).runs:
            for unit in units(run):
                yield from read_unit(run, unit, options or ReadOptions())

    return list(records())


def read_row(value: Any, **options: Any) -> Rollout:
    run = Run("bench/runs/r1", "eval_run", Path("/bench"), Path("/bench/runs/r1"))
    return rollout_of(value, run, Source("eval_run", "runs/r1/results.json", "0"), options)


def read_messages(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return read_row(row(messages=list(messages))).messages
