"""Where two attempts at one prompt part, and whether a preference between them means anything.

The common prefix is the prompt and the tails are the answers, so both tails must begin with an assistant turn: after
another user turn or another tool result the two answered different questions.
"""

from collections.abc import Sequence
from typing import Any

import msgspec


class Attempt(msgspec.Struct, frozen=True):
    """The messages of one attempt: role letters, hashes as recorded and hashes of the folded text."""

    roles: str
    hashes: Sequence[int]
    norms: Sequence[int]


class Refusal(msgspec.Struct, frozen=True):
    """Why two attempts make no pair: a reason of stage `pairs` and its evidence."""

    reason: str
    evidence: dict[str, Any]


def divergence(chosen: Attempt, rejected: Attempt) -> int | Refusal:
    """The number of messages shared, or `identical_responses`, or `user_divergence` (with the roles that part).

    Turns that differ in case and white space only are no difference to learn, so the first real one must stand at an
    assistant turn as well as the first literal one.
    """
    real = _first_difference(chosen.norms, rejected.norms)
    if real is None:
        return Refusal("identical_responses", {"messages": len(chosen.roles)})
    literal = _first_difference(chosen.hashes, rejected.hashes)
    assert literal is not None, "folded texts differ, so the texts do"
    for at in (literal, real):
        sides = {"chosen": _role(chosen.roles, at), "rejected": _role(rejected.roles, at)}
        if set(sides.values()) != {"a"}:
            return Refusal("user_divergence", {"message": at, "roles": sides})
    return literal


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    for i, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return i
    return None if len(left) == len(right) else min(len(left), len(right))


def _role(roles: str, at: int) -> str:
    """The letter there, `end` behind the last message."""
    return roles[at] if at < len(roles) else "end"
