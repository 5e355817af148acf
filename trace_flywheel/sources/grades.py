"""What a source wrote as verdict and reward, read without guessing: what does not count is kept as its spelling."""

import json
import math
from collections.abc import Mapping
from typing import Any

from trace_flywheel.records.rollout import Verdict

SPELLING_CHARS = 200


def reward_of(value: Any) -> tuple[float | None, str | None]:
    """(reward, what stands there when it is no finite number). A missing or null reward is (None, None)."""
    if value is None:
        return None, None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value), None
    return None, spelling(value)


def verdict_of(value: Any, verdict_map: Mapping[str, Verdict]) -> tuple[Verdict | None, str | None]:
    """(verdict, what stands there when it is none). Exactly `pass` and `fail` count, and spellings that are mapped.

    A map's key is the text itself, or the JSON spelling of a value that is no text (`true`, `1`).
    """
    if value is None:
        return None, None
    if value == "pass" or value == "fail":
        return value, None
    text = value if isinstance(value, str) else spelling(value)
    mapped = verdict_map.get(text)
    return mapped, None if mapped else spelling(value)


def passes(reward: float | None, pass_reward: float) -> Verdict | None:
    """The verdict of a verifier that writes a reward only."""
    if reward is None:
        return None
    return "pass" if reward >= pass_reward else "fail"


def spelling(value: Any) -> str:
    """The JSON spelling of a value, NaN and infinities included, cut at 200 characters."""
    return json.dumps(value, ensure_ascii=False)[:SPELLING_CHARS]
