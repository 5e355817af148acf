"""Job folders to one trainer file: sources, redaction, layout, streamed.

Pieces of work go to worker processes and come back in trial path order, so the bytes are the same for any number of
them; a piece's rows are all that is held. With advantages the rows wait in a spool on disk, because a group is known
only when its last member was read; then each row gets its signal and withheld groups give none. The output takes its
name when it is complete, or never.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
import orjson

from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.convert_manifest import Tally
from trace_flywheel.flow.convert_plan import Piece, plan_of
from trace_flywheel.flow.convert_rollout import (
    CONVERT,
    DEFAULT_BY,
    Outcome,
    Refusal,
    Rules,
    outcome_of,
    outcome_of_drop,
)
from trace_flywheel.flow.pool import ordered_map, worker_count
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources.discover import read_unit
from trace_flywheel.sources.reader import ReadOptions
from trace_flywheel.trainers.candidates import Choice
from trace_flywheel.trainers.registry import layout

Normalisation = Literal["grpo", "loo"]
Warn = Callable[[str], None]


class Request(msgspec.Struct, frozen=True):
    """What `flywheel convert` was asked for."""

    paths: tuple[Path, ...]
    out: Path
    format: str = "prime-sft"
    choice: Choice = Choice()
    min_reward: float | None = None
    group_advantage: Normalisation | None = None
    group_by: tuple[str, ...] = DEFAULT_BY
    pii: str | None = "standard"
    """Which personal data goes beside the secrets; None leaves everything as it is."""
    expected_rows: int | None = None
    require_tool_calls: bool = False
    strict: bool = False
    options: ReadOptions = ReadOptions()
    eps: float = 1e-4


class Task(msgspec.Struct, frozen=True):
    """A piece with all that a worker needs to convert it."""

    piece: Piece
    format: str
    rules: Rules
    pii: str | None
    options: ReadOptions


def convert(request: Request, workers: int = 0, warn: Warn = lambda text: None) -> Tally:
    """Write `request.out` and tell what happened; bad rollouts go to `warn` as they come.

    Raises `FlywheelError`, with nothing written, for unusable paths, a row count or missing tool calls that the
    request does not allow, and with `strict` for the first rollout that cannot be read.
    """
    _check_output(request)
    plan = plan_of(request.paths)
    if request.pii is not None:
        redactor(request.pii)  # compiled once here, inherited by forked workers
    tally = Tally(request.format)
    rules = Rules(request.choice, request.min_reward, request.group_advantage is not None)
    wants_calls = request.choice.row_mode == "exchange" or request.choice.helpers or request.choice.subagents
    options = msgspec.structs.replace(request.options, exchanges=wants_calls)
    tasks = (Task(piece, request.format, rules, request.pii, options) for piece in plan.pieces)
    with replaced(request.out) as file:
        problems = (outcome_of_drop(drop, base) for base, drop in plan.problems)
        converted = chain.from_iterable(ordered_map(run, tasks, worker_count(workers)))
        outcomes = _watched(chain(problems, converted), request.strict, warn)
        if request.group_advantage is None:
            for outcome in outcomes:
                file.writelines(row + b"\n" for row in outcome.rows)
                tally.add(outcome)
        else:
            _write_grouped(outcomes, file, request, request.group_advantage, tally)
        _check_rows(request, tally)
    return tally


def _check_output(request: Request) -> None:
    if request.out.is_dir():
        raise FlywheelError(f"{request.out}: is a folder; give --out the name of a file")
    resolved = request.out.resolve()
    for path in request.paths:
        if resolved == path.resolve():
            raise FlywheelError(f"{request.out}: is the input; give --out another name")


def _watched(outcomes: Iterable[Outcome], strict: bool, warn: Warn) -> Iterator[Outcome]:
    """The outcomes, with a warning for each rollout that could not be read or made safe; in strict mode an end."""
    for outcome in outcomes:
        refusal = outcome.refusal
        if refusal is not None and refusal.stage != CONVERT:
            text = refusal.evidence.get("text")
            line = f":{number}" if (number := refusal.evidence.get("line")) else ""
            told = f"{outcome.path}{line}: {refusal.reason}{f' ({text})' if text else ''}"
            if strict and outcome.unreadable:
                raise FlywheelError(f"{told}; without --strict the rest is converted")
            warn(f"not converted: {told}")
        yield outcome


def _write_grouped(
    outcomes: Iterable[Outcome], file: BinaryIO, request: Request, normalisation: Normalisation, tally: Tally
) -> None:
    # groups come with pandas, which most conversions do without
    from trace_flywheel.flow.convert_groups import signals

    with tempfile.TemporaryFile(dir=request.out.parent) as spool:
        held = []
        counts = []
        for outcome in outcomes:
            spool.writelines(row + b"\n" for row in outcome.rows)
            counts.append(len(outcome.rows))
            outcome.rows = []
            held.append(outcome)
        found, tally.groups = signals(held, request.group_by, normalisation, request.eps)
        tally.group_by, tally.normalisation, tally.eps = request.group_by, normalisation, request.eps
        spool.seek(0)
        for outcome, signal, count in zip(held, found, counts, strict=True):
            rows = list(islice(spool, count))
            if signal is not None and (withheld := signal.group.get("withheld")):
                outcome.rows_with_calls = 0
                outcome.refusal = outcome.refusal or Refusal(Stage.GROUPS, withheld, {"group": signal.group["id"]})
            elif signal is not None:
                added = b"," + orjson.dumps({"advantage": signal.advantage, "group": signal.group})[1:] + b"\n"
                outcome.rows = [row[:-2] + added for row in rows]
            file.writelines(outcome.rows)
            tally.add(outcome)


def _check_rows(request: Request, tally: Tally) -> None:
    if request.expected_rows is not None and tally.rows != request.expected_rows:
        raise FlywheelError(f"row count {tally.rows} != expected {request.expected_rows}; nothing written")
    if request.require_tool_calls and (tally.rows_with_calls < tally.rows or not tally.rows):
        raise FlywheelError(
            f"not all trainer rows contain tool calls: {tally.rows_with_calls} / {tally.rows}; nothing written"
        )


def run(task: Task) -> list[Outcome]:
    """Convert one piece; the work of a worker process."""
    target = layout(task.format)
    outcomes = []
    for unit in task.piece.units:
        for read in read_unit(task.piece.run, unit, task.options):
            found = read if task.pii is None or isinstance(read, Drop) else redactor(task.pii).redact(read)
            if isinstance(found, Drop):
                outcome = outcome_of_drop(found, task.piece.base)
                if not isinstance(read, Drop):
                    outcome.reward = read.reward
            else:
                outcome = outcome_of(found, target, task.rules, task.piece.base)
            outcome.key["job"] = task.piece.job
            outcomes.append(outcome)
    return outcomes
