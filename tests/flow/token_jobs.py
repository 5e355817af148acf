"""Writes trials whose capture carries token ids."""

import json
from pathlib import Path
from typing import Any

BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"c": {}}}}}
PLAN = (
    ("Measure it.", [1, 2, 3], [10, 11]),
    ("Go on.", [1, 2, 3, 10, 11, 20], [30]),
    ("And now?", [1, 2, 3, 10, 11, 20, 30, 40], [50, 51]),
)


def token_trial(
    job: Path,
    name: str,
    answers: tuple[str, ...] = ("I look.", "I see.", "It is 12.3."),
    failed: int = 0,
    capture: dict[str, Any] | None = None,
    **result: Any,
) -> Path:
    """A conversation of three turns; `failed` first calls fail and are asked again. `capture` goes into every block."""
    trial = job / name
    (trial / "trajectory").mkdir(parents=True)
    messages: list[dict[str, Any]] = []
    lines = []
    for (asked, prompt, sampled), answer in zip(PLAN, answers, strict=True):
        messages.append({"role": "user", "content": asked})
        body = {"model": "p", "messages": list(messages), "tools": [BASH]}
        if not lines:
            lines += [{"request": {"body": body}, "response": {"status_code": 429, "body": {"error": {}}}}] * failed
        said = {"role": "assistant", "content": answer}
        block = {
            "schema_version": "benchflow.token_capture.v1",
            "provider": "vllm",
            "prompt_token_ids": prompt,
            "completions": [{"index": 0, "token_ids": sampled, "logprobs": [-0.5] * len(sampled)}],
            "unavailable": {},
            **(capture or {}),
        }
        response = {"status_code": 200, "body": {"choices": [{"index": 0, "message": said}]}}
        metadata = {"call_purpose": "agent", "token_capture": block}
        lines.append({"request": {"body": body}, "response": response, "metadata": metadata})
        messages.append(said)
    (trial / "trajectory" / "llm_trajectory.jsonl").write_text("\n".join(map(json.dumps, lines)))
    write_result(trial, **result)
    return trial


def write_result(trial: Path, reward: float | None = 1.0, **values: Any) -> None:
    """A new result file, put in place whole."""
    whole: dict[str, Any] = {"task_name": trial.name.rpartition("__")[0], "agent": "opencode", "model": "vllm/p"}
    if reward is not None:
        whole["rewards"] = {"reward": reward}
    fresh = trial / ".result.tmp"
    fresh.write_text(json.dumps({**whole, **values}))
    fresh.replace(trial / "result.json")
