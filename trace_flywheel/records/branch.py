"""A branched trial: forks of one conversation, each with children that went on from the same prefix and were scored."""

from typing import Any

import msgspec

from trace_flywheel.records.message import Message


class BranchChild(msgspec.Struct, frozen=True):
    """One continuation. `messages` starts where the fork's prefix ends; None where no observation was kept."""

    index: int
    node_id: str
    messages: tuple[Message, ...] | None
    reward: float | None = None
    """Finite, or None where the child has no score."""
    label: str | None = None
    requested: str | None = None
    status: str | None = None
    reward_source: str | None = None
    path: str | None = None
    """Of its files, below the trial folder."""
    named: tuple[str, ...] = ()
    """Where the names of its tools came from: `agent`, `inferred`."""


class Fork(msgspec.Struct, frozen=True):
    """The state that children share: `prefix` is the conversation up to it. `value` is the mean of their rewards as
    recorded; an advantage is a child's reward above it."""

    id: str
    prefix: tuple[Message, ...]
    children: tuple[BranchChild, ...]
    kind: str = "fork"
    status: str | None = None
    parent_node: str | None = None
    parent_child: str | None = None
    """Node of the child that this fork is inside of."""
    depth: int = 1
    value: float | None = None
    value_stderr: float | None = None
    session: str = "fresh"
    named: tuple[str, ...] = ()


class BranchTrial(msgspec.Struct, frozen=True):
    """A trial with its forks, outer ones first."""

    name: str
    path: str
    """Of its tree, relative to the root."""
    sha256: str
    task: str | None
    agent: str | None
    model: str | None
    forks: tuple[Fork, ...]
    prefix_source: dict[str, Any] | None = None
    """The trial and checkpoint it was started from."""
    prefix_complete: bool = True
    """False where that trial's events are not below the root: prefixes lack their beginning."""
