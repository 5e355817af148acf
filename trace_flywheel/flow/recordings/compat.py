"""`--compat posttrainllm`: the original's rows and filters, from the recordings as they stand.

Any version and any role load, rows carry the original's keys in its byte form, and order decides which of two rows
stays. Two things are ours: what is redacted is redacted here too, and failed files are named.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import orjson

from trace_flywheel.curation.posttrainllm import (
    Said,
    answer_key,
    first_of_each,
    is_tool_echo,
    near_first,
    serialized,
    trajectory_key,
)
from trace_flywheel.flow.recordings.read import Counts, Recordings
from trace_flywheel.flow.recordings.rows import Export
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError
from trace_flywheel.sources.atraj_steps import Recording, Step, recording_of
from trace_flywheel.sources.jsonl import Fault, read_document
from trace_flywheel.sources.reader import ReadOptions, Unit
from trace_flywheel.trainers.atraj_sft import (
    Turn,
    answer_pairs,
    trajectory_messages,
    trajectory_targets,
)
from trace_flywheel.trainers.layout import Row, dropped_nulls


class Sketch(msgspec.Struct, frozen=True):
    """What decides which rows it takes for duplicates."""

    threshold: float = 0.85
    shingle: int = 5
    permutations: int = 64
    ids_in_key: bool = False
    """As its newest exporter: trajectory rows with other token ids are other rows."""


class Compat(msgspec.Struct):
    """The rows kept, and its counters with the one it does not print."""

    rows: list[bytes] = msgspec.field(default_factory=list)
    harvested: int = 0
    tool_echo: int = 0
    exact: int = 0
    near: list[dict[str, Any]] = msgspec.field(default_factory=list)


def compat(
    found: Recordings,
    options: ReadOptions,
    export: Export,
    task: str | None,
    echo_drop: bool,
    sketch: Sketch,
    redactor: Redactor,
    counts: Counts,
) -> Compat:
    """The original's export of the recordings."""
    answer = Compat()
    rows: list[Row] = []
    for unit in found.units:
        counts.scanned += 1
        recording = _loaded(found, unit, options)
        if isinstance(recording, Drop):
            counts.failed.append(recording)
            continue
        turns = _redacted_turns(recording, unit, redactor, counts)
        if isinstance(turns, Drop):
            counts.failed.append(turns)
            continue
        label = task if task is not None else recording.task
        for messages in _harvested(turns, export, echo_drop, answer):
            row: Row = {"messages": messages, "source_atraj": unit.path.name, "task": label}
            rows.append(row | {"export": export} if export == "trajectory" else row)
    answer.harvested = len(rows)
    first = first_of_each(_key(row, export, sketch.ids_in_key) for row in rows)
    unique = [row for row, is_first in zip(rows, first, strict=True) if is_first]
    answer.exact = len(rows) - len(unique)
    texts = (_sketched(row, export) for row in unique)
    estimates = near_first(texts, sketch.threshold, sketch.shingle, sketch.permutations)
    for row, estimate in zip(unique, estimates, strict=True):
        if estimate is None:
            answer.rows.append(encoded(row))
        else:
            answer.near.append({"source_atraj": row["source_atraj"], "max_estimate": estimate})
    return answer


def encoded(value: Any) -> bytes:
    """Its byte form: sorted keys, no blanks, `/` escaped."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).replace(b"/", b"\\/")


def _loaded(found: Recordings, unit: Unit, options: ReadOptions) -> Recording | Drop:
    document = read_document(unit.path, found.run.root, options.max_line_bytes)
    if isinstance(document, Fault):
        return Drop(Stage.READ, document.reason, document.evidence(), path=unit.relative)
    try:
        return recording_of(document.value)
    except msgspec.ValidationError as error:
        return Drop(Stage.READ, "unknown_shape", {"text": str(error)}, path=unit.relative)


def _redacted_turns(recording: Recording, unit: Unit, redactor: Redactor, counts: Counts) -> list[Turn] | Drop:
    """The steps as turns, without findings; a turn whose text changed loses the token ids that spell it."""
    ids = [step.output_ids for step in recording.steps]
    plain = [_turn(step) for step in recording.steps]
    try:
        clean, rules = redactor.redact_value(plain)
    except (NumberFindingError, SecretLeftError) as left:
        reason = "number_finding" if isinstance(left, NumberFindingError) else "secret_left"
        return Drop(Stage.REDACT, reason, {"rule": left.rule}, path=unit.relative)
    if named := redactor.scan([name for name in (recording.task, unit.path.name) if name]):
        return Drop(Stage.REDACT, "secret_left", {"rule": next(iter(named))}, path=unit.relative)
    for rule, n in rules.items():
        counts.redactions[rule] = counts.redactions.get(rule, 0) + n
    return [
        turn | {"output_ids": list(own)} if own is not None and turn == before else turn
        for turn, before, own in zip(clean, plain, ids, strict=True)
    ]


def _turn(step: Step) -> Turn:
    turn: Turn = {"role": step.role, "content": step.content}
    if step.tool_call is not None:
        turn["tool_call"] = {"name": step.tool_call.name, "arguments_json": step.tool_call.arguments_json}
    if step.tool_result is not None:
        turn["tool_result"] = dropped_nulls(msgspec.structs.asdict(step.tool_result))
    return turn


def _harvested(turns: Sequence[Turn], export: Export, echo_drop: bool, answer: Compat) -> Iterator[list[Row]]:
    if export == "answer-only":
        for user, target in answer_pairs(turns):
            if target is None:
                continue
            if echo_drop and is_tool_echo(turns[target]["content"]):
                answer.tool_echo += 1
                continue
            yield [{"role": turns[i]["role"], "content": turns[i]["content"]} for i in (user, target)]
        return
    shown = [_shown(turn) for turn in turns]
    for target in trajectory_targets(shown):
        yield trajectory_messages(shown, target)


def _shown(turn: Turn) -> Turn:
    """A turn with what the original writes of its role; a tool's text is rebuilt from its payload."""
    shown = {"role": turn["role"], "content": turn["content"]}
    if turn["role"] == "assistant":
        shown |= {key: turn[key] for key in ("tool_call", "output_ids") if key in turn}
    if turn["role"] == "tool" and (result := turn.get("tool_result")) is not None:
        fed = {key: result[key] for key in ("exit_code", "stderr", "stdout")} | {"tool": result["name"]}
        shown |= {"content": encoded(fed).decode(), "tool_result": result}
    return shown


def _said(messages: Sequence[Row]) -> list[Said]:
    return [(message["role"], message["supervise"], message["content"]) for message in messages]


def _key(row: Row, export: Export, ids_in_key: bool) -> str:
    messages = row["messages"]
    if export == "answer-only":
        return answer_key(messages[0]["content"], messages[1]["content"])
    return trajectory_key(_said(messages), [m.get("output_ids") for m in messages] if ids_in_key else ())


def _sketched(row: Row, export: Export) -> str:
    messages = row["messages"]
    return messages[0]["content"] if export == "answer-only" else serialized(_said(messages[:-1]))
