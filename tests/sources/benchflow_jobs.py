"""Writes small BenchFlow jobs: what a test says, and plausible defaults for the rest."""

import json
from pathlib import Path
from typing import Any

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.benchflow import READER
from trace_flywheel.sources.reader import ReadOptions, Run

BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"c": {}}}}}


def chat(answer: dict[str, Any] | str, messages: list[Any], **body: Any) -> dict[str, Any]:
    """One successful OpenAI exchange; `answer` is the message, or its text."""
    message = {"role": "assistant", "content": answer} if isinstance(answer, str) else {"role": "assistant", **answer}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return record({"choices": [{"finish_reason": reason, "message": message}]}, messages=messages, **body)


def record(response: Any, status: int = 200, metadata: dict[str, Any] | None = None, **body: Any) -> dict[str, Any]:
    """One exchange in the capture's envelope."""
    body = {"model": "m", "tools": [BASH], **body}
    line: dict[str, Any] = {"request": {"body": body}, "response": {"status_code": status, "body": response}}
    return {**line, "metadata": metadata} if metadata else line


def call(call_id: str, arguments: Any = '{"c": "ls"}', name: str = "bash") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def trial(
    job: Path,
    name: str,
    exchanges: list[Any] | bytes | None = None,
    result: dict[str, Any] | str | bytes | None = None,
    events: list[Any] | None = None,
    prompts: list[str] | None = None,
) -> Path:
    """A trial folder. `result` as text or bytes is written as it is; None writes a passing one; "" writes none."""
    folder = job / name
    (folder / "trajectory").mkdir(parents=True)
    if isinstance(result, str | bytes):
        if result:
            (folder / "result.json").write_bytes(result.encode() if isinstance(result, str) else result)
    else:
        whole = {"task_name": name.rpartition("__")[0] or name, "agent": "openhands", "model": "p/m"}
        whole |= {"rewards": {"reward": 1.0}, "task_digest": "sha256:d"}
        (folder / "result.json").write_text(json.dumps({**whole, **(result or {})}))
    if exchanges is not None:
        data = exchanges if isinstance(exchanges, bytes) else "\n".join(map(json.dumps, exchanges)).encode()
        (folder / "trajectory" / "llm_trajectory.jsonl").write_bytes(data)
    if events is not None:
        (folder / "trajectory" / "acp_trajectory.jsonl").write_text("\n".join(map(json.dumps, events)))
    if prompts is not None:
        (folder / "prompts.json").write_text(json.dumps(prompts))
    return folder


def read_job(job: Path, root: Path | None = None, **options: Any) -> list[Rollout | Drop]:
    """Everything that reading the job gives, in the order of its units."""
    run = Run("jobs/j", "benchflow", root or job, job)
    opts = ReadOptions(**options)
    return [found for unit in READER.units(run) for found in READER.read(run, unit, opts)]


def read_one(job: Path, **options: Any) -> Rollout:
    """The one rollout of the job."""
    (found,) = read_job(job, **options)
    assert isinstance(found, Rollout), found
    return found


def lost_one(job: Path, **options: Any) -> Drop:
    """The one drop of the job."""
    (found,) = read_job(job, **options)
    assert isinstance(found, Drop), found
    return found


USER = {"role": "user", "content": "go"}
TURN = {"role": "assistant", "content": "", "tool_calls": [call("c1")]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "out"}
TWO_CALLS = [chat({"content": None, "tool_calls": [call("c1")]}, [USER]), chat("done", [USER, TURN, RESULT])]
