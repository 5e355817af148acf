"""Job folders to one trainer file: sources, redaction, layout, streamed.

Pieces of work go to worker processes and come back in trial path order, so the bytes are the same for any number of
them; a piece's rows are all that is held. With advantages the rows wait in a spool on disk, because a group is known
only when its last member was read; then each row gets its signal and withheld groups give none. The output takes its
name when it is complete, or never.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import orjson

from trace_flywheel.flow.children import worker_count
from trace_flywheel.flow.containers import opened
from trace_flywheel.flow.conversion.distinct import distinct
from trace_flywheel.flow.conversion.eval_goldens import goldens_told
from trace_flywheel.flow.conversion.groups import advantage_vectors, signals
from trace_flywheel.flow.conversion.manifest import Tally
from trace_flywheel.flow.conversion.once import once
from trace_flywheel.flow.conversion.pieces import Job, choosing, guarded, run
from trace_flywheel.flow.conversion.plan import Piece, is_job, plan_of
from trace_flywheel.flow.conversion.repeated import without_repeated
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.flow.conversion.roles import ROLE_KEYS
from trace_flywheel.flow.conversion.rollout import (
    CONVERT,
    TORN,
    Outcome,
    Refusal,
    Rules,
    outcome_of_drop,
)
from trace_flywheel.flow.conversion.rows import is_example, rollouts_of
from trace_flywheel.flow.conversion.selection import selected_trials
from trace_flywheel.flow.outputs import check_outputs
from trace_flywheel.flow.workers import Crash, run_alone, run_tasks
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.normalisation import Normalisation
from trace_flywheel.sources.jsonl import read_lines
from trace_flywheel.sources.reader import dropped
from trace_flywheel.trainers.message_window import check_window
from trace_flywheel.trainers.registry import layout

if TYPE_CHECKING:
    from trace_flywheel.flow.conversion.corpus import Existing

Warn = Callable[[str], None]

PATIENCE = 1.0
"""Seconds of work in this process before others help: a worker is ready after about half of one."""


def convert(request: Request, workers: int = 0, warn: Warn = lambda text: None) -> Tally:
    """Write `request.out` and tell what happened; bad rollouts go to `warn` as they come.

    Raises `FlywheelError`, with nothing written, for unusable paths, a row count or missing tool calls that the
    request does not allow, and with `strict` for the first rollout that cannot be read.
    """
    check_output(request)
    if request.window is not None:
        check_window(request.window)
    files = tuple(path for path in request.paths if path.suffix == ".jsonl" and path.is_file() and not is_job(path))
    if files and (request.group_advantage or request.selection):
        raise FlywheelError(f"{files[0]}: rows of a file have no groups and no selection; give job folders")
    if request.selection is not None:
        plan = plan_of(selected_trials(request.selection), as_given=True)
    else:
        plan = plan_of(tuple(path for path in request.paths if path not in files))
    target = layout(request.format)
    tally = Tally(request.format)
    tally.windowed = request.window is not None
    choice = request.choice
    wants_calls = choice.row_mode == "exchange" or choice.helpers or choice.subagents or target.CALLS
    job = Job(
        request.format,
        Rules(
            choice,
            request.min_reward,
            request.group_advantage is not None,
            request.reward_vector,
            request.window,
            identities=len(files) + bool(plan.pieces) > 1,
        ),
        request.pii,
        msgspec.structs.replace(request.options, exchanges=wants_calls),
        goldens_told(request.goldens, request.pii, plan.runs),
        request.overlap,
        request.policy_version,
    )
    existing = _existing(request, warn)
    with opened(target, request.out, _beside(request)) as file:
        problems = [outcome_of_drop(drop, base) for base, drop in plan.problems]
        for problem in problems:
            problem.is_rollout = False
        rows = (_watched(_converted_rows(file, job, tally), request.strict, warn) for file in files)
        read = _watched(_converted(plan.pieces, job, workers), request.strict, warn)
        read = once(read, lambda outcome: _tell(outcome, request.strict, warn))
        outcomes = without_repeated(chain([_watched(problems, request.strict, warn)], rows, [read]))
        outcomes = distinct(outcomes, target.identity) if target.DISTINCT else outcomes
        if existing is not None:
            tally.existing = existing.digests
            outcomes = existing.without(outcomes)
        if request.group_advantage is None:
            for outcome in outcomes:
                file.writelines(row + b"\n" for row in outcome.rows)
                tally.add(outcome)
        else:
            _write_grouped(outcomes, file, request, request.group_advantage, tally)
        check_rows(request, tally)
    return tally


def _existing(request: Request, warn: Warn) -> "Existing | None":
    if not request.existing:
        return None
    # numbers and tables are imported for corpora alone
    from trace_flywheel.flow.conversion.corpus import Existing

    existing = Existing(request.existing, request.home, request.near, request.pii, request.keep_index)
    for name, lines in sorted(existing.skipped.items()):
        warn(f"{name}: {lines} line(s) of no known shape are not compared")
    return existing


def _converted(pieces: Sequence[Piece], job: Job, workers: int) -> Iterator[Outcome]:
    done = run_tasks(run, job, pieces, worker_count(workers), PATIENCE)
    for piece, outcomes in zip(pieces, done, strict=True):
        if isinstance(outcomes, Crash):
            yield from _unit_by_unit(piece, job)
        else:
            yield from outcomes


def _unit_by_unit(piece: Piece, job: Job) -> Iterator[Outcome]:
    """The units of a piece that crashed, each in a process of its own; the one at fault is told."""
    for unit, name in zip(piece.units, piece.jobs, strict=True):
        outcomes = run_alone(run, job, msgspec.structs.replace(piece, units=(unit,), jobs=(name,)))
        if isinstance(outcomes, Crash):
            drop = dropped(piece.run, unit, "unreadable_file", {"text": outcomes.reason})
            yield outcome_of_drop(drop, piece.base)
        else:
            yield from outcomes


def _converted_rows(file: Path, job: Job, tally: Tally) -> Iterator[Outcome]:
    target = layout(job.format)
    job = choosing(job, row_mode="trial")
    # BenchFlow's window is of its own results: an example that somebody made already has the context it needs
    whole = choosing(job, context="full")
    lines = read_lines(file.resolve(), file.resolve().parent, job.options.max_line_bytes)
    told = tally.file(str(file))
    for read in rollouts_of(lines, str(file)):
        yield guarded(read, whole if is_example(read) else job, target, "")
    told["sha256"] = lines.sha256


def _beside(request: Request) -> tuple[str, ...]:
    """Keys that rows get beyond those of their layout."""
    grouped = request.group_advantage is not None
    return (
        *(("advantage", "group") if grouped else ()),
        *(("reward_vector",) if request.reward_vector else ()),
        *(("advantage_vector",) if grouped and request.reward_vector else ()),
        *(ROLE_KEYS if request.choice.subagents else ()),
    )


def check_output(request: Request) -> None:
    check_outputs({"--out": request.out}, request.paths, layout(request.format).CONTAINER == "folder")


def _watched(outcomes: Iterable[Outcome], strict: bool, warn: Warn) -> Iterator[Outcome]:
    """The outcomes, with a warning for each that could not be read whole or made safe; in strict mode an end."""
    for outcome in outcomes:
        if outcome.refusal is not None and outcome.refusal.stage != CONVERT:
            _tell(outcome, strict, warn)
        for refusal in (outcome.refusal, *outcome.refused):
            if refusal is not None and refusal.reason == TORN:
                told = f"{outcome.path}/{refusal.evidence['file']}:{refusal.evidence['line']}: {TORN}"
                _say(f"{told} ({refusal.evidence['text']})", strict, warn)
        yield outcome


def _tell(outcome: Outcome, strict: bool, warn: Warn) -> None:
    assert outcome.refusal is not None
    evidence = outcome.refusal.evidence
    place = next((f":{evidence[key]}" for key in ("line", "row") if evidence.get(key)), "")
    said = evidence.get("text") or evidence.get("trace_id")
    told = f"{outcome.source_path}{place}: {outcome.refusal.reason}{f' ({said})' if said else ''}"
    _say(told, strict and outcome.unreadable, warn)


def _say(told: str, strict: bool, warn: Warn) -> None:
    if strict:
        raise FlywheelError(f"{told}; without --strict the rest is converted")
    warn(f"not converted: {told}")


def _write_grouped(
    outcomes: Iterable[Outcome], file: BinaryIO, request: Request, normalisation: Normalisation, tally: Tally
) -> None:
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
        vectors = advantage_vectors(held, found, tally.groups, normalisation, request.eps)
        spool.seek(0)
        for outcome, signal, vector, count in zip(held, found, vectors, counts, strict=True):
            rows = list(islice(spool, count))
            if signal is not None and (withheld := signal.group.get("withheld")):
                outcome.rows_with_calls = 0
                outcome.refusal = outcome.refusal or Refusal(Stage.GROUPS, withheld, {"group": signal.group["id"]})
            elif signal is not None:
                told: dict[str, Any] = {"advantage": signal.advantage, "group": signal.group}
                if request.reward_vector:
                    told = {"advantage": signal.advantage, "advantage_vector": vector, "group": signal.group}
                added = b"," + orjson.dumps(told)[1:] + b"\n"
                outcome.rows = [row[:-2] + added for row in rows]
            file.writelines(outcome.rows)
            tally.add(outcome)


def check_rows(request: Request, tally: Tally) -> None:
    if request.expected_rows is not None and tally.rows != request.expected_rows:
        raise FlywheelError(f"row count {tally.rows} != expected {request.expected_rows}; nothing written")
    if request.require_tool_calls and (tally.rows_with_calls < tally.rows or not tally.rows):
        raise FlywheelError(
            f"not all trainer rows contain tool calls: {tally.rows_with_calls} / {tally.rows}; nothing written"
        )
