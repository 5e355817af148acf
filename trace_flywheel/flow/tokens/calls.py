"""The model calls of one trial as token exports see them: structure from the capture, tokens only through redaction.

Token ids and logprobs decode to text, so none is taken from the raw capture: a call's tokens are those that its
redacted exchange still has, and of its choices the first, the only one whose text redaction saw. What is missing for
that reason says so under `unavailable` (`redacted`); a rollout that could not be made safe keeps no tokens at all.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sources.capture import Call, Capture, RawFaultError, parsed, parsed_tools

TOKEN_CAPTURE = "benchflow.token_capture.v1"
REDACTED = {"reason": "redacted", "detail": "these tokens spell text that was redacted"}
NOT_TAKEN = {"reason": "redacted", "detail": "the call's text could not be read, so nothing vouches for its tokens"}


class Choice(msgspec.Struct, frozen=True):
    """The sampled answer. Lists are None where the provider gave none or something else than numbers."""

    token_ids: list[int] | None
    logprobs: list[Any] | None
    routing: dict[str, Any] | None = None


class TokenCall(msgspec.Struct, frozen=True):
    """One recorded call. `captured`: it carries a token-capture block."""

    index: int
    purpose: str = "agent"
    tools: tuple[str, ...] = ()
    failed: bool = False
    retry_of: int | None = None
    retried_by: int | None = None
    captured: bool = False
    provider: str | None = None
    prompt: list[int] | None = None
    choice: Choice | None = None
    unused_choices: int = 0
    unavailable: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    digest: str | None = None

    @property
    def mismatch(self) -> bool:
        """Whether ids and logprobs are both there and of different length."""
        choice = self.choice
        if choice is None or choice.token_ids is None or choice.logprobs is None:
            return False
        return len(choice.token_ids) != len(choice.logprobs)

    @property
    def unusable(self) -> str | None:
        """Why the call's tokens cannot be trained on; None when they can."""
        if not self.captured:
            return "no_token_capture"
        if self.choice is None and not self.unavailable:
            return "no_choices"
        for field in ("prompt_token_ids", "completion_token_ids", "logprobs"):
            if field in self.unavailable:
                return f"{field}:{self.unavailable[field].get('reason', 'unknown')}"
        if self.prompt is None:
            return "prompt_token_ids:missing"
        if self.choice is None or self.choice.token_ids is None:
            return "completion_token_ids:missing"
        if self.choice.logprobs is None:
            return "logprobs:missing"
        if self.mismatch:
            return "logprobs:length_mismatch"
        return None if all(map(_is_number, self.choice.logprobs)) else "logprobs:not_numeric"


def token_calls(capture: Capture, safe: Rollout | None) -> list[TokenCall]:
    """All calls of the capture, failed ones too, in its order. `safe` is the redacted rollout, None where there is
    none that may leave."""
    kept = {e.index: e.token_capture for e in safe.exchanges} if safe is not None else {}
    retry_of = {f.retried_by: f.index for f in capture.failures if f.retried_by is not None}
    calls = [TokenCall(f.index, f.purpose or "agent", failed=True, retried_by=f.retried_by) for f in capture.failures]
    for call in capture.calls:
        known = TokenCall(call.index, call.purpose or "agent", _tool_names(call), retry_of=retry_of.get(call.index))
        recorded = _block(call)
        calls.append(known if recorded is None else _with_tokens(known, recorded, kept.get(call.index)))
    return sorted(calls, key=lambda call: call.index)


def token_digest(prompt: list[int] | None, choice: Choice | None) -> str:
    """`sha256:` over the compact JSON that BenchFlow digests, of one choice."""
    completions = []
    if choice is not None:
        completions = [{"index": 0, "token_ids": choice.token_ids, "logprobs": choice.logprobs}]
    text = json.dumps({"prompt_token_ids": prompt, "completions": completions}, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _block(call: Call) -> dict[str, Any] | None:
    try:
        value = parsed(call.token_capture, call.line)
    except RawFaultError:
        return None
    return value if isinstance(value, dict) and value.get("schema_version") == TOKEN_CAPTURE else None


def _with_tokens(call: TokenCall, recorded: Mapping[str, Any], kept: Mapping[str, Any] | None) -> TokenCall:
    """The call with what is left of its block; `kept` is None where no redacted exchange vouches for it."""
    left = kept or {}
    unavailable = {str(field): why for field, why in _mapping(left.get("unavailable")).items() if isinstance(why, dict)}
    withheld = NOT_TAKEN if kept is None else REDACTED
    for key, fields in (
        ("prompt_token_ids", ("prompt_token_ids",)),
        ("completions", ("completion_token_ids", "logprobs")),
    ):
        if recorded.get(key) and not left.get(key):
            unavailable |= dict.fromkeys(fields, withheld)
    completions = left.get("completions")
    listed = completions if isinstance(completions, list) else []
    choice = _choice(listed[0]) if listed else None
    prompt = _integers(left.get("prompt_token_ids"))
    provider, digest = recorded.get("provider"), left.get("digest")
    told = msgspec.structs.replace(
        call,
        captured=True,
        provider=provider if isinstance(provider, str) else None,
        prompt=prompt,
        choice=choice,
        unused_choices=max(len(listed) - 1, 0),
        unavailable=unavailable,
    )
    if not isinstance(digest, str):  # captures written before there were digests
        digest = token_digest(prompt, choice) if len(listed) == 1 and told.unusable is None else None
    return msgspec.structs.replace(told, digest=digest)


def _choice(value: Any) -> Choice | None:
    if not isinstance(value, dict):
        return None
    logprobs, routing = value.get("logprobs"), value.get("routing")
    return Choice(
        _integers(value.get("token_ids")),
        logprobs if isinstance(logprobs, list) else None,
        routing if isinstance(routing, dict) and routing else None,
    )


def _tool_names(call: Call) -> tuple[str, ...]:
    tools = parsed_tools(call.tools)
    names = []
    for tool in tools if isinstance(tools, list) else ():
        declared = tool if isinstance(tool, dict) else {}
        name = _mapping(declared.get("function")).get("name") or declared.get("name")
        if name:
            names.append(str(name))
    return tuple(sorted(names))


def _integers(value: Any) -> list[int] | None:
    if not isinstance(value, list) or not all(type(v) is int for v in value):
        return None
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
