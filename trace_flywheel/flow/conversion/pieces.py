"""What a worker does to a piece of a conversion: read its rollouts, make them safe, hold goldens out, lay out rows.

Fail closed: a rollout that meets a fault nobody foresaw gives no row, and what is told of it quotes no data.
"""

from typing import Any

import msgspec

from trace_flywheel.flow.conversion.identity import content_of
from trace_flywheel.flow.conversion.plan import Piece
from trace_flywheel.flow.conversion.rollout import Outcome, Rules, outcome_of, outcome_of_drop, refused
from trace_flywheel.flow.garbage import few_collections
from trace_flywheel.flow.workers import crash_of
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.rollout import Rollout, RolloutError
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import Redactor, redactor
from trace_flywheel.sources.discover import read_unit
from trace_flywheel.sources.reader import ReadOptions
from trace_flywheel.trainers.layout import Layout
from trace_flywheel.trainers.registry import layout


class Job(msgspec.Struct, frozen=True):
    """What every worker needs beside its piece."""

    format: str
    rules: Rules
    pii: Policy | str | None
    options: ReadOptions
    goldens: tuple[Golden, ...] = ()
    overlap: float = 0.5
    policy_version: str | None = None


def choosing(job: Job, **values: Any) -> Job:
    choice = msgspec.structs.replace(job.rules.choice, **values)
    return msgspec.structs.replace(job, rules=msgspec.structs.replace(job.rules, choice=choice))


def run(job: Job, piece: Piece) -> list[Outcome]:
    """Convert one piece; the work of a worker process."""
    target = layout(job.format)
    outcomes = []
    with few_collections():
        for unit, name in zip(piece.units, piece.jobs, strict=True):
            for read in read_unit(piece.run, unit, job.options):
                outcome = guarded(read, job, target, piece.base)
                outcome.key["job"] = name
                outcomes.append(outcome)
    return outcomes


def guarded(read: Rollout | Drop, job: Job, target: Layout, base: str) -> Outcome:
    try:
        return _outcome(read, job, target, base)
    # The fail-closed boundary of conversion: a fault nobody foresaw costs its rollout, not all rollouts. The text of
    # the error may quote raw data, so only its kind and place are told.
    except Exception as error:
        return outcome_of_drop(_lost(read, crash_of(error).reason), base)


def _lost(read: Rollout | Drop, reason: str) -> Drop:
    return Drop(
        Stage.READ,
        "unreadable_file",
        {"text": reason},
        run_id=read.run_id,
        trace_id=read.trace_id,
        task_id=read.task_id,
        agent=read.agent,
        model=read.model,
        job=read.job,
        path=read.path if isinstance(read, Drop) else read.source.path,
    )


def _outcome(read: Rollout | Drop, job: Job, target: Layout, base: str) -> Outcome:
    rules = None if job.pii is None else redactor(job.pii)
    if isinstance(read, Drop):
        return outcome_of_drop(rules.safe(read) if rules else read, base)
    if read.policy_version is None and job.policy_version is not None:
        read = msgspec.structs.replace(read, policy_version=job.policy_version)
    safe = rules.redact(read) if rules else read
    if isinstance(safe, Drop):
        return refused(_told(read, rules) if rules else read, safe, base)
    if job.goldens:
        from trace_flywheel.flow.conversion.holdout import golden_of

        if held := golden_of(safe, job.goldens, job.overlap):
            return refused(safe, held, base)
    outcome = outcome_of(safe, target, job.rules, base)
    outcome.content = content_of(read)
    return outcome


def _told(rollout: Rollout, rules: Redactor) -> Rollout:
    """What its group may know of a rollout that is not safe: masked names, and the score where that holds no secret."""
    rollout = rules.masked(rollout)
    category = rollout.error.category if rollout.error else ""
    if rules.scan([category, rollout.reward_vector and rollout.reward_vector["names"]]):
        error = RolloutError("error", by=rollout.error.by) if rollout.error else None
        return msgspec.structs.replace(rollout, error=error, reward_vector=None)
    return rollout
