"""Eval sets: what must never be trained on, from `eval/goldens.jsonl` files and files that the settings name.

Only `task_id` is needed; a line without one is a Drop, because a golden that is skipped in silence leaks. `aliases`
lists other names of the item: a text is a task id in any suite, `{task_id, suite}` one in that suite.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import text_of
from trace_flywheel.sources.jsonl import Fault, read_lines
from trace_flywheel.sources.reader import Run

MAX_LINE_BYTES = 64_000_000
FOUND_AT = Path("eval") / "goldens.jsonl"


def goldens_above(run: Run) -> tuple[Path, ...]:
    """The `eval/goldens.jsonl` beside the folders above a run, nearest first, up to the root's own parent.

    Where a run of an eval layout (`runs/<run-id>`) is itself the root, the layout's folder is looked into as well.
    """
    top = run.root.parent
    for parent in run.path.parents:
        if parent.name == "runs" and top.is_relative_to(parent):
            top = parent.parent
    above = [parent for parent in run.path.parents if parent.is_relative_to(top)]
    return tuple(path for folder in above if (path := folder / FOUND_AT).is_file())


def read_goldens(path: Path) -> Iterator[Golden | Drop]:
    """The goldens of a JSON Lines file; a bad line is a Drop with its number."""
    for line in read_lines(path, path.parent, MAX_LINE_BYTES):
        if isinstance(line, Fault):
            yield Drop(Stage.READ, line.reason, line.evidence(), path=path.name)
        elif (golden := _golden(line.value, path.name, line.number)) is not None:
            yield golden
        else:
            text = "a golden is an object with a task_id; aliases is a list of task ids or of {task_id, suite}"
            evidence = {"line": line.number, "text": text}
            yield Drop(Stage.READ, "unknown_shape", evidence, path=path.name)


def _golden(row: Any, path: str, line: int) -> Golden | None:
    if not isinstance(row, dict) or not isinstance(task_id := row.get("task_id"), str) or not task_id:
        return None
    suite, aliases = row.get("suite"), _aliases(row.get("aliases") or [])
    if aliases is None:
        return None
    return Golden(
        task_id=task_id,
        suite=suite if isinstance(suite, str) else None,
        statement=_statement(row),
        answer=_text(row.get("answer")) or _text(row.get("expected")),
        path=path,
        line=line,
        aliases=aliases,
    )


def _aliases(value: Any) -> tuple[tuple[str | None, str], ...] | None:
    """Sorted (suite, task id); None where one cannot be read: an alias that is skipped in silence leaks."""
    found: list[tuple[str | None, str]] = []
    for alias in value if isinstance(value, list) else [None]:
        name = alias.get("task_id") if isinstance(alias, dict) else alias
        suite = alias.get("suite") if isinstance(alias, dict) else None
        if not isinstance(name, str) or not name or not (suite is None or isinstance(suite, str)):
            return None
        found.append((suite, name))
    return tuple(sorted(set(found), key=lambda one: (one[1], one[0] or "")))


def _statement(row: dict[str, Any]) -> str:
    """`prompt`, else the user turns of `messages`."""
    if prompt := _text(row.get("prompt")):
        return prompt
    messages = row.get("messages")
    turns = [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
    return "\n".join(_text(turn.get("content")) for turn in turns if turn.get("role") == "user")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        # A prompt may be a list of messages, each with a content of its own, or of content parts.
        return "\n".join(_text(part["content"]) if "content" in part else text_of([part]) for part in value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""
