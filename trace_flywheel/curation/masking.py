"""Which assistant turns of a rollout are learned: the step from what was recorded to what is trained on.

Masks only ever take supervision away: a turn is supervised unless its source, its step verdict, a correction of
another turn or a redaction placeholder says otherwise. Masked turns stay in the conversation as context. Where
anything is masked every assistant turn carries an explicit flag; where nothing is, none does.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message, text_of
from trace_flywheel.records.rollout import Correction, Rollout

PLACEHOLDER = "[REDACTED:"
"""How every redaction placeholder begins."""


class SupervisedRollout(msgspec.Struct, frozen=True):
    """The row view of a rollout: its messages with masks set and a correction applied."""

    rollout: Rollout
    messages: tuple[Message, ...]
    kind: Literal["sft", "correction", "masked"]
    masked_steps: int
    """Assistant turns that step verdicts, the source or a placeholder mask; context before a correction is none."""
    transforms: tuple[str, ...]
    """What changed since the source, in order: `redacted`, `corrected`, `masked`."""


def supervised(rollout: Rollout, supervise_placeholders: Literal["mask", "keep"] = "mask") -> SupervisedRollout | Drop:
    """The row view, or the drop of a rollout whose masks or correction do not fit its messages."""
    turns = [i for i, message in enumerate(rollout.messages) if message.role == "assistant"]
    transforms = ["redacted"] if rollout.redactions else []
    messages = rollout.messages
    if rollout.correction is not None:
        corrected = _corrected(rollout, rollout.correction, turns)
        if isinstance(corrected, Drop):
            return corrected
        messages, target = corrected
        learned = [i == target for i, message in enumerate(messages) if message.role == "assistant"]
        transforms.append("corrected")
    elif rollout.step_verdicts is not None:
        if len(rollout.step_verdicts) != len(turns):
            evidence = {"step_verdicts": len(rollout.step_verdicts), "assistant_turns": len(turns)}
            return _drop(rollout, "mask_mismatch", evidence)
        learned = [
            verdict == "pass" and messages[i].train_on is not False
            for verdict, i in zip(rollout.step_verdicts, turns, strict=True)
        ]
    else:
        learned = [messages[i].train_on is not False for i in turns]
    if supervise_placeholders == "mask":
        answers = [message for message in messages if message.role == "assistant"]
        learned = [on and not has_placeholder(turn) for on, turn in zip(learned, answers, strict=True)]
    corrects = rollout.correction is not None
    masked_steps = 0 if corrects else learned.count(False)
    if masked_steps:
        transforms.append("masked")
    return SupervisedRollout(
        rollout=rollout,
        messages=_flagged(messages, learned),
        kind="correction" if corrects else "masked" if masked_steps or rollout.step_verdicts is not None else "sft",
        masked_steps=masked_steps,
        transforms=tuple(transforms),
    )


def _corrected(
    rollout: Rollout, correction: Correction, turns: Sequence[int]
) -> tuple[tuple[Message, ...], int] | Drop:
    """Messages with the turn replaced, and where it stands.

    A turn that made calls is replaced only when the correction names it, and ends the conversation: the results that
    follow answer calls that are no longer made.
    """
    if not turns or not correction.content.strip():
        return _drop(rollout, "empty_answer", {"correction": "no assistant turn" if not turns else "empty"})
    turn = len(turns) - 1 if correction.turn is None else correction.turn
    if not 0 <= turn < len(turns):
        return _drop(rollout, "mask_mismatch", {"correction_turn": turn, "assistant_turns": len(turns)})
    target = turns[turn]
    replaced = rollout.messages[target]
    if replaced.tool_calls and correction.turn is None:
        return _drop(rollout, "unpaired_calls", {"correction": "the last turn makes tool calls; name the turn"})
    rest = () if replaced.tool_calls else rollout.messages[target + 1 :]
    answer = Message(role="assistant", content=correction.content)
    return (*rollout.messages[:target], answer, *rest), target


def has_placeholder(message: Message) -> bool:
    """Whether learning the message would teach a placeholder."""
    if PLACEHOLDER in text_of(message.content) or PLACEHOLDER in (message.reasoning or ""):
        return True
    return any(PLACEHOLDER in call.arguments for call in message.tool_calls)


def _flagged(messages: tuple[Message, ...], learned: list[bool]) -> tuple[Message, ...]:
    flags = iter(learned) if not all(learned) else iter([None] * len(learned))
    return tuple(
        message
        if message.role != "assistant" or (flag := next(flags)) is message.train_on
        else msgspec.structs.replace(message, train_on=flag)
        for message in messages
    )


def _drop(rollout: Rollout, reason: str, evidence: dict[str, Any]) -> Drop:
    return Drop(
        stage=Stage.QUALITY,
        reason=reason,
        evidence=evidence,
        run_id=rollout.run_id,
        trace_id=rollout.trace_id,
        task_id=rollout.task_id,
    )
