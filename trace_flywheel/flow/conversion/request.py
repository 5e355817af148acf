"""What `flywheel convert` was asked for: one frozen record, made by the command line, read by every part of it."""

from pathlib import Path

import msgspec

from trace_flywheel.flow.conversion.rollout import DEFAULT_BY
from trace_flywheel.records.normalisation import Normalisation
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.sources.reader import ReadOptions
from trace_flywheel.trainers.candidates import Choice
from trace_flywheel.trainers.message_window import Window


class Request(msgspec.Struct, frozen=True):
    """What `flywheel convert` was asked for."""

    paths: tuple[Path, ...]
    out: Path
    format: str = "prime-sft"
    choice: Choice = Choice()
    min_reward: float | None = None
    group_advantage: Normalisation | None = None
    group_by: tuple[str, ...] = DEFAULT_BY
    reward_vector: bool = False
    """Rows carry the parts of their reward, and with advantages one for each part."""
    pii: Policy | str | None = "standard"
    """Which personal data goes beside the secrets; None leaves everything as it is."""
    expected_rows: int | None = None
    require_tool_calls: bool = False
    strict: bool = False
    selection: Path | None = None
    """A file that names the trials that take part (`convert_selection`)."""
    goldens: tuple[Path, ...] = ()
    """Golden files beside those found in an eval layout."""
    overlap: float = 0.5
    """Share of a golden statement's n-grams from which a rollout is held out."""
    options: ReadOptions = ReadOptions()
    eps: float = 1e-4
    window: Window | None = None
    """trl-sft: the tokens that a row may have, and who counts them."""
    policy_version: str | None = None
    """Of rollouts whose source names none."""
    existing: tuple[Path, ...] = ()
    """Training data whose rows are not written again: files, or `dataset:NAME@VERSION` of `home`."""
    home: Path = Path(".flywheel")
    near: float = 0.85
    """Jaccard from which a row is a near-duplicate of an existing one."""
    keep_index: bool = True
    """Indexes of existing data are kept in the home, where it has a lake."""
