"""What a layout is. `convert` and publication know nothing else of a trainer."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import msgspec

from trace_flywheel.records.message import Message, Tool
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import KtoRow, PreferencePair, PromptRow, Provenance, RlRow, SftRow

Row = dict[str, Any]
Kind = Literal["sft", "pair", "kto", "rl", "prompt"]


class Candidate(msgspec.Struct, frozen=True):
    """One conversation of a rollout that is to become a row: the main thread, or one recorded call."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    exchange_index: int | None = None
    purpose: str = "agent"
    model: str | None = None
    spawned_by: str | None = None
    thread_end: bool = False
    """Its call is the last of its conversation, and the row stands for all of them."""


class Layout:
    """One trainer's layout: a subclass a file, its instance named `LAYOUT`.

    A method whose kind is not in `KINDS` is not overridden and raises `TypeError`. No method drops a row: what a
    trainer could not load is a fault that `validate` names, and the caller drops the row for it.
    """

    NAME: ClassVar[str]
    VERSION: ClassVar[int]
    """Goes up when a trainer's loader changes what it takes; the old version's schema file stays."""
    KINDS: ClassVar[tuple[Kind, ...]]
    LOSES: ClassVar[tuple[str, ...]]
    """What a canonical row holds and this layout does not."""
    CONTAINER: ClassVar[Literal["jsonl", "parquet", "folder"]] = "jsonl"
    """What the trainer opens: a file of lines, a table, or a folder with lines and metadata."""
    DISTINCT: ClassVar[bool] = False
    """Several rollouts give the same row, which is written once: the first with its `identity`."""

    CALLS: ClassVar[bool] = False
    """Rows are made from the recorded calls, not from the messages alone."""

    def sft_rows(self, row: SftRow) -> Iterator[Row]:
        """Rows of a dataset's SFT row: one, or one per supervised turn where the trainer knows no masks."""
        raise TypeError(f"{self.NAME} holds no SFT rows")

    def pair_rows(self, pair: PreferencePair) -> Iterator[Row]:
        """Rows of a preference pair."""
        raise TypeError(f"{self.NAME} holds no preference pairs")

    def kto_rows(self, row: KtoRow) -> Iterator[Row]:
        """Rows of an unpaired answer."""
        raise TypeError(f"{self.NAME} holds no unpaired answers")

    def rl_rows(self, row: RlRow) -> Iterator[Row]:
        """Rows of a rollout with its advantage."""
        raise TypeError(f"{self.NAME} holds no RL rollouts")

    def prompt_rows(self, row: PromptRow) -> Iterator[Row]:
        """Rows of a task to practise on."""
        raise TypeError(f"{self.NAME} holds no prompts")

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        """The row of `convert`; `base` is the source's root as the user gave it."""
        raise TypeError(f"{self.NAME} is not made from single rollouts")

    def identity(self, row: Row) -> tuple[str, ...]:
        """Of a `DISTINCT` layout: rows with equal ones are the same row, however they are worded."""
        raise TypeError(f"{self.NAME} writes every row")

    def validate(self, row: Any) -> Iterator[str]:
        """Faults of a row in words; none when the trainer can load it."""
        raise NotImplementedError

    def across(self) -> Callable[[Row], Iterator[str]]:
        """A check for one file, given its sound rows in order: faults that no row shows by itself."""
        return lambda row: iter(())

    def counts(self) -> "RowCounts":
        """What `validate` tells of a sound file beside its rows; fed with each of them."""
        return RowCounts()


class RowCounts:
    """Counts of one layout's own. This one counts nothing."""

    def add(self, row: Row) -> None:
        """One sound row."""

    def as_json(self) -> dict[str, Any]:
        """The counts by name."""
        return {}


def dropped_nulls(row: Row) -> Row:
    """The row without keys that have no value."""
    return {key: value for key, value in row.items() if value is not None}


def reward_of(provenance: Provenance) -> float | None:
    """The reward that belongs to the row's own text: a corrected row's text was never graded."""
    return provenance.rewards[0] if provenance.rewards and provenance.kind != "correction" else None


def source_keys(rollout: Rollout, base: str) -> tuple[str, str, str]:
    """`source`, `source_path` and `source_rollout_dir` as BenchFlow names them."""
    path = "/".join(part for part in (base.rstrip("/"), rollout.source.path) if part)
    folder, _, file = path.rpartition("/")
    rollout_dir = folder.removesuffix("/trajectory")
    if rollout.source.format != "benchflow":
        return rollout.source.format, path, rollout_dir
    kind = "acp" if file == "acp_trajectory.jsonl" else "llm"
    return f"benchflow-{kind}-trajectory", path, rollout_dir
