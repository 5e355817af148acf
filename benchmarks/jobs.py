"""Writes BenchFlow jobs of any size, seeded: `python -m benchmarks.jobs FOLDER --trials 2000`.

A trial is an opencode run of 15 model calls and 14 tool calls: a system prompt of 3 KB, a task of 1.5 KB, tool output
of 0.6 to 2.6 KB a call, each call repeating the conversation so far; its capture is about 320 KB, as in the published
figures of `bench train convert`.
"""

import argparse
import random
from pathlib import Path
from typing import Any

import orjson

CALLS = 15
TASKS = 50
WORDS = """the value of each sample and file was read from disk before a run so that result count time model data
    test error line step task path build cache index query table column server client config module function
    return import class self none true false list dict string number array parse write open close check
    update remove""".split()  # noqa: SIM905  # a list of one word a line says no more
CODE = (
    "def load(path: str) -> dict:",
    "    with open(path) as f:",
    "        return json.load(f)",
    "total = sum(row['count'] for row in rows)",
    "INFO  worker-3  batch 118 done in 0.482s (max_tokens=4096)",
    "-rw-r--r-- 1 root root 18433 Nov  4 17:49 data/decay.csv",
    "commit 4f1c2b7d9e0a8b6c5d4e3f2a1b0c9d8e7f6a5b4c",
    '{"id": 4711, "name": "sample", "ok": true, "score": 0.75}',
    "https://docs.example.org/en/latest/api/module.html#section-2",
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": text,
            "parameters": {
                "type": "object",
                "properties": {argument: {"type": "string", "description": text}},
                "required": [argument],
            },
        },
    }
    for name, argument, text in (
        ("bash", "command", "Run a shell command in the task's container and return its output."),
        ("read", "filePath", "Read a file and return its lines."),
        ("write", "filePath", "Write a file, replacing what is there."),
        ("grep", "pattern", "Search file contents with a regular expression."),
    )
]


def text(rng: random.Random, size: int) -> str:
    """About `size` characters: prose with code, log lines and listings in between."""
    lines: list[str] = []
    length = 0
    while length < size:
        line = rng.choice(CODE) if rng.random() < 0.3 else " ".join(rng.choices(WORDS, k=12)) + "."
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


def exchanges(rng: random.Random, system: str, task: str) -> list[dict[str, Any]]:
    """The recorded calls of one trial."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}, {"role": "user", "content": task}]
    told = []
    for number in range(CALLS):
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": "bash",
                "arguments": orjson.dumps(
                    {"command": f"python3 step_{number}.py --seed {rng.randrange(10**6)}"}
                ).decode(),
            },
        }
        answer: dict[str, Any] = {"role": "assistant", "content": text(rng, 160)}
        if number < CALLS - 1:
            answer["tool_calls"] = [call]
        told.append(
            {
                "request": {
                    "timestamp": "2026-11-04T17:49:57Z",
                    "method": "POST",
                    "path": "/v1/chat/completions",
                    "headers": {},
                    "body": {"model": "deepseek-v4-flash", "messages": list(messages), "tools": TOOLS, "stream": True},
                },
                "response": {
                    "timestamp": "2026-11-04T17:50:01Z",
                    "status_code": 200,
                    "headers": {},
                    "body": {
                        "object": "chat.completion",
                        "choices": [{"index": 0, "message": answer, "finish_reason": "stop"}],
                        "usage": {"prompt_tokens": 400 * number, "completion_tokens": 40},
                    },
                },
                "duration_ms": 4000.0,
                "metadata": {"request_model": "deepseek-v4-flash", "call_purpose": "agent"},
            }
        )
        messages.append(answer)
        if number < CALLS - 1:
            output = text(rng, rng.randrange(600, 2600))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    return told


def write_trial(folder: Path, number: int, seed: int) -> None:
    """One trial folder: `result.json` and its capture."""
    rng = random.Random(f"{seed}:{number}")
    task = f"task-{number % TASKS:02d}"
    trial = folder / f"{task}__{number:08x}"
    (trial / "trajectory").mkdir(parents=True)
    shared = random.Random(f"{seed}:{task}")
    calls = exchanges(rng, text(random.Random(seed), 3000), text(shared, 1500))
    (trial / "trajectory" / "llm_trajectory.jsonl").write_bytes(b"\n".join(orjson.dumps(c) for c in calls))
    result = {
        "task_name": task,
        "rollout_name": trial.name,
        "agent": "opencode",
        "model": "deepseek/deepseek-v4-flash",
        "rewards": {"reward": rng.choice((0.0, 0.25, 0.5, 1.0))},
        "error": None,
        "agent_result": {"n_tool_calls": CALLS - 1, "total_tokens": 48_000, "usage_source": "provider_response"},
        "started_at": "2026-11-04 17:49:57.000000",
        "finished_at": f"2026-11-04 18:{number % 60:02d}:00.000000",
    }
    (trial / "result.json").write_bytes(orjson.dumps(result))


def write_job(folder: Path, trials: int, seed: int = 42) -> Path:
    """A finished job of `trials` trials below `folder`."""
    job = folder / "2026-11-04__17-49-57"
    for number in range(trials):
        write_trial(job, number, seed)
    (job / "summary.json").write_bytes(orjson.dumps({"total": trials}))
    return job


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=42)
    asked = parser.parse_args()
    print(write_job(asked.folder, asked.trials, asked.seed))
