"""A corpus as job folders of every source format: `python -m benchmarks.folders DIR --format benchflow --rollouts 200`.

BenchFlow repeats the conversation in every captured call (about 320 KB a trial, as in the published figures of
`bench train convert`); Harbor, eval runs and recordings hold it once (about 30 KB). `truth.jsonl` lies beside them.
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from benchmarks.corpus import Attempt, Shape, attempts, shaped, truth

RUN_ROWS = 250
"""Rows of one eval run."""
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
NAMED = (
    ("bash", "Run a shell command in the task's container and return its output."),
    ("read", "Read a file and return its lines."),
    ("write", "Write a file, replacing what is there."),
    ("grep", "Search file contents with a regular expression."),
)
TOOLS = [
    {"type": "function", "function": {"name": name, "description": told, "parameters": PARAMETERS}}
    for name, told in NAMED
]


def messages_of(one: Attempt) -> list[dict[str, Any]]:
    """The conversation in OpenAI chat form."""
    said: list[dict[str, Any]] = [{"role": "system", "content": one.system}, {"role": "user", "content": one.prompt}]
    for n, step in enumerate(one.steps):
        arguments = orjson.dumps({"command": step.command}).decode()
        call = {"id": f"call_{n}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
        said.append({"role": "assistant", "content": step.say, "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": call["id"], "content": step.output})
    said.append({"role": "assistant", "content": one.last})
    return said


def benchflow(folder: Path, of: Iterable[Attempt]) -> None:
    """One job of opencode trials, each with `result.json` and its captured calls."""
    job = folder / "2026-11-04__17-49-57"
    total = 0
    for one in of:
        total += 1
        trial = job / one.name
        (trial / "trajectory").mkdir(parents=True)
        (trial / "trajectory" / "llm_trajectory.jsonl").write_bytes(b"\n".join(map(orjson.dumps, _exchanges(one))))
        result = {
            "task_name": one.task,
            "rollout_name": one.name,
            "agent": "opencode",
            "model": "deepseek/deepseek-v4-flash",
            "rewards": {"reward": one.reward},
            "error": None,
            "agent_result": {"n_tool_calls": len(one.steps), "total_tokens": 48_000},
            "started_at": "2026-11-04 17:49:57.000000",
            "finished_at": _time(one, " "),
        }
        (trial / "result.json").write_bytes(orjson.dumps(result))
    (job / "summary.json").write_bytes(orjson.dumps({"total": total}))


def _time(one: Attempt, between: str) -> str:
    minutes = one.number % 1440
    return f"2026-11-{5 + one.number // 1440 % 20:02d}{between}{minutes // 60:02d}:{minutes % 60:02d}:00.000000"


def _exchanges(one: Attempt) -> Iterable[dict[str, Any]]:
    messages = messages_of(one)
    answers = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    for number, position in enumerate(answers):
        choice = {"index": 0, "message": messages[position], "finish_reason": "stop"}
        usage = {"prompt_tokens": 400 * number, "completion_tokens": 40}
        model = "deepseek-v4-flash"
        asked = {"model": model, "messages": messages[:position], "tools": TOOLS, "stream": True}
        told = {"object": "chat.completion", "choices": [choice], "usage": usage}
        yield {
            "request": {
                "timestamp": "2026-11-04T17:49:57Z",
                "method": "POST",
                "path": "/v1/chat/completions",
                "headers": {},
                "body": asked,
            },
            "response": {"timestamp": "2026-11-04T17:50:01Z", "status_code": 200, "headers": {}, "body": told},
            "duration_ms": 4000.0,
            "metadata": {"request_model": model, "call_purpose": "agent"},
        }


def eval_run(folder: Path, of: Iterable[Attempt]) -> None:
    """Runs of an eval harness, `RUN_ROWS` graded traces each."""
    rows: list[bytes] = []
    runs = 0

    def end() -> None:
        nonlocal runs
        run = folder / "runs" / f"{runs:05d}"
        run.mkdir(parents=True)
        (run / "results.json").write_bytes(b"[" + b",\n".join(rows) + b"]")
        rows.clear()
        runs += 1

    for one in of:
        row = {
            "trace_id": one.name,
            "task_id": one.task,
            "agent": "opencode",
            "model": "deepseek-v4-flash",
            "messages": messages_of(one),
            "tools": TOOLS,
            "verdict": "pass" if one.reward >= 0.5 else "fail",
            "reward": one.reward,
            "grader": "tests",
            "grader_version": "1",
            "finished_at": _time(one, "T"),
        }
        rows.append(orjson.dumps(row))
        if len(rows) == RUN_ROWS:
            end()
    if rows:
        end()


def harbor(folder: Path, of: Iterable[Attempt]) -> None:
    """One Harbor job with ATIF trajectories."""
    job = folder / "harbor-job"
    for one in of:
        trial = job / one.name
        (trial / "agent").mkdir(parents=True)
        steps: list[dict[str, Any]] = [
            {"step_id": 1, "source": "system", "message": one.system},
            {"step_id": 2, "source": "user", "message": one.prompt},
        ]
        for n, step in enumerate(one.steps):
            call = {"tool_call_id": f"call_{n}", "function_name": "bash", "arguments": {"command": step.command}}
            seen = {"results": [{"source_call_id": f"call_{n}", "content": step.output}]}
            said = {"source": "agent", "message": step.say, "tool_calls": [call], "observation": seen}
            steps.append({"step_id": len(steps) + 1, **said})
        steps.append({"step_id": len(steps) + 1, "source": "agent", "message": one.last})
        agent = {"name": "terminus-2", "version": "2.0.0", "model_name": "deepseek-v4-flash"}
        document = {"schema_version": "ATIF-v1.5", "session_id": one.name, "agent": agent, "steps": steps}
        (trial / "agent" / "trajectory.json").write_bytes(orjson.dumps(document))
        result = {
            "id": one.name,
            "task_name": one.task,
            "trial_name": one.name,
            "task_checksum": "0" * 64,
            "agent_info": {"name": "terminus-2", "version": "2.0.0"},
            "verifier_result": {"rewards": {"reward": one.reward}},
            "exception_info": None,
            "started_at": "2026-11-04T17:49:57.000000",
            "finished_at": _time(one, "T"),
        }
        (trial / "result.json").write_bytes(orjson.dumps(result))
    (job / "result.json").write_bytes(orjson.dumps({"id": "job", "finished_at": "2026-11-30T00:00:00"}))


def atraj(folder: Path, of: Iterable[Attempt]) -> None:
    """A folder of `.atraj` recordings."""
    job = folder / "recordings"
    job.mkdir(parents=True)
    for one in of:
        steps: list[dict[str, Any]] = [
            {"role": "system", "content": one.system},
            {"role": "user", "content": one.prompt},
        ]
        for step in one.steps:
            arguments = orjson.dumps({"command": step.command}).decode()
            said = orjson.dumps({"tool": "bash", "arguments": {"command": step.command}}).decode()
            result = {"name": "bash", "stdout": step.output, "stderr": "", "exit_code": 0}
            call = {"name": "bash", "arguments_json": arguments}
            steps.append({"role": "assistant", "content": said, "tool_call": call})
            steps.append({"role": "tool", "content": step.output, "tool_result": result})
        steps.append({"role": "assistant", "content": orjson.dumps({"answer": one.last}).decode()})
        document = {"version": 1, "id": one.name, "summary": {}, "task": one.task, "steps": steps}
        (job / f"{one.name}.atraj").write_bytes(orjson.dumps(document))


FORMATS: dict[str, Callable[[Path, Iterable[Attempt]], None]] = {
    "benchflow": benchflow,
    "harbor": harbor,
    "eval": eval_run,
    "atraj": atraj,
}


def write(folder: Path, format: str, shape: Shape) -> float:
    """Write the corpus below `folder`; answers the MB (10^6 bytes) that a reader of it reads."""
    FORMATS[format](folder / "jobs", attempts(shape))
    with (folder / "truth.jsonl").open("wb") as file:
        file.writelines(orjson.dumps(known) + b"\n" for known in truth(shape))
    return sum(path.stat().st_size for path in (folder / "jobs").rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", choices=FORMATS, default="benchflow")
    parser.add_argument("--rollouts", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=42)
    asked = parser.parse_args()
    size = write(asked.folder, asked.format, shaped(asked.rollouts, asked.tasks, seed=asked.seed))
    print(f"{asked.folder / 'jobs'}: {size:.0f} MB")
