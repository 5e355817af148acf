"""A BenchFlow job folder: trials with result, gateway capture and ACP events, and the job's summary and marker.

Two wires. `openai`: chat requests and `chat.completion` responses. `claude-code`: Anthropic Messages requests, whose
history carries calls as `tool_use` blocks and results inside user turns, with `chat.completion` responses, a title
helper call and one failed call, as BenchFlow's gateway records that agent.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from trace_flywheel.sample.plan import Attempt, Task, tag

Wire = Literal["openai", "claude-code"]
Json = dict[str, Any]


class Job(NamedTuple):
    name: str
    """The folder's name, also the start time: `YYYY-MM-DD__HH-MM-SS`."""
    agent: str
    model: str
    wire: Wire
    system: str
    tasks: tuple[Task, ...]


def files(job: Job) -> Iterator[tuple[str, str]]:
    """Path below the job folder, and text. The job-level marker `results.jsonl` comes last."""
    done: list[Json] = []
    for task in job.tasks:
        for number, attempt in enumerate(task.attempts):
            trial = f"{task.name}__{tag(job.name, task.name, number)}"
            result = json.dumps(_result(job, task, attempt, trial, number), indent=2) + "\n"
            capture = _lines(_exchanges(job, task, attempt, trial))
            yield f"{trial}/result.json", _half(result) if attempt.cut == "result" else result
            yield (
                f"{trial}/trajectory/llm_trajectory.jsonl",
                _half(capture) if attempt.cut == "capture" else capture,
            )
            yield f"{trial}/trajectory/acp_trajectory.jsonl", _lines(_events(task, attempt, trial))
            done.append({"example_id": number, "task": task.name, "rollout_name": trial, "reward": attempt.reward})
    yield "summary.json", json.dumps({"job_name": job.name, "agent": job.agent, "total": len(done)}, indent=2) + "\n"
    yield "results.jsonl", "".join(line + "\n" for line in map(json.dumps, done))


