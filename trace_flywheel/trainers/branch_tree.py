"""branch-tree: BenchFlow's child rows of forked trials, and preference pairs between siblings.

A child row is the shared prefix and one continuation, with its advantage over the fork's value; siblings have the same
prefix, byte for byte. A pair is two siblings of different reward. Arguments are JSON strings, reasoning stays.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trace_flywheel.records.branch import BranchChild, BranchTrial, Fork
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.message import Message, Tool
from trace_flywheel.trainers.chat import ChatMessage, chat_messages, chat_tools
from trace_flywheel.trainers.layout import Layout, Row, RowCounts
from trace_flywheel.trainers.rules import ADVANTAGE_TOLERANCE, conversation_faults, is_empty_answer
from trace_flywheel.trainers.schema import shape_faults

SCHEMA_VERSION = 2
DIGITS = 6
"""Decimals of advantages and margins."""


class BranchTree(Layout):
    NAME = "branch-tree"
    VERSION = 2
    KINDS = ()
    LOSES = ("token ids and logprobs", "the agent's own tool declarations, which a branched trial does not record")

    def validate(self, row: Any) -> Iterator[str]:
        pair = isinstance(row, dict) and row.get("kind") == "branch_pair"
        shape = list(shape_faults("branch-pair-row.v2" if pair else "branch-child-row.v2", row))
        yield from shape
        if not shape:
            yield from _pair_faults(row) if pair else _child_faults(row)

    def across(self) -> Callable[[Row], Iterator[str]]:
        prefixes: dict[tuple[Any, ...], str] = {}

        def siblings(row: Row) -> Iterator[str]:
            if row["kind"] == "branch_child":
                mine = content_id(row["prefix"])
                if prefixes.setdefault((row["trial"], row["fork_id"]), mine) != mine:
                    yield "prefix: is not that of the fork's other children"

        return siblings

    def counts(self) -> RowCounts:
        return BranchCounts()


class BranchCounts(RowCounts):
    """BenchFlow's counts of a branch file: rows by kind, forks, rows whose prefix is not whole."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._forks: set[tuple[str, str]] = set()
        self._prefix_incomplete = 0

    def add(self, row: Row) -> None:
        self._kinds[row["kind"]] += 1
        self._forks.add((row["trial"], row["fork_id"]))
        self._prefix_incomplete += row["prefix_complete"] is False

    def as_json(self) -> dict[str, Any]:
        kinds = dict(sorted(self._kinds.items()))
        return {"kinds": kinds, "forks": len(self._forks), "prefix_incomplete": self._prefix_incomplete}


def child_row(trial: BranchTrial, fork: Fork, child: BranchChild, tools: Sequence[Tool]) -> Row:
    """The row of a child that was observed."""
    prefix, continuation = _chat(fork.prefix), _chat(child.messages or ())
    scored = child.reward is not None and fork.value is not None
    return {
        **_head("branch_child", trial),
        "fork_id": fork.id,
        "fork_kind": fork.kind,
        "parent_node": fork.parent_node,
        "parent_child": fork.parent_child,
        "depth": fork.depth,
        "fork_status": fork.status,
        "value": fork.value,
        "value_stderr": fork.value_stderr,
        "siblings": len(fork.children),
        "child": {
            "index": child.index,
            "node_id": child.node_id,
            "label": child.label,
            "requested": child.requested,
            "status": child.status,
            "reward": child.reward,
            "reward_source": child.reward_source,
            "path": child.path,
        },
        "advantage": round((child.reward or 0) - (fork.value or 0), DIGITS) if scored else None,
        "session": fork.session,
        "prefix_source": trial.prefix_source,
        "prefix_complete": trial.prefix_complete,
        "prefix": prefix,
        "continuation": continuation,
        "messages": prefix + continuation,
        "tools": chat_tools(tools),
        "tool_names": _names({*fork.named, *child.named}),
    }


def pair_row(trial: BranchTrial, fork: Fork, one: BranchChild, other: BranchChild, tools: Sequence[Tool]) -> Row:
    """The pair of two scored siblings whose rewards differ, the better one chosen."""
    chosen, rejected = (one, other) if (one.reward or 0) > (other.reward or 0) else (other, one)
    same = same_request(one, other)
    shared = (chosen.messages or ())[:1] if same else ()
    return {
        **_head("branch_pair", trial),
        "fork_id": fork.id,
        "parent_node": fork.parent_node,
        "depth": fork.depth,
        "session": fork.session,
        "prefix_complete": trial.prefix_complete,
        "same_request": same,
        "prompt": _chat((*fork.prefix, *shared)),
        "chosen": _chat((chosen.messages or ())[len(shared) :]),
        "rejected": _chat((rejected.messages or ())[len(shared) :]),
        "chosen_reward": chosen.reward,
        "rejected_reward": rejected.reward,
        "chosen_label": chosen.label,
        "rejected_label": rejected.label,
        "margin": round((chosen.reward or 0) - (rejected.reward or 0), DIGITS),
        "tools": chat_tools(tools),
    }


def same_request(one: BranchChild, other: BranchChild) -> bool:
    """Whether both continuations start with the same user text."""
    first, second = (child.messages[0] if child.messages else None for child in (one, other))
    return first is not None and first.role == "user" and first == second


def _head(kind: str, trial: BranchTrial) -> Row:
    identity = {"task": trial.task, "trial": trial.name, "agent": trial.agent, "model": trial.model}
    return {"kind": kind, "schema_version": SCHEMA_VERSION, **identity}


def _chat(messages: Sequence[Message]) -> list[ChatMessage]:
    return chat_messages(messages, reasoning=True)


def _names(sources: set[str]) -> str | None:
    return "mixed" if len(sources) > 1 else next(iter(sources), None)


def _child_faults(row: Row) -> Iterator[str]:
    if row["messages"] != row["prefix"] + row["continuation"]:
        yield "messages: is not prefix and continuation"
    yield from conversation_faults(row["messages"], row["tools"])
    if all(is_empty_answer(m) for m in row["continuation"] if m["role"] == "assistant"):
        yield "continuation: no assistant turn to train on"
    reward, value, advantage = row["child"].get("reward"), row["value"], row["advantage"]
    if reward is not None and value is not None:
        expected = reward - value
        if advantage is None or abs(advantage - expected) > ADVANTAGE_TOLERANCE:
            yield f"advantage: {advantage} is not {expected:.6g}, the reward above the fork's value"


def _pair_faults(row: Row) -> Iterator[str]:
    for side in ("chosen", "rejected"):
        yield from conversation_faults(row["prompt"] + row[side], row["tools"], f"prompt + {side}")
        if all(is_empty_answer(m) for m in row[side] if m["role"] == "assistant"):
            yield f"{side}: the answer is empty"
    if row["same_request"] and row["prompt"][-1]["role"] != "user":
        yield "prompt: a pair of the same request ends with the user's turn"
    if row["chosen"] == row["rejected"]:
        yield "chosen and rejected are the same"
    if row["chosen_reward"] <= row["rejected_reward"]:
        yield "chosen_reward: does not beat rejected_reward"


LAYOUT = BranchTree()
