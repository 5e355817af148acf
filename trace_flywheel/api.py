"""The library: rollouts, training signals and the stream, as typed records.

Everything is redacted unless told otherwise, by the same settings as on the command line (`flywheel.toml`, the
environment, or `config`): profile, rule files, allowed values. Records are `msgspec` structs: attributes to read,
`msgspec.to_builtins` or `msgspec.json.encode` to write; their schemas are in `schemas/`.
"""

import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from trace_flywheel.flow.conversion.rollout import DEFAULT_BY, GROUP_KEYS
from trace_flywheel.flow.inputs import read_options
from trace_flywheel.flow.load import load, training_signal
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.stream.follow import Request, Stream
from trace_flywheel.records.documents import TrainingSignal
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.normalisation import Normalisation
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rollout_stream import RolloutRecord
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings, load_settings
from trace_flywheel.sources.reader import ReadOptions

__all__ = ["load_rollouts", "stream_rollouts", "training_signals"]

Pii = Literal["settings", "none", "standard", "all"]
"""Personal data that is taken out beside secrets; `settings`: what `redaction.pii` says."""
Config = str | os.PathLike[str] | None
"""A settings file instead of `FLYWHEEL_CONFIG` or the working folder's `flywheel.toml`."""
_log = logging.getLogger("trace_flywheel")


def load_rollouts(
    path: str | os.PathLike[str],
    *,
    pii: Pii | None = "settings",
    exchanges: bool = False,
    on_drop: Callable[[Drop], None] | None = None,
    config: Config = None,
) -> Iterator[Rollout]:
    """The rollouts below a job folder, a folder above some, or an export file, in trial path order, one at a time.

    `pii=None` leaves secrets where they are. `exchanges` also gives every recorded model call, which is slower. What
    cannot be read or made safe goes to `on_drop`, or to the log where that is not given, and the rest goes on. Raises
    `FlywheelError` for settings or rules that cannot be used, and, when it is read, for a path without a job.
    """
    settings = _settings(config)
    options = msgspec.structs.replace(read_options(settings), exchanges=exchanges)
    policy = None if pii is None else _policy(settings, pii)
    if policy is not None:
        redactor(policy)  # what is wrong with its rules is told here
    return _loaded(Path(path), policy, options, on_drop or _logged)


def _loaded(path: Path, policy: Policy | None, options: ReadOptions, told: Callable[[Drop], None]) -> Iterator[Rollout]:
    for one in load([path], policy, options):
        if isinstance(one.safe, Drop):
            told(one.safe)
        else:
            yield one.safe


def training_signals(
    path: str | os.PathLike[str],
    *,
    normalisation: Normalisation = "grpo",
    by: Sequence[str] = DEFAULT_BY,
    eps: float = 1e-4,
    config: Config = None,
) -> TrainingSignal:
    """The advantage of every rollout below a path inside its group, by the rules of `convert --group-advantage`.

    grpo: `(reward - mean) / (std + eps)` with the sample standard deviation; dr-grpo: `reward - mean`; max-rl:
    `(reward - mean) / mean`; loo: `reward - mean` of the others.
    Raises `ValueError` for an unknown group key or normalisation and for an `eps` that is no number from 0 on,
    `FlywheelError` for a path without a job.
    """
    _check_keys(by)
    if normalisation not in get_args(Normalisation):
        raise ValueError(f"no normalisation {normalisation!r}; known: {', '.join(get_args(Normalisation))}")
    _check_number("eps", eps, 0.0)
    settings = _settings(config)
    options = msgspec.structs.replace(read_options(settings), exchanges=False)
    return training_signal([Path(path)], normalisation, by, eps, policy_of(settings), options)


def stream_rollouts(
    path: str | os.PathLike[str],
    *,
    follow: bool = True,
    poll_interval: float = 1.0,
    timeout: float | None = None,
    group_size: int | None = None,
    by: Sequence[str] = DEFAULT_BY,
    after: str | None = None,
    pii: Pii = "settings",
    config: Config = None,
) -> Iterator[RolloutRecord]:
    """A job's finished rollouts as they come, with their token ids where those may leave.

    `follow` waits for the job to end, at most `timeout` seconds, looking every `poll_interval` seconds; without it
    what is there is given. `group_size` gives groups whole, with advantages. `after` is the `cursor` of the last
    record that was taken. Raises `ValueError` for keys and numbers that mean nothing, and `FlywheelError`, when it is
    read, for a missing folder (unless followed), several jobs, a bad cursor.
    """
    _check_keys(by)
    _check_number("poll_interval", poll_interval, 0.0)
    if timeout is not None:
        _check_number("timeout", timeout, 0.0)
    if group_size is not None and (not isinstance(group_size, int) or group_size < 1):
        raise ValueError(f"group_size must be a whole number from 1 on, not {group_size!r}")
    settings = _settings(config)
    policy, options = _policy(settings, pii), read_options(settings)
    request = Request(
        Path(path), follow, poll_interval, timeout, group_size, tuple(by), after, policy, options, settings.groups.eps
    )
    return iter(Stream(request, _log.warning))


def _settings(config: Config) -> Settings:
    return load_settings(None if config is None else Path(config))


def _policy(settings: Settings, pii: Pii) -> Policy:
    return policy_of(settings, pii=None if pii == "settings" else pii)


def _check_keys(by: Sequence[str]) -> None:
    if unknown := [key for key in by if key not in GROUP_KEYS]:
        raise ValueError(f"no group key {unknown[0]!r}; known: {', '.join(GROUP_KEYS)}")


def _check_number(name: str, value: float, least: float) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value) or value < least:
        raise ValueError(f"{name} must be a finite number from {least:g} on, not {value!r}")


def _logged(drop: Drop) -> None:
    _log.warning("not loaded: %s: %s (%s)", drop.path, drop.reason, drop.evidence.get("text", drop.stage))
