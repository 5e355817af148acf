"""What cannot be trained on, whatever its reward: it must not use up a task's quota.

Two views are judged by one set of rules: the row view (`SupervisedRollout`) and the rollout as recorded, which is what
a preference pair or an RL row is made of; masks do not matter there.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from trace_flywheel.curation.decisions import drops
from trace_flywheel.curation.masking import SupervisedRollout
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message, has_only_text, text_of
from trace_flywheel.records.rollout import Rollout

if TYPE_CHECKING:
    import pandas as pd

    from trace_flywheel.curation.convertible import Kind


def quality(view: Rollout | SupervisedRollout) -> Drop | None:
    """The drop of stage `quality`, or None where there is nothing to object to."""
    row = isinstance(view, SupervisedRollout)
    rollout = view.rollout if isinstance(view, SupervisedRollout) else view
    # A corrected rollout ends with the human's answer: how the model's own attempt ended no longer matters.
    corrected = isinstance(view, SupervisedRollout) and view.kind == "correction"
    found: tuple[str, dict[str, Any]] | None = None
    if rollout.is_truncated and not corrected:
        torn = (rollout.metadata or {}).get("torn")
        found = "truncated", {"stop_reason": rollout.stop_reason, **({"torn": torn} if torn else {})}
    elif row and not corrected and (error := _own_failure(rollout)) is not None:
        found = "truncated", {"error": error}
    elif (blank := _empty_answer(view.messages)) is not None:
        found = "empty_answer", blank
    elif (unpaired := _unpaired(view.messages)) is not None:
        found = "unpaired_calls", unpaired
    elif row and not any(m.role == "assistant" and m.train_on is not False for m in view.messages):
        found = "nothing_to_train_on", {"assistant_turns": sum(m.role == "assistant" for m in view.messages)}
    elif view.messages[0].role == "assistant":
        found = "no_prompt", {"message": 0}
    if found is None:
        return None
    return Drop(
        stage=Stage.QUALITY,
        reason=found[0],
        evidence=found[1],
        run_id=rollout.run_id,
        trace_id=rollout.trace_id,
        task_id=rollout.task_id,
    )


def _own_failure(rollout: Rollout) -> str | None:
    """Category of the agent's own error that ended the rollout: whatever its reward, its ending is no model answer.

    Where every step was judged by itself, the good ones stay worth learning.
    """
    if rollout.error is None or rollout.error.by != "agent" or rollout.step_verdicts is not None:
        return None
    return rollout.error.category


def _empty_answer(messages: Sequence[Message]) -> dict[str, Any] | None:
    """Evidence where the last assistant turn says and calls nothing, or there is none.

    What follows it may be a tool's result (a final `submit` call) or a user's goodbye: neither is a target.
    """
    last = next((i for i in reversed(range(len(messages))) if messages[i].role == "assistant"), None)
    if last is None:
        return {"assistant_turns": 0}
    turn = messages[last]
    if turn.tool_calls or text_of(turn.content).strip() or not has_only_text(turn.content):
        return None
    return {"message": last}


def _unpaired(messages: Sequence[Message]) -> dict[str, Any] | None:
    """Evidence of the first call without a result, or result without a call.

    Results belong to the assistant turn before them; calls still open when the conversation ends in their turn are
    legal.
    """
    pending: list[str] = []
    for i, message in enumerate(messages):
        if message.role == "assistant":
            if pending:
                return {"message": i, "unanswered": pending}
            pending = [call.id for call in message.tool_calls]
        elif message.role == "tool":
            call = message.tool_call_id if message.tool_call_id is not None else next(iter(pending), None)
            if call not in pending:
                return {"message": i, "result_without_call": call}
            pending.remove(str(call))
    if pending and messages[-1].role not in {"assistant", "tool"}:
        return {"message": len(messages) - 1, "unanswered": pending}
    return None


def quality_drops(
    frame: "pd.DataFrame", alive: np.ndarray, kind: "Kind", cut_off: np.ndarray | None = None
) -> "pd.DataFrame":
    """The index's verdicts as drops: the row view for `sft`, the recorded view for `pair` and `rl`.

    An RL row has no prompt apart from its messages, so it may begin with the assistant. `cut_off` masks the rows that
    may be truncated all the same.
    """
    if kind == "sft":
        rows = np.flatnonzero(alive & frame["quality_reason"].notna().to_numpy())
        evidence = [orjson.loads(e) if isinstance(e, str) else {} for e in frame["quality_evidence"].iloc[rows]]
        return drops(Stage.QUALITY, rows, frame["quality_reason"].iloc[rows].tolist(), evidence)
    faulty = frame["pair_quality_reason"].notna().to_numpy()
    if kind == "rl":
        faulty = faulty & (frame["pair_quality_reason"] != "no_prompt").to_numpy()
    if cut_off is not None:
        faulty = faulty & ~(cut_off & (frame["pair_quality_reason"] == "truncated").to_numpy())
    rows = np.flatnonzero(alive & faulty)
    return drops(Stage.QUALITY, rows, frame["pair_quality_reason"].iloc[rows].tolist(), [{}] * len(rows))
