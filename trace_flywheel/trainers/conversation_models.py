"""Rows that hold chat messages as types: prime-sft, the TRL layouts, kto and the canonical layout.

As in `row_models.py` the schemas are generated from these. A key that may be absent is no null unless its type says so;
a forbidden one (answers, graders, a model's private thoughts) may not be there at all.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from trace_flywheel.trainers.row_models import Name, ObjectCall, Role, TextCall

Absent = UnsetType
Number = float | None
Count = Annotated[int, Meta(ge=0)]
Forbidden = Annotated[Any, Meta(extra_json_schema={"not": {}})]
SAYS_SOMETHING = Meta(extra_json_schema={"anyOf": [{"required": ["content"]}, {"required": ["tool_calls"]}]})
IS_DECLARED = Meta(extra_json_schema={"anyOf": [{"required": ["function"]}, {"required": ["name"]}]})


class AnyFunction(msgspec.Struct):
    name: Name
    arguments: str | dict[str, Any]
    """A JSON object, or one as text."""


class AnyCall(msgspec.Struct):
    id: Name
    type: Literal["function"]
    function: AnyFunction


class DeclaredFunction(msgspec.Struct):
    name: Name
    description: str | Absent | None = UNSET
    parameters: dict[str, Any] | Absent | None = UNSET


class Declared(msgspec.Struct):
    """A tool in chat shape, or flat."""

    name: Name | Absent = UNSET
    function: DeclaredFunction | Absent = UNSET


Tools = list[Annotated[Declared, IS_DECLARED]]


class Turn(msgspec.Struct, kw_only=True):
    """What every layout's message has and may not have."""

    role: Role
    content: str | list[Any] | Absent | None = UNSET
    tool_call_id: Name | Absent = UNSET
    name: str | Absent = UNSET
    thinking_blocks: Forbidden | Absent = UNSET
    private_reasoning: Forbidden | Absent = UNSET
    provider_specific_fields: Forbidden | Absent = UNSET
    function_call: Forbidden | Absent = UNSET


class PrimeTurn(Turn, kw_only=True):
    tool_calls: list[AnyCall] | Absent = UNSET
    train_on: bool | Absent = UNSET
    """On an assistant message: supervised or masked."""
    reasoning_content: Forbidden | Absent = UNSET


class TrlTurn(Turn, kw_only=True):
    tool_calls: list[ObjectCall] | Absent = UNSET
    reasoning_content: Forbidden | Absent = UNSET


class TrlAnswer(TrlTurn, kw_only=True):
    role: Literal["assistant"]


class TrlTail(TrlTurn, kw_only=True):
    """What follows a prompt."""

    role: Literal["user", "assistant", "tool"]


class BranchTurn(Turn, kw_only=True):
    tool_calls: list[TextCall] | Absent = UNSET
    reasoning_content: str | Absent = UNSET


class CanonicalTurn(BranchTurn, kw_only=True):
    train_on: bool | Absent = UNSET
    is_error: bool | Absent = UNSET
    token_ids: list[int] | Absent = UNSET
    logprobs: list[float] | Absent = UNSET


TrlTurns = Annotated[list[Annotated[TrlTurn, SAYS_SOMETHING]], Meta(min_length=1)]
TrlTails = Annotated[list[Annotated[TrlTail, SAYS_SOMETHING]], Meta(min_length=1)]
CanonicalTurns = Annotated[list[Annotated[CanonicalTurn, SAYS_SOMETHING]], Meta(min_length=1)]
BranchTurns = list[Annotated[BranchTurn, SAYS_SOMETHING]]


class RowGroup(msgspec.Struct):
    """The group whose baseline an advantage is over."""

    id: str
    normalisation: str | Absent = UNSET
    formula: str | Absent = UNSET
    rollouts: Annotated[int, Meta(ge=1)] | Absent = UNSET
    scored: Count | Absent = UNSET
    mean: Number | Absent = UNSET
    std: Number | Absent = UNSET
    eps: float | Absent = UNSET
    error: str | Absent = UNSET
    excluded: str | Absent = UNSET


