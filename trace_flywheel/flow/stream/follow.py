"""A job's finished rollouts, one record each, while the job still runs.

A trial is printed once its result can be read; one that cannot is told once and tried again. A result that changes
after it was printed is printed again and says so (`replaces`). Every record carries the cursor behind it; inside a
group all but the last carry the one before the group, so that a reader that stops in between gets the group whole.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trace_flywheel.flow.stream.cursor import Cursor
from trace_flywheel.flow.stream.job import Found, State, is_marked, job_of, results, state_of
from trace_flywheel.flow.stream.record import record_of
from trace_flywheel.flow.stream.trial import Trial, key_of, read_trial
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.rollout_stream import RolloutRecord
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.benchflow_retry import retries
from trace_flywheel.sources.jsonl import Fault
from trace_flywheel.sources.reader import NAME_FAULT, ReadOptions, is_nameable, printable

if TYPE_CHECKING:
    from trace_flywheel.flow.stream.groups import Waiting

FINISHED, DIED, TIMED_OUT = 0, 1, 3
"""How a stream ends: BenchFlow's exit codes."""
DEFAULT_BY = ("task", "agent", "model", "job")
Warn = Callable[[str], None]


class Request(msgspec.Struct, frozen=True):
    """What to follow and how. Times are seconds; `timeout` None waits as long as the job does."""

    job: Path
    follow: bool = True
    poll_interval: float = 1.0
    timeout: float | None = None
    group_size: int | None = None
    group_by: tuple[str, ...] = DEFAULT_BY
    after: str | None = None
    pii: Policy | str = "standard"
    options: ReadOptions = ReadOptions()
    eps: float = 1e-4


class Stream:
    """Iterate once for the records; `exit_code` is known when the iterator is done."""

    def __init__(self, request: Request, warn: Warn = lambda text: None) -> None:
        self.request = request
        self.exit_code = FINISHED
        self._redactor = redactor(request.pii)
        self.warn: Warn = lambda text: warn(self._redactor.mask(text))
        self._groups = None
        if request.group_size is not None:
            # groups come with pandas, which a plain stream does without
            from trace_flywheel.flow.stream.groups import Groups

            self._groups = Groups(request.group_size, request.group_by, request.eps)
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._told: set[tuple[str, tuple[int, int, int]]] = set()

    def __iter__(self) -> Iterator[RolloutRecord]:
        yield from map(self._redactor.masked_record, self._records())

    def _records(self) -> Iterator[RolloutRecord]:
        started = time.monotonic()
        last: State | None = None
        cursor: Cursor | None = None
        while True:
            job = self._job()
            # asked before looking, so that a job that has finished is looked through once more
            state = state_of(job) if job is not None else State.WAITING
            if state is not last:
                self.warn(f"{self.request.job}: {state}")
                last = state
            if job is not None:
                cursor = cursor or self._cursor(job)
                if self._nothing(job, state):
                    raise FlywheelError(f"{self.request.job}: holds no trial; give a job folder")
                yield from self._scan(job, cursor)
            ended = state in (State.FINISHED, State.DIED) or not self.request.follow
            late = self.request.timeout is not None and time.monotonic() - started >= self.request.timeout
            if ended or late:
                break
            time.sleep(self.request.poll_interval)
        if cursor is not None:
            yield from self._rest(cursor, state)
        if state is State.DIED:
            self.exit_code = DIED
        elif self.request.follow and state is not State.FINISHED:
            self.exit_code = TIMED_OUT

    def _job(self) -> Path | None:
        path = self.request.job
        if path.is_dir():
            job = job_of(path.resolve())
            if not is_nameable(job):
                raise FlywheelError(f"{printable(str(job))}: {NAME_FAULT}")
            return job
        if path.exists() or not self.request.follow:
            what = "is no folder" if path.exists() else "no such folder"
            raise FlywheelError(f"{path}: {what}; give a job folder")
        return None

    def _nothing(self, job: Path, state: State) -> bool:
        """Whether nothing comes of it: without waiting, a folder that holds no trial and no job's own file."""
        waits = self.request.follow or state is not State.WAITING or is_marked(job)
        return not waits and next(folders.trials(job), None) is None

    def _cursor(self, job: Path) -> Cursor:
        return Cursor.parse(self.request.after, job.name) if self.request.after else Cursor(job.name)

    def _scan(self, job: Path, cursor: Cursor) -> Iterator[RolloutRecord]:
        for found in results(job):
            if self._seen.get(found.relative) == found.stamp:
                continue
            trial = read_trial(job, found.path, self.request.options, self._redactor)
            if isinstance(trial, Fault):
                self._tell(found, trial)
                continue
            self._seen[found.relative] = found.stamp
            if trial is not None and not cursor.holds(trial.relative, trial.sha256):
                yield from self._printed(job, trial, cursor)

    def _tell(self, found: Found, fault: Fault) -> None:
        if (found.relative, found.stamp) not in self._told:
            self._told.add((found.relative, found.stamp))
            self.warn(
                f"{printable(found.relative)}/result.json: {fault.reason} ({fault.text}); tried again at the next look"
            )

    def _printed(self, job: Path, trial: Trial, cursor: Cursor) -> Iterator[RolloutRecord]:
        by = self.request.group_by
        key = key_of(trial, job.name)
        group = {name: key[name] for name in by}
        group_id = "|".join(f"{name}={'null' if value is None else value}" for name, value in group.items())
        record = record_of(trial, job.name, group, group_id, self._redactor, self.request.options)
        changed = cursor.printed(trial.relative)
        if changed:
            # its group was printed with the old result, or is: it belongs to no whole one any more
            complete = None if self._groups is None else False
            record = msgspec.structs.replace(record, replaces=trial.relative, group_complete=complete)
        if self._groups is None or changed:
            yield _behind(record, cursor, trial.sha256)
            return
        from trace_flywheel.curation.group_signals import Member
        from trace_flywheel.flow.stream.groups import Waiting

        safe = trial.rollout
        member = Member(
            key,
            record.reward,
            safe.error.category if safe is not None and safe.error is not None else None,
            unreadable=safe is None,
            never_called=safe is not None and safe.never_called,
        )
        retried = record.reward is None and bool(record.error) and retries(trial.path.parent, job)
        attempt = (trial.path.parent, record.task, record.agent, record.model)
        self._groups.forget(trial.relative)
        for whole in self._groups.add(Waiting(record, member, trial.sha256, attempt, retried)):
            yield from _whole(whole, cursor)

    def _rest(self, cursor: Cursor, state: State) -> Iterator[RolloutRecord]:
        if self._groups is None:
            return
        for whole in self._groups.final():
            yield from _whole(whole, cursor)
        for trial in self._groups.rest():
            if state is State.FINISHED:
                yield _behind(trial.record, cursor, trial.sha256)
            else:  # the job may go on: behind this cursor the group still waits
                yield msgspec.structs.replace(trial.record, cursor=str(cursor))


def _whole(group: "list[Waiting]", cursor: Cursor) -> Iterator[RolloutRecord]:
    before = str(cursor)
    for trial in group[:-1]:
        yield msgspec.structs.replace(trial.record, cursor=before)
        cursor.add(trial.record.rollout_path, trial.sha256)
    yield _behind(group[-1].record, cursor, group[-1].sha256)


def _behind(record: RolloutRecord, cursor: Cursor, sha256: str) -> RolloutRecord:
    cursor.add(record.rollout_path, sha256)
    return msgspec.structs.replace(record, cursor=str(cursor))
