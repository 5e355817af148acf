"""What a dataset holds: SFT rows, preference pairs, unpaired answers and RL rollouts, each with its provenance.

`row_id` is a hash of what a trainer learns from (messages, tools, masks), so the same content has the same id in every
run and version. Every row names the runs, traces and graders it came from; a row without them cannot be built.
"""

import hashlib
from typing import Any, Literal

import msgspec
import orjson

from trace_flywheel.records.canonical import canonical_json, content_id, is_nfc
from trace_flywheel.records.message import Message, Tool

Split = Literal["train", "eval", "held_out"]
ID_LENGTH = 32
RowKind = Literal["sft", "correction", "masked", "pair", "kto", "rl", "prompt"]


class Provenance(msgspec.Struct, frozen=True):
    """Where a row came from and what was done to it. One line of `provenance.parquet`."""

    row_id: str
    kind: RowKind
    task_id: str
    run_id: str
    trace_ids: tuple[str, ...]
    """One; of a pair: chosen, rejected."""
    grader: str | None = None
    grader_version: str | None = None
    rewards: tuple[float | None, ...] = ()
    """In the order of `trace_ids`."""
    source: tuple[str, ...] = ()
    """`path#sha256` of each trace's file."""
    corrected_by: str | None = None
    masked_steps: int = 0
    delta: float | None = None
    delta_source: Literal["judge", "reward"] | None = None
    """What the delta is a difference of."""
    rejected_is_min: bool | None = None
    group_size: int | None = None
    """Scored members of a pair's group."""
    spread: float | None = None
    """Their population standard deviation (ddof 0)."""
    group_id: str | None = None
    rejected_run_id: str | None = None
    """Of a pair whose members come from two runs."""
    transforms: tuple[str, ...] = ()
    """What changed the text since the source, in order (`redacted`, `corrected`, `masked`)."""
    split: Split = "train"
    """The file that holds it."""
    weight: float | None = None
    """Of a mix in mode `weight`: what the row counts in training."""
    suite: str | None = None
    """The task's, where its source names one: goldens are known by both."""


class SftRow(msgspec.Struct, frozen=True):
    """One supervised conversation; `train_on` on assistant messages says what is learned."""

    row_id: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    provenance: Provenance


class PreferencePair(msgspec.Struct, frozen=True):
    """A shared prompt and two answers to it, as message lists."""

    row_id: str
    prompt: tuple[Message, ...]
    chosen: tuple[Message, ...]
    rejected: tuple[Message, ...]
    tools: tuple[Tool, ...]
    provenance: Provenance


class KtoRow(msgspec.Struct, frozen=True):
    """An answer that is good or bad by itself: all from the first assistant turn on, and what came before it."""

    row_id: str
    prompt: tuple[Message, ...]
    completion: tuple[Message, ...]
    label: bool
    tools: tuple[Tool, ...]
    provenance: Provenance
    said: bytes | None = None
    """See `named`."""


class PromptRow(msgspec.Struct, frozen=True):
    """A task to practise on: its prompt, the answer where one is recorded, and what judges an attempt."""

    row_id: str
    prompt: tuple[Message, ...]
    answer: str | None
    verifier: str
    """`grader@version`."""
    difficulty: dict[str, Any]
    """`n`, `passes`, `pass_at_1`."""
    tools: tuple[Tool, ...]
    provenance: Provenance


class RlRow(msgspec.Struct, frozen=True):
    """A whole rollout with its reward and its group's advantage (None where the group cannot give one)."""

    row_id: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    reward: float | None
    advantage: float | None
    group: dict[str, Any]
    provenance: Provenance
    policy: dict[str, Any] = {}
    """`version` of the policy that acted, `age_days` of its last finish before the newest of all."""
    said: bytes | None = None
    """See `named`."""


def row_id_of(*parts: Any) -> str:
    """The content hash of a row. Parts are messages, tools or tuples of them, in a fixed order."""
    return content_id([msgspec.to_builtins(part) for part in parts], ID_LENGTH)


def named(messages: tuple[Message, ...], tools: tuple[Tool, ...], *rest: Any) -> tuple[str, bytes | None]:
    """`row_id_of`, and a digest that only these messages have, byte for byte; None where others may have it too: those
    whose contents are more than texts have one id in several spellings."""
    data = b""
    if all(map(_says_text, messages)):
        data = orjson.dumps(msgspec.to_builtins(messages), option=orjson.OPT_SORT_KEYS)
    if not data or not is_nfc(data):
        return row_id_of(messages, tools, *rest), None
    digest = hashlib.sha256(b"[")
    digest.update(data)
    said = digest.digest()
    digest.update(b"," + canonical_json([msgspec.to_builtins(part) for part in (tools, *rest)])[1:])
    return digest.hexdigest()[:ID_LENGTH], said


def _says_text(message: Message) -> bool:
    """Whether a message is of texts and flags alone, which have one spelling."""
    content = message.content
    return (
        (content is None or content.__class__ is str)
        and message.extra is None
        and message.logprobs is None
        and message.token_ids is None
    )
