"""The rows that one recording gives, and the rule that took each other candidate away.

A row is kept as a *draft* (where its target stands, and its hash) until it is written: a trajectory's rows repeat their
context, so that holding them would be quadratic. `row_hash` is of what a trainer learns from, never of provenance, so
that a judge's answer finds its row again in any later run.
"""

from collections import Counter
from typing import Any, Literal

import msgspec

from trace_flywheel.curation.code_judges import signals
from trace_flywheel.curation.masking import SupervisedRollout, supervised
from trace_flywheel.records.canonical import content_id, folded
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.trainers.atraj_sft import (
    Turn,
    answer_pairs,
    parsed_turn,
    trajectory_messages,
    trajectory_targets,
    turns_of,
)
from trace_flywheel.trainers.chat import supervised_turns
from trace_flywheel.trainers.layout import Row

Export = Literal["answer-only", "trajectory"]
ECHO_WORDS = 8
"""Words from which an answer that repeats a tool's output is an echo; a shorter one may well be the answer."""


class Draft(msgspec.Struct, frozen=True):
    """A row to be: positions are of turns."""

    target: int
    user: int | None
    """The prompt of an answer-only row; None for a trajectory row, whose context is everything before."""
    step: int | None
    """Of the target, in the file."""
    row_hash: str
    reward: float | None
    """The target step's own."""


class Harvest(msgspec.Struct, frozen=True):
    """One recording's rows and what its other candidates were lost to, by rule."""

    rollout: Rollout
    messages: tuple[Message, ...]
    turns: list[Turn]
    drafts: tuple[Draft, ...]
    lost: dict[str, int]
    signals: dict[str, float]


def harvest(rollout: Rollout, export: Export, echo_drop: bool, placeholders: Literal["mask", "keep"]) -> Harvest:
    """The rows of a redacted rollout. Rules: `unanswered`, `blank_answer`, `tool_call`, `tool_echo`, `masked`, and the
    reason of a rollout whose correction or masks do not fit."""
    view = supervised(rollout, placeholders)
    if isinstance(view, Drop):
        return Harvest(rollout, rollout.messages, [], (), {view.reason: 1}, signals(rollout))
    turns = turns_of(view.messages)
    lost: Counter[str] = Counter()
    learned = set(supervised_turns(view.messages))
    found = []
    for user, target in _candidates(turns, export):
        if target is None:
            lost["unanswered"] += 1
        elif (rule := _rule_against(turns, target, export, echo_drop)) is not None:
            lost[rule] += 1
        elif target not in learned:
            lost["masked"] += 1
        else:
            found.append(_draft(view, turns, user, target))
    return Harvest(rollout, view.messages, turns, tuple(found), dict(sorted(lost.items())), signals(rollout))


def _candidates(turns: list[Turn], export: Export) -> list[tuple[int | None, int | None]]:
    if export == "answer-only":
        return list(answer_pairs(turns))
    return [(None, target) for target in trajectory_targets(turns)]


def _rule_against(turns: list[Turn], target: int, export: Export, echo_drop: bool) -> str | None:
    if export == "trajectory":
        return None
    turn = turns[target]
    if not turn["content"].strip():
        return "blank_answer"
    if not echo_drop:
        return None
    spoken = parsed_turn(turn["content"])
    if "tool_call" in turn or (spoken is not None and "tool" in spoken):
        return "tool_call"
    answer = spoken["answer"] if spoken is not None and isinstance(spoken["answer"], str) else turn["content"]
    heard = next((t for t in reversed(turns[:target]) if t["role"] in ("tool", "user")), None)
    if heard is None or heard["role"] != "tool":
        return None
    output = heard.get("tool_result", {}).get("stdout", heard["content"])
    same = folded(answer) == folded(output) and len(answer.split()) >= ECHO_WORDS
    return "tool_echo" if same else None


def _draft(view: SupervisedRollout, turns: list[Turn], user: int | None, target: int) -> Draft:
    rollout = view.rollout
    assistants = sum(turn["role"] == "assistant" for turn in turns[:target])
    steps = (rollout.metadata or {}).get("assistant_steps", ())
    step = steps[assistants] if assistants < len(steps) else None
    rewards = (rollout.rewards or {}).get("steps", ())
    reward = rewards[step] if step is not None and step < len(rewards) and view.kind != "correction" else None
    messages = messages_of(turns, user, target)
    return Draft(target, user, step, content_id(_learned(messages)), _number(reward))


def messages_of(turns: list[Turn], user: int | None, target: int) -> list[Row]:
    """The messages of a row."""
    if user is None:
        return trajectory_messages(turns, target)
    return [{key: turns[i][key] for key in turns[i] if not key.startswith("tool_")} for i in (user, target)]


def _learned(messages: list[Row]) -> list[list[Any]]:
    """What two rows must share to be one: token ids are how a text was sampled, not what it says."""
    return [[m["role"], m["content"], m.get("supervise"), m.get("tool_call")] for m in messages]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def row_of(found: Harvest, draft: Draft, export: Export, task: str | None, score: float | None) -> Row:
    """The row as it is written: the original's keys, then where it came from."""
    rollout = found.rollout
    row: Row = {
        "messages": messages_of(found.turns, draft.user, draft.target),
        "source_atraj": rollout.source.path.rpartition("/")[2],
        "task": task if task is not None else rollout.suite,
    }
    if export == "trajectory":
        row["export"] = export
    return row | {
        "row_hash": draft.row_hash,
        "rollout_id": rollout.trace_id,
        "step": draft.step,
        "reward": draft.reward,
        "rollout_reward": rollout.reward,
        "judge_score": score,
        "grader": rollout.grader,
        "model": rollout.model,
        "model_fingerprint": rollout.policy_version,
        "source_path": rollout.source.path,
        "source_sha256": rollout.source.sha256,
        "corrected": rollout.correction is not None,
        "redactions": sum((rollout.redactions or {}).values()),
        "signals": found.signals,
    }
