"""Rows of branched trials as types; as in `row_models.py` the schemas are generated from these."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta

from trace_flywheel.trainers.conversation_models import Absent, BranchTurns, Number, Tools


class BranchRow(msgspec.Struct, kw_only=True):
    """What rows of a branched trial have in common."""

    schema_version: Literal[2]
    trial: str
    fork_id: str
    tools: Tools
    task: str | Absent | None = UNSET
    agent: str | Absent | None = UNSET
    model: str | Absent | None = UNSET
    parent_node: str | Absent | None = UNSET


class BranchChild(msgspec.Struct, kw_only=True):
    node_id: str
    reward: Number
    index: int | Absent = UNSET
    label: str | Absent | None = UNSET
    requested: str | Absent | None = UNSET
    status: str | Absent | None = UNSET
    reward_source: str | Absent | None = UNSET
    path: str | Absent | None = UNSET


class BranchChildRow(BranchRow, kw_only=True):
    """A fork's shared prefix and one child's continuation, with its advantage over the fork's value."""

    kind: Literal["branch_child"]
    depth: Annotated[int, Meta(ge=1)]
    value: Number
    child: BranchChild
    advantage: Number
    session: str
    prefix_complete: bool
    prefix: BranchTurns
    continuation: BranchTurns
    messages: BranchTurns
    fork_kind: str | Absent = UNSET
    parent_child: str | Absent | None = UNSET
    fork_status: str | Absent | None = UNSET
    value_stderr: Number | Absent = UNSET
    siblings: int | Absent = UNSET
    prefix_source: dict[str, Any] | Absent | None = UNSET
    tool_names: Literal["agent", "inferred", "mixed"] | Absent | None = UNSET


class BranchPairRow(BranchRow, kw_only=True):
    """Two siblings of one fork whose rewards differ."""

    kind: Literal["branch_pair"]
    same_request: bool
    prompt: BranchTurns
    chosen: BranchTurns
    rejected: BranchTurns
    chosen_reward: float
    rejected_reward: float
    margin: float
    depth: Annotated[int, Meta(ge=1)] | Absent = UNSET
    session: str | Absent = UNSET
    prefix_complete: bool | Absent = UNSET
    chosen_label: str | Absent | None = UNSET
    rejected_label: str | Absent | None = UNSET
