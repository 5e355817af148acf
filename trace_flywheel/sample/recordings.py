"""Three `.atraj` recordings of a small local agent: one file per conversation, with its textual tool protocol."""

import json
from typing import Any

from trace_flywheel.sample.plan import tag


def _answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": json.dumps({"answer": text})}


def _call(tool: str, stdout: str, **arguments: Any) -> list[dict[str, Any]]:
    spelt = json.dumps(arguments, sort_keys=True)
    return [
        {
            "role": "assistant",
            "content": json.dumps({"tool": tool, "arguments": arguments}, sort_keys=True),
            "tool_call": {"name": tool, "arguments_json": spelt},
        },
        {
            "role": "tool",
            "content": stdout,
            "tool_result": {"name": tool, "stdout": stdout, "stderr": "", "exit_code": 0},
        },
    ]


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


_CONVERSATIONS: tuple[tuple[str, list[dict[str, Any]]], ...] = (
    (
        "local-files",
        [
            _user("Which file in notes is the newest, and what is its first heading?"),
            *_call("list_files", "garden.md 2025-03-04\nbees.md 2025-04-11\n", folder="notes"),
            *_call("read_file", "# Spring inspection\nTwo hives, both strong.\n", path="notes/bees.md"),
            _answer("bees.md is the newest file; its first heading is Spring inspection."),
        ],
    ),
    (
        "local-files",
        [
            _user("How many words does the poem in harbour.txt have?"),
            *_call("count_words", "113\n", path="harbour.txt"),
            _answer("It has 113 words."),
        ],
    ),
    (
        "chat",
        [
            _user("Is a bicycle or a cargo scooter better for two children and a hilly town?"),
            _answer("A cargo bicycle with a motor: it carries both children low, and the motor takes the hills."),
            _user("And in winter?"),
            _answer("Still the bicycle, with studded tyres; a scooter's small wheels slip on packed snow."),
        ],
    ),
)


def recordings() -> dict[str, str]:
    """File name to content."""
    files: dict[str, str] = {}
    for number, (label, steps) in enumerate(_CONVERSATIONS):
        digits = tag("recording", number, length=32).upper()
        name = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        tree = {"version": 1, "id": name, "task": label, "checkpoint_path": "models/local-1b", "steps": steps}
        tree["summary"] = {"mode": "repl"}
        files[f"{name}.atraj"] = json.dumps(tree, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return files
