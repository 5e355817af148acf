"""Trials that wait for their group, and attempts that wait for the retry which may replace them.

A group is printed whole, when its N-th final member is there, with the advantages and withholding rules of `convert`.
An unscored trial of a job that retries is no final member until it is replaced or the job has ended.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trace_flywheel.curation.group_signals import Member, group_signals
from trace_flywheel.records.rollout_stream import RolloutRecord


class Waiting(msgspec.Struct, frozen=True):
    """A record with what its group and the cursor need of it."""

    record: RolloutRecord
    member: Member
    sha256: str
    attempt: tuple[Any, ...]
    """Trials with the same one are attempts of one trial: job folder, task, agent, model."""
    may_be_retried: bool = False


class Groups:
    """Feed it finished trials; it gives back what may be printed, group by group."""

    def __init__(self, size: int, by: Sequence[str], eps: float) -> None:
        self.size, self.by, self.eps = size, tuple(by), eps
        self._members: dict[str, list[Waiting]] = {}
        self._held: dict[tuple[Any, ...], Waiting] = {}

    def add(self, trial: Waiting) -> Iterator[list[Waiting]]:
        """What this trial completes: the attempt that it replaces, its group."""
        earlier = self._held.pop(trial.attempt, None)
        if earlier is not None:
            yield [_as(earlier, retried=True)]
            trial = _as(trial, replaces=earlier.record.rollout_path)
        if trial.may_be_retried:
            self._held[trial.attempt] = trial
            return
        yield from self._join(trial)

    def forget(self, relative: str) -> None:
        """A waiting trial's result was written anew: the old one counts nowhere."""
        for group in self._members.values():
            group[:] = [one for one in group if one.record.rollout_path != relative]
        self._held = {k: one for k, one in self._held.items() if one.record.rollout_path != relative}

    def final(self) -> Iterator[list[Waiting]]:
        """The job has ended: nothing is retried any more, which may fill groups."""
        held, self._held = list(self._held.values()), {}
        for trial in held:
            yield from self._join(trial)

    def rest(self) -> Iterator[Waiting]:
        """Members of groups that did not fill, in the order they came."""
        for group in (*self._members.values(), list(self._held.values())):
            for trial in group:
                yield _as(trial, group_complete=False)

    def _join(self, trial: Waiting) -> Iterator[list[Waiting]]:
        group = self._members.setdefault(trial.record.group_id, [])
        group.append(trial)
        if len(group) >= self.size:
            signals, _ = group_signals([one.member for one in group], self.by, "grpo", self.eps)
            whole = zip(group, signals, strict=True)
            yield [_as(one, advantage=signal.advantage, group_complete=True) for one, signal in whole]
            del self._members[trial.record.group_id]


def _as(trial: Waiting, **values: Any) -> Waiting:
    return msgspec.structs.replace(trial, record=msgspec.structs.replace(trial.record, **values))
