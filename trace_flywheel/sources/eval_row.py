"""One graded trace of an eval harness: a JSON object with `trace_id`, `task_id` and `messages` in OpenAI chat form.

Everything else is optional and nothing is guessed: exactly `pass` passes, a reward is a finite number, and other
spellings are kept as evidence. A key that has a meaning here and a value that cannot have it refuses the row; keys
without one are kept in `metadata`, and in a message's `extra`. An empty `messages` is an attempt that never ran.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Correction, Rollout, RolloutError, Source, Verdict
from trace_flywheel.sources.corrections import correction_of
from trace_flywheel.sources.grades import reward_of, spelling, verdict_of
from trace_flywheel.sources.pairing import pair
from trace_flywheel.sources.reader import Run, job_of, text_or_none
from trace_flywheel.sources.wires.acp import inferred_tools
from trace_flywheel.sources.wires.openai_chat import message_of, tools_of
from trace_flywheel.sources.wires.parts import WireError

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
TRUNCATED = frozenset({"length", "max_tokens"})
VECTOR = "reward_vector is an object of numbers by name, or lists of names and of as many values, each a number or null"
_MESSAGE_KEYS = frozenset(
    {
        *("role", "content", "refusal", "reasoning", "reasoning_content", "name", "is_error", "train_on"),
        *("tool_calls", "function_call", "tool_call_id", "token_ids", "logprobs"),
    }
)
_TEXT_KEYS = _MESSAGE_KEYS - {"train_on", "token_ids", "logprobs"}
"""Keys of a message that `message_of` reads whole."""
_ROW_KEYS = frozenset(
    {
        *("trace_id", "task_id", "messages", "tools", "task_digest", "suite", "agent", "agent_version", "model"),
        *("policy_version", "session_id", "started_at", "finished_at", "sampling", "stop_reason", "is_truncated"),
        *("verdict", "reward", "rewards", "reward_range", "reward_vector", "judge_score", "grader", "grader_version"),
        *("step_verdicts", "correction", "run_id", "error", "token_usage", "usage", "metadata"),
    }
)


class RowError(ValueError):
    """A row that cannot be read; `reason` is one of stage `read`."""

    def __init__(self, text: str, reason: str = "unknown_shape") -> None:
        super().__init__(text)
        self.reason = reason


def rollout_of(row: Any, run: Run, source: Source, verdict_map: Mapping[str, Verdict]) -> Rollout:
    """The rollout of a row. Raises `RowError`."""
    if not isinstance(row, dict):
        raise RowError(f"a row is an object, not {type(row).__name__}")
    messages = _messages(row.get("messages"))
    verdict, verdict_text = verdict_of(row.get("verdict"), verdict_map)
    reward, reward_text = reward_of(row.get("reward"))
    stop_reason = text_or_none(row.get("stop_reason"))
    return Rollout(
        run_id=run.run_id,
        trace_id=_id(row, "trace_id"),
        task_id=_id(row, "task_id"),
        source=source,
        messages=messages,
        tools=tools_of(row.get("tools")) or inferred_tools(messages),
        task_digest=text_or_none(row.get("task_digest")),
        suite=text_or_none(row.get("suite")),
        agent=text_or_none(row.get("agent")),
        agent_version=_text(row.get("agent_version")),
        model=text_or_none(row.get("model")),
        policy_version=_text(row.get("policy_version")),
        job=job_of(run),
        session_id=_text(row.get("session_id")),
        started_at=_text(row.get("started_at")),
        finished_at=_text(row.get("finished_at")),
        sampling=_object(row, "sampling"),
        stop_reason=stop_reason,
        is_truncated=row.get("is_truncated") is True or stop_reason in TRUNCATED,
        never_called=not any(message.role == "assistant" for message in messages),
        verdict=verdict,
        verdict_text=verdict_text,
        reward=reward,
        reward_text=reward_text,
        rewards=_object(row, "rewards"),
        reward_range=_range(row.get("reward_range")),
        reward_vector=_vector(row.get("reward_vector")),
        judge_score=reward_of(row.get("judge_score"))[0],
        grader=text_or_none(row.get("grader")),
        grader_version=_text(row.get("grader_version")),
        step_verdicts=_step_verdicts(row.get("step_verdicts")),
        correction=_correction(row.get("correction")),
        source_run_id=_text(row.get("run_id")),
        error=_error(row.get("error")),
        token_usage=_object(row, "token_usage") or _object(row, "usage"),
        metadata=_metadata(row),
    )


def identity_of(row: Any) -> dict[str, str | None]:
    """What a drop can say about a row: trace, task, agent and model as far as they are there."""
    known = row if isinstance(row, dict) else {}
    return {key: _text(known.get(key)) for key in ("trace_id", "task_id", "agent", "model")}


def _id(row: dict[str, Any], key: str) -> str:
    text = _text(row.get(key))
    if text is None:
        raise RowError(f"a row needs {key}, a text")
    return text


def _messages(items: Any) -> tuple[Message, ...]:
    if not isinstance(items, list):
        raise RowError("a row needs messages, an array")
    messages = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict) or item.get("role") not in ROLES:
            role = spelling(item.get("role")) if isinstance(item, dict) else "none"
            raise RowError(f"message {number}: role {role} is not one of {', '.join(sorted(ROLES))}")
        try:
            messages.append(_with_tokens(message_of(item), item))
        except WireError as error:
            raise RowError(f"message {number}: {error}") from None
    found = pair(messages, repair=False)
    if found.orphans:
        raise RowError(f"message {found.orphans[0] + 1}: a tool result without an open call", "orphan_tool_result")
    return found.messages


class _Tokens(msgspec.Struct, omit_defaults=True):
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


def _with_tokens(message: Message, item: dict[str, Any]) -> Message:
    """The message with what the row records beside its text; tokens in another form than lists stay in `extra`."""
    if item.keys() <= _TEXT_KEYS:
        return message
    extra = {key: value for key, value in item.items() if key not in _MESSAGE_KEYS}
    try:
        tokens = msgspec.convert(item, _Tokens)
    except msgspec.ValidationError:
        tokens = _Tokens()
        extra |= {key: item[key] for key in _Tokens.__struct_fields__ if item.get(key) is not None}
    train_on = item.get("train_on")
    return msgspec.structs.replace(
        message,
        token_ids=tokens.token_ids,
        logprobs=tokens.logprobs,
        train_on=train_on if message.role == "assistant" and isinstance(train_on, bool) else None,
        extra=extra or None,
    )


def _step_verdicts(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise RowError("step_verdicts is an array with one verdict per assistant message")
    return tuple(step if isinstance(step, str) else spelling(step) for step in value)


def _correction(value: Any) -> Correction | None:
    if value is None:
        return None
    correction = correction_of(value)
    if correction is None:
        raise RowError("a correction is an object with content, a text, and perhaps turn, a count from 0")
    return correction


def _error(value: Any) -> RolloutError | None:
    if isinstance(value, str) and value:
        return RolloutError("error", value)
    if value is None or value == "":
        return None
    try:
        return msgspec.convert(value, RolloutError)
    except msgspec.ValidationError as fault:
        raise RowError(f"error is a text or an object of category, text and by: {fault}") from None


def _metadata(row: dict[str, Any]) -> dict[str, Any] | None:
    own = _object(row, "metadata") or {}
    return {**own, **{key: value for key, value in row.items() if key not in _ROW_KEYS}} or None


def _object(row: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = row.get(key)
    return value if isinstance(value, dict) and value else None


def _vector(value: Any) -> dict[str, Any] | None:
    """Parts of a reward in BenchFlow's form: recorded as `names` beside `values`, or as a plain object of numbers."""
    if value is None or value == {}:
        return None
    if not isinstance(value, dict):
        raise RowError(VECTOR)
    vector = value if "names" in value else {"names": sorted(value), "values": [value[name] for name in sorted(value)]}
    names, values = vector["names"], vector.get("values")
    if not (isinstance(names, list) and isinstance(values, list) and len(names) == len(values)):
        raise RowError(VECTOR)
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise RowError(VECTOR)
    read = [reward_of(part) for part in values]
    if any(spelt is not None and not isinstance(part, float) for part, (_, spelt) in zip(values, read, strict=True)):
        raise RowError(VECTOR)
    filled = {"kinds": ["verifier"] * len(names), "weights": [None] * len(names)}
    told = {"source": "verifier", **filled, "formula": "as recorded", **vector}
    return {**told, "values": [number for number, _ in read]}


def _range(value: Any) -> tuple[float, float] | None:
    ends = [reward_of(end)[0] for end in value] if isinstance(value, list) and len(value) == 2 else []
    low, high = ends if ends else (None, None)
    return None if low is None or high is None else (low, high)


def _text(value: Any) -> str | None:
    """A text, or a number's spelling (versions and times are written either way)."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return spelling(value)
    return text_or_none(value)