class Row(msgspec.Struct, kw_only=True):
    """Keys that no training row may have: what judges an answer, and what a model keeps to itself."""

    gold: Forbidden | Absent = UNSET
    gold_solution: Forbidden | Absent = UNSET
    verify_source: Forbidden | Absent = UNSET
    tools_py: Forbidden | Absent = UNSET
    initial_db: Forbidden | Absent = UNSET
    db_json: Forbidden | Absent = UNSET
    target_constants: Forbidden | Absent = UNSET
    private_reasoning: Forbidden | Absent = UNSET
    reasoning_content: Forbidden | Absent = UNSET
    thinking_blocks: Forbidden | Absent = UNSET


class Rewarded(Row, kw_only=True):
    reward: Number | Absent = UNSET
    advantage: Number | Absent = UNSET
    group: RowGroup | Absent = UNSET


class Converted(Rewarded, kw_only=True):
    """What rows of `convert` say of their rollout."""

    exchange_index: Count | Absent = UNSET
    scoring: dict[str, Any] | Absent = UNSET
    model: str | Absent = UNSET
    agent: str | Absent = UNSET
    token_usage: dict[str, Any] | Absent = UNSET


class PrimeSftRow(Converted, kw_only=True):
    """One conversation for Prime-RL's SFT trainer."""

    messages: Annotated[list[Annotated[PrimeTurn, SAYS_SOMETHING]], Meta(min_length=1)]
    tool_defs: Tools | Absent = UNSET
    task_name: str | Absent = UNSET
    source: str | Absent = UNSET
    source_path: str | Absent = UNSET
    score: Number | Absent = UNSET


class TrlSftRow(Converted, kw_only=True):
    """A conversational prompt and its completion for TRL's SFTTrainer."""

    prompt: TrlTurns
    completion: Annotated[list[Annotated[TrlAnswer, SAYS_SOMETHING]], Meta(min_length=1, max_length=1)]
    tools: Tools | Absent = UNSET
    tool_defs: Forbidden | Absent = UNSET
    task_id: str | Absent = UNSET
    turn: Count | Absent = UNSET
    call_purpose: str | Absent = UNSET


class TrlDpoRow(Row, kw_only=True):
    """A shared prompt and two answers for TRL's DPOTrainer."""

    prompt: TrlTurns
    chosen: TrlTails
    rejected: TrlTails
    tools: Tools | Absent = UNSET
    task_id: str | Absent = UNSET
    row_id: str | Absent = UNSET


class KtoRow(Row, kw_only=True):
    """A prompt, an answer and whether it is good, for TRL's KTOTrainer."""

    prompt: TrlTurns
    completion: TrlTails
    label: bool
    tools: Tools | Absent = UNSET
    task_id: str | Absent = UNSET
    row_id: str | Absent = UNSET


class MessagesRow(Rewarded, kw_only=True):
    """The canonical SFT or RL row (an RL row has reward, advantage and group)."""

    row_id: Name
    messages: CanonicalTurns
    tools: Tools
    task_id: str | Absent = UNSET
    run_id: str | Absent = UNSET
    trace_id: str | Absent = UNSET
    exchange_index: Count | Absent = UNSET


class MessagesPairRow(Row, kw_only=True):
    """The canonical preference pair."""

    row_id: Name
    prompt: CanonicalTurns
    chosen: CanonicalTurns
    rejected: CanonicalTurns
    tools: Tools
    task_id: str | Absent = UNSET


class MessagesKtoRow(Row, kw_only=True):
    """The canonical unpaired answer."""

    row_id: Name
    prompt: CanonicalTurns
    completion: CanonicalTurns
    label: bool
    tools: Tools
    task_id: str | Absent = UNSET
