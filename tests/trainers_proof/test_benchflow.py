"""prime-sft and trl-sft through `bench train validate`, where BENCH names the command (`make test-trainers` does)."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

BENCH = os.environ.get("BENCH")

pytestmark = pytest.mark.skipif(not BENCH, reason="BENCH names no `bench` command")


def validated(file: Path, layout: str) -> dict[str, Any]:
    command = [str(BENCH), "train", "validate", str(file), "--format", layout]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "COLUMNS": "500"})
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-2000:]
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("layout", ["prime-sft", "trl-sft"])
def test_bench_takes_every_converted_row(converted, layout: str) -> None:
    file = converted(layout)
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    said = validated(file, layout)
    turns = [row.get("messages") or row["prompt"] + row["completion"] for row in rows]
    calling = sum(any(message.get("tool_calls") for message in messages) for messages in turns)
    assert (said["ok"], said["rows"], said["rows_with_tool_calls"]) == (True, len(rows), calling)
    assert calling > 0


@pytest.mark.parametrize("layout", ["prime-sft", "trl-sft"])
def test_bench_takes_a_published_dataset(exported, layout: str) -> None:
    file = exported("sft_dataset", layout) / "data-00000.jsonl"
    assert validated(file, layout)["rows"] == len(file.read_bytes().splitlines()) > 0
