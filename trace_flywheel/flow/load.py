"""Rollouts of job folders in trial path order, safe to look at, and the advantages of a selection of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from trace_flywheel.flow.conversion.plan import plan_of
from trace_flywheel.flow.conversion.rollout import identity_of, outcome_of_drop, refused
from trace_flywheel.records.documents import TrainingSignal
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.normalisation import Normalisation
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources.discover import read_unit
from trace_flywheel.sources.reader import ReadOptions


class Loaded(msgspec.Struct, frozen=True):
    """What one unit gave. `read` is as the source has it, `safe` as it may be looked at: the same without redaction."""

    read: Rollout | Drop
    safe: Rollout | Drop
    base: str
    """The root as the caller gave it."""
    job: str | None
    """Name of the job in group keys; None for what looked like a job and is none."""


def load(paths: Sequence[Path], pii: Policy | str | None, options: ReadOptions) -> Iterator[Loaded]:
    """Everything below these folders and files, one unit at a time. Raises `FlywheelError` where there is no job."""
    plan = plan_of(paths)
    for base, drop in plan.problems:
        yield Loaded(drop, _safe(drop, pii), base, None)
    for piece in plan.pieces:
        for unit, job in zip(piece.units, piece.jobs, strict=True):
            for read in read_unit(piece.run, unit, options):
                yield Loaded(read, _safe(read, pii), piece.base, job)


def _safe(read: Rollout | Drop, pii: Policy | str | None) -> Rollout | Drop:
    if pii is None:
        return read
    rules = redactor(pii)
    return rules.safe(read) if isinstance(read, Drop) else rules.redact(read)


def training_signal(
    paths: Sequence[Path],
    normalisation: Normalisation,
    by: Sequence[str],
    eps: float,
    pii: Policy | str | None,
    options: ReadOptions,
) -> TrainingSignal:
    """The advantages of all rollouts below these paths, by the rules of `convert --group-advantage`."""
    # groups come with pandas
    from trace_flywheel.flow.conversion.groups import signals

    outcomes = []
    for one in load(paths, pii, options):
        if one.job is None:
            continue
        if isinstance(one.safe, Rollout):
            outcome = identity_of(one.safe, one.base)
        elif isinstance(one.read, Rollout):
            outcome = refused(one.read, one.safe, one.base)
        else:
            outcome = outcome_of_drop(one.safe, one.base)
        outcome.key["job"] = one.job
        outcomes.append(outcome)
    _, blocks = signals(outcomes, by, normalisation, eps)
    document = {
        "reward_vector": False,
        "group_advantage": normalisation,
        "group_by": list(by),
        "std_ddof": 1,
        "eps": eps,
        "groups": blocks,
    }
    return msgspec.convert(document, TrainingSignal)
