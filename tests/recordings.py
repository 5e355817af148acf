"""Recordings for tests: `.atraj` files from a few steps."""

import json
from pathlib import Path
from typing import Any


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": json.dumps({"answer": text}), **more}


def call(tool: str, stdout: str, exit_code: int = 0, **arguments: Any) -> list[dict[str, Any]]:
    """A call and its result."""
    text = json.dumps(arguments, sort_keys=True)
    made = {"name": tool, "arguments_json": text}
    result = {"name": tool, "stdout": stdout, "stderr": "", "exit_code": exit_code}
    return [
        {"role": "assistant", "content": json.dumps({"tool": tool, "arguments": arguments}), "tool_call": made},
        {"role": "tool", "content": stdout, "tool_result": result},
    ]


def record(folder: Path, id: str, *steps: dict[str, Any], **top: Any) -> Path:
    """Write `<id>.atraj` below the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{id}.atraj"
    path.write_text(json.dumps({"version": 1, "id": id, "summary": {}, "steps": list(steps), **top}), "utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
