"""Rows that exist already (`.jsonl`) as rollouts of one row each: BenchFlow's `results.jsonl`, prime-sft, trl-sft.

A row is one conversation, whatever the row mode: of a BenchFlow row the last of its recorded agent calls, which has
the system prompt, else prompt and completion. A trainer's example stays whole under every window, and its declarations
as they are. A bad row is a drop with its line; the rest goes on.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.rollout import Rollout, RolloutError, Source
from trace_flywheel.sources.jsonl import Fault, Lines
from trace_flywheel.sources.pairing import pair
from trace_flywheel.sources.wires.openai_chat import messages_of, tools_of
from trace_flywheel.sources.wires.parts import WireError

Row = dict[str, Any]
RESULTS, PRIME, TRL = "benchflow-results-jsonl", "prime-sft", "trl-sft"
RESULT_KEYS = frozenset({"trajectory", "stop_condition", "is_completed", "is_truncated"})
CONVERSATION_KEYS = frozenset({"messages", "prompt", "completion", "tool_defs", "tools"})


def rollouts_of(lines: Lines, name: str) -> Iterator[Rollout | Drop]:
    """The rows of a file's lines; `name` is the file as the user gave it."""
    for line in lines:
        if isinstance(line, Fault):
            yield Drop(Stage.READ, line.reason, line.evidence(), path=name)
            continue
        try:
            yield _rollout(line.value, line.number, name)
        except (WireError, orjson.JSONDecodeError) as error:
            yield Drop(Stage.READ, "unknown_shape", {"line": line.number, "text": str(error)}, path=name)


def is_example(read: Rollout | Drop) -> bool:
    """Whether a row is a trainer's example and no BenchFlow result."""
    return isinstance(read, Rollout) and (read.metadata or {})["row"]["source_format"] != RESULTS


def _rollout(row: Any, number: int, name: str) -> Rollout:
    if not isinstance(row, dict):
        raise WireError(f"row is a {type(row).__name__}")
    info = row["info"] if isinstance(row.get("info"), dict) else {}
    of_results = info.get("source") == "benchflow" or bool(RESULT_KEYS & row.keys())
    messages, index = _conversation(row, of_results)
    paired = pair(messages_of(messages))
    if paired.orphans:
        raise WireError(f"messages {list(paired.orphans)} are tool results that answer no earlier call")
    task = _text(info.get("task_id")) or _text(row.get("task_id")) or _text(row.get("task_name"))
    reward = row.get("reward")
    kind = RESULTS if of_results else TRL if "completion" in row else PRIME
    kept: Row = {"source_index": number - 1, "source_format": kind}
    kept |= {"source_example_id": row["example_id"]} if "example_id" in row else {}
    kept |= {"task_id": task} if task else {}
    if not of_results:
        kept |= {key: value for key, value in row.items() if key not in CONVERSATION_KEYS}
    return Rollout(
        run_id=name,
        trace_id=_text(info.get("rollout_name")) or f"row-{number}",
        task_id=_text(info.get("task_name")) or task or "",
        source=Source(RESULTS, name, ""),
        messages=paired.messages,
        tools=tools_of(_tools(row), undescribed=None),
        agent=_text(info.get("agent")) or _text(row.get("agent")),
        model=_text(info.get("model")) or _text(row.get("model")),
        reward=float(reward) if isinstance(reward, int | float) and not isinstance(reward, bool) else None,
        scoring=row["scoring"] if isinstance(row.get("scoring"), dict) else None,
        error=_error(row, info) if of_results else None,
        metadata={"row": kept, "exchange_index": index},
    )


def _conversation(row: Row, of_results: bool) -> tuple[list[Any], int | None]:
    """Messages, and the position of the recorded call that they are of."""
    steps = row.get("trajectory") if of_results else None
    for step in reversed(steps if isinstance(steps, list) else []):
        step = step if isinstance(step, dict) else {}
        extras = step["extras"] if isinstance(step.get("extras"), dict) else {}
        if extras.get("call_purpose", "agent") == "agent" and (both := _joined(step)):
            index = extras.get("exchange_index")
            return both, index if isinstance(index, int) else None
    if isinstance(row.get("messages"), list):
        return row["messages"], None
    if both := _joined(row):
        return both, None
    raise WireError("needs messages, or prompt and completion")


def _joined(row: Row) -> list[Any]:
    prompt, completion = row.get("prompt"), row.get("completion")
    return [*prompt, *completion] if isinstance(prompt, list) and isinstance(completion, list) else []


def _tools(row: Row) -> Any:
    """Declarations under either name; older rows hold them as JSON text."""
    declared = row.get("tool_defs") or row.get("tools")
    return orjson.loads(declared) if isinstance(declared, str) else declared


def _error(row: Row, info: Row) -> RolloutError | None:
    """Why BenchFlow does not train on the row."""
    stop = row.get("stop_condition")
    if info.get("training_ready") is False:
        return RolloutError(str(info.get("training_ready_reason") or "not_training_ready"))
    if row.get("error"):
        return RolloutError("agent_error")
    if row.get("is_truncated"):
        return RolloutError("truncated")
    return RolloutError(str(stop)) if stop not in (None, "", "agent_completed") else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