def _half(text: str) -> str:
    return text[: len(text) // 2]


def _lines(values: Iterator[Json]) -> str:
    return "\n".join(json.dumps(value) for value in values)


def _result(job: Job, task: Task, attempt: Attempt, trial: str, number: int) -> Json:
    error, category = attempt.error or (None, None)
    verifier_error, verifier_category = attempt.verifier_error or (None, None)
    day = job.name.split("__")[0]
    return {
        "task_name": task.name,
        "task_digest": f"sha256:{tag('task', task.name, task.prompt, length=64)}",
        "rollout_name": trial,
        "rewards": None if attempt.reward is None else {"reward": attempt.reward},
        "agent": job.agent,
        "agent_name": job.agent,
        "model": job.model,
        "n_tool_calls": len(attempt.steps),
        "agent_result": {
            "n_tool_calls": len(attempt.steps),
            "n_prompts": 1,
            "n_input_tokens": 900 + 350 * len(attempt.steps),
            "n_output_tokens": 60 + 45 * len(attempt.steps),
            "usage_source": "provider_response",
        },
        "error": error,
        "error_category": category,
        "verifier_error": verifier_error,
        "verifier_error_category": verifier_category,
        "export_error": None,
        "partial_trajectory": False,
        "trajectory_source": "acp",
        "started_at": f"{day} 09:{15 + number:02}:00.000000",
        "finished_at": f"{day} 09:{25 + number:02}:30.000000",
    }


def _exchanges(job: Job, task: Task, attempt: Attempt, trial: str) -> Iterator[Json]:
    claude = job.wire == "claude-code"
    history: list[Json] = [{"role": "user", "content": task.prompt}]
    if claude:
        yield _exchange(
            job, [{"role": "user", "content": task.prompt}], [], {"content": f"{task.name} session"}, title=True
        )
        yield _failure(job, history)
        note = "<system-reminder>\nThe working folder is /srv.\n</system-reminder>"
        history = [{"role": "user", "content": [{"type": "text", "text": note}, {"type": "text", "text": task.prompt}]}]
    else:
        history = [{"role": "system", "content": job.system}, *history]
    tools = _tools(task, claude)
    for number, step in enumerate(attempt.steps):
        call = f"{'toolu' if claude else 'call'}_{tag(trial, number, length=24)}"
        spelt = json.dumps(step.arguments)
        said: Json = {
            "role": "assistant",
            "content": step.say,
            "tool_calls": [{"id": call, "type": "function", "function": {"name": step.tool, "arguments": spelt}}],
        }
        yield _exchange(job, history, tools, said)
        if claude:
            use = {"type": "tool_use", "id": call, "name": step.tool, "input": step.arguments}
            result = {"type": "tool_result", "tool_use_id": call, "content": step.result}
            history = [
                *history,
                {"role": "assistant", "content": [{"type": "text", "text": step.say}, use]},
                {"role": "user", "content": [result]},
            ]
        else:
            history = [*history, said, {"role": "tool", "tool_call_id": call, "content": step.result}]
    yield _exchange(job, history, tools, {"role": "assistant", "content": attempt.answer})


def _exchange(job: Job, messages: list[Json], tools: list[Json], said: Json, title: bool = False) -> Json:
    body: Json = {"model": job.model.split("/")[-1], "messages": messages, "tools": tools, "stream": True}
    if job.wire == "claude-code":
        body["system"] = "Write a title of three words." if title else job.system
    reason = "tool_calls" if said.get("tool_calls") else "stop"
    return {
        "request": {"method": "POST", "path": _path(job), "headers": {}, "body": body},
        "response": {
            "status_code": 200,
            "headers": {},
            "body": {
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", **said}}],
            },
        },
        "duration_ms": 850.0,
        "metadata": {"request_model": body["model"], "call_purpose": "title" if title else "agent"},
    }


def _failure(job: Job, messages: list[Json]) -> Json:
    body = {"model": job.model.split("/")[-1], "messages": messages, "stream": True}
    error = {"type": "RateLimitError", "message": "try again later", "traceback": ""}
    return {
        "request": {"method": "POST", "path": _path(job), "headers": {}, "body": body},
        "response": {"status_code": 429, "headers": {}, "body": {"raw": None, "model": body["model"], "error": error}},
        "duration_ms": 12.0,
        "metadata": {"request_model": body["model"], "call_purpose": "agent"},
    }


def _path(job: Job) -> str:
    return "/v1/messages" if job.wire == "claude-code" else "/v1/chat/completions"


def _tools(task: Task, claude: bool) -> list[Json]:
    """Declarations of the tools that the task's attempts use, in the wire's spelling."""
    seen: dict[str, set[str]] = {}
    for attempt in task.attempts:
        for step in attempt.steps:
            seen.setdefault(step.tool, set()).update(step.arguments)
    declared = []
    for name, arguments in sorted(seen.items()):
        schema = {"type": "object", "properties": {a: {"type": "string"} for a in sorted(arguments)}}
        if claude:
            declared.append({"name": name, "description": f"{name} in the workspace.", "input_schema": schema})
        else:
            function = {"name": name, "description": f"{name} in the workspace.", "parameters": schema}
            declared.append({"type": "function", "function": function})
    return declared


def _events(task: Task, attempt: Attempt, trial: str) -> Iterator[Json]:
    yield {"type": "user_message", "text": task.prompt}
    for number, step in enumerate(attempt.steps):
        yield {"type": "agent_message", "text": step.say}
        yield {
            "type": "tool_call",
            "tool_call_id": tag(trial, number, length=24),
            "kind": "execute" if "command" in step.arguments else "read",
            "title": step.tool,
            "tool_name": step.tool,
            "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": step.result}}],
            "raw_input": step.arguments,
            "raw_output": step.result,
        }
    yield {"type": "agent_message", "text": attempt.answer}
