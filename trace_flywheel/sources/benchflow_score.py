"""The score of a BenchFlow trial: its reward, who graded it, and what kind of failure ended it.

A `scoring` block, where present, decides alone: it holds only when complete, well formed and in agreement with the
rewards beside it, and anything else means unscored, never zero.
"""

import math
from typing import Any, TypeGuard

import msgspec

from trace_flywheel.records.rollout import ErrorBy, RolloutError

SCORING_KEYS = frozenset(
    {
        "schema_version",
        "policy",
        "status",
        "passed",
        "tests_pass",
        "all_blockers_pass",
        "failed_blockers",
        "verifier_reward",
        "rubric_reward",
        "reviewer_run",
        "revision",
        "error",
    }
)
SCORING_POLICY = "tests-blockers-quality-v1"
AGENT_ERRORS = frozenset({"timeout", "idle_timeout"})
INFRASTRUCTURE_ERRORS = frozenset(
    {
        "install_failure",
        "pipe_closed",
        "acp_error",
        "infra_failure",
        "sandbox_setup",
        "provider_auth",
        "provider_rate_limit",
        "provider_rejected",
        "api_error",
        "suspected_api_error",
    }
)


class Score(msgspec.Struct, frozen=True):
    reward: float | None = None
    """Finite, or None."""
    text: str | None = None
    """What the trial wrote where that is no finite number."""
    by_rubric: bool = False


def score_of(result: dict[str, Any]) -> Score:
    """The row reward: the scoring rule, else `rewards.reward`, else the top-level `reward`."""
    rewards = result.get("rewards")
    scoring = result.get("scoring")
    if scoring is not None:
        return Score(_scoring_reward(scoring, rewards), by_rubric=True)
    first = rewards.get("reward") if isinstance(rewards, dict) else None
    for value in (first, result.get("reward")):
        if _number(value):
            return Score(float(value)) if math.isfinite(value) else Score(text=_spelling(value))
    odd = first if first is not None else result.get("reward")
    return Score(text=None if odd is None else _spelling(odd))


def _scoring_reward(scoring: Any, rewards: Any) -> float | None:
    if not isinstance(scoring, dict) or scoring.keys() - SCORING_KEYS:
        return None
    if (scoring.get("schema_version"), scoring.get("policy")) != (1, SCORING_POLICY):
        return None
    if scoring.get("status") != "complete" or scoring.get("error") is not None:
        return None
    tests, blockers, passed = (scoring.get(k) for k in ("tests_pass", "all_blockers_pass", "passed"))
    verifier, rubric = scoring.get("verifier_reward"), scoring.get("rubric_reward")
    failed, reviewer = scoring.get("failed_blockers"), scoring.get("reviewer_run")
    if not (isinstance(tests, bool) and isinstance(blockers, bool) and _share(verifier) and _share(rubric)):
        return None
    if not isinstance(failed, list) or not all(isinstance(name, str) for name in failed):
        return None
    if len(set(failed)) != len(failed) or blockers != (not failed) or tests != (verifier == 1.0):
        return None
    if passed is not (tests and blockers) or not isinstance(reviewer, str) or not reviewer.strip():
        return None
    reward = float(rubric) if passed else 0.0
    implied = {"reward": reward, "verifier_reward": verifier, "rubric_reward": rubric}
    given = rewards if isinstance(rewards, dict) else {}
    for name, value in implied.items():
        if (name == "reward" or name in given) and not (_number(given.get(name)) and given[name] == value):
            return None
    return reward


def grader_of(result: dict[str, Any], rubric_sha256: str | None) -> tuple[str, str | None]:
    """(grader, version): the task's verifier by the task's digest, or the rubric by its own."""
    if score_of(result).by_rubric:
        return "benchflow-rubric", rubric_sha256
    digest = result.get("task_digest")
    return "benchflow-verifier", digest if isinstance(digest, str) else None


def error_of(result: dict[str, Any], ran: bool) -> RolloutError | None:
    """Why the trial did not end by itself. `ran`: the agent got as far as acting."""
    error, verifier_error = result.get("error"), result.get("verifier_error")
    if error:
        category = str(result.get("error_category") or "other")
        return RolloutError(category, _text(error), _by(category, ran))
    if verifier_error:
        category = str(result.get("verifier_error_category") or "verifier_other")
        return RolloutError(category, _text(verifier_error), "verifier")
    return None


def _by(category: str, ran: bool) -> ErrorBy:
    if category in AGENT_ERRORS:
        return "agent"
    if category in INFRASTRUCTURE_ERRORS:
        return "infrastructure"
    if category.startswith("verifier"):
        return "verifier"
    return "agent" if ran else "infrastructure"


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _share(value: Any) -> TypeGuard[float]:
    return _number(value) and 0 <= value <= 1


def _spelling(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def finite(value: Any) -> Any:
    """The value with every non-finite number as null."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
