"""The parts of a trial's reward, side by side: what the verifier measured, or what the rubric's criteria gave.

A rubric's vector is the tests' gate, then the criteria in the rubric's order, then checks it does not know. Criteria
that are scored count 0 to 2 halves; blockers and legacy checks are 1 or 0, anything undecided is null.
"""

import math
from typing import Any

VERIFIER = "reward = rewards.reward (as written by the verifier)"
GATED = (
    "reward = rubric_reward if tests pass and every blocker passes, else 0; "
    "rubric_reward = sum(weight * score) / sum(2 * weight) over scored criteria; values: gate = verifier reward, "
    "blocker pass = 1 / fail = 0, scored = score / 2, legacy pass = 1 / fail = 0 / not_applicable = null"
)
OUTCOMES = {"pass": 1.0, "fail": 0.0}
Component = tuple[str, str, float | None, float | None]
"""Name, kind, weight, value."""


def reward_vector_of(result: dict[str, Any], revision: dict[str, Any], rubric: dict[str, Any]) -> dict[str, Any]:
    """The vector of a scored trial; `revision` and `rubric` are the review's files, empty where there are none."""
    scoring = result.get("scoring")
    if not isinstance(scoring, dict):
        return _vector("verifier", _measured(result.get("rewards")), VERIFIER)
    gate: Component = ("tests", "gate", None, scoring.get("verifier_reward"))
    checks = revision.get("checks")
    if isinstance(checks, dict):
        told = _vector("rubric", [gate, *_criteria(checks, rubric)], GATED)
        return {**told, "revision": scoring.get("revision"), "rubric_sha256": revision.get("rubric_sha256")}
    quality: Component = ("rubric_reward", "quality", None, scoring.get("rubric_reward"))
    return {**_vector("scoring", [gate, quality], GATED), "note": "the review's revision file is missing or unreadable"}


def _vector(source: str, components: list[Component], formula: str) -> dict[str, Any]:
    names, kinds, weights, values = ([c[i] for c in components] for i in range(4))
    return {
        "source": source,
        "names": names,
        "kinds": kinds,
        "weights": weights,
        "values": values,
        "formula": formula,
    }


def _measured(rewards: Any) -> list[Component]:
    """Every finite number in the rewards, `reward` first, nested names joined by dots."""
    found = _numbers(rewards if isinstance(rewards, dict) else {}, "")
    found.sort(key=lambda item: item[0] != "reward")
    return [(name, "verifier", None, value) for name, value in found]


def _numbers(values: dict[str, Any], prefix: str) -> list[tuple[str, float]]:
    found = []
    for key, value in values.items():
        if isinstance(value, dict):
            found += _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found.append((f"{prefix}{key}", float(value)))
    return found


def _criteria(checks: dict[str, Any], rubric: dict[str, Any]) -> list[Component]:
    listed = rubric.get("criteria")
    criteria = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
    known = {str(c.get("name")): c for c in criteria}
    names = [*(name for name in known if name in checks), *(name for name in checks if name not in known)]
    return [_criterion(name, checks[name], known.get(name, {})) for name in names]


def _criterion(name: str, check: Any, criterion: dict[str, Any]) -> Component:
    given = check if isinstance(check, dict) else {}
    score = given.get("score")
    kind = criterion.get("kind") or ("scored" if score is not None else "legacy")
    if kind == "scored":
        halves = score / 2 if isinstance(score, int) and not isinstance(score, bool) and 0 <= score <= 2 else None
        return name, kind, criterion.get("weight"), halves
    return name, str(kind), None, OUTCOMES.get(str(given.get("outcome")))
