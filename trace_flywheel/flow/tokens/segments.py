"""Exact token segments of one rollout: spans in which every prompt extends the previous prompt and sampled tokens.

What breaks a conversation is named, never dropped in silence: `rerender` (the previous prompt stands, the sampled turn
was rewritten), `compaction` (the history before it was), `after_dropped_call` (a call whose tokens cannot be used). A
failed call is never part of a segment. Masks are 1 for sampled tokens, 0 for what the environment added, whose logprob
is 0.0. Helpers and compaction calls are told but not trained on.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from trace_flywheel.flow.tokens.calls import TokenCall

TOKEN_SEGMENTS = "benchflow.token-segments.v1"
TRAINABLE = frozenset({"agent", "subagent", "chat"})
HELPERS = frozenset({"title", "summary", "helper"})


class Segment(msgspec.Struct):
    """One open span. Lists grow together: `completion_ids`, `action_mask` and `logprobs` have one length."""

    thread: int
    kind: str
    start: dict[str, Any] | None
    prompt_ids: list[int]
    last_prompt: int = 0
    """Length of the last call's prompt."""
    completion_ids: list[int] = []
    action_mask: list[int] = []
    logprobs: list[float] = []
    calls: list[int] = []
    spans: list[dict[str, int]] = []
    routing: list[dict[str, Any]] = []

    def add(self, call: TokenCall) -> None:
        """The tokens that the prompt adds to what is known, then the sampled ones. The prompt extends the segment."""
        prompt, choice = call.prompt or [], call.choice
        sampled = (choice.token_ids if choice else None) or []
        added = prompt[len(self.prompt_ids) + len(self.completion_ids) :]
        offset = len(self.completion_ids) + len(added)
        self.completion_ids += [*added, *sampled]
        self.action_mask += [0] * len(added) + [1] * len(sampled)
        self.logprobs += [0.0] * len(added) + [float(p) for p in (choice.logprobs if choice else None) or []]
        self.calls.append(call.index)
        self.spans.append({"call": call.index, "offset": offset, "length": len(sampled)})
        self.last_prompt = len(prompt)
        if choice is not None and choice.routing is not None:
            length = len(prompt) + len(sampled)
            self.routing.append({"call": call.index, "sequence_length": length, **choice.routing})

    def departs(self, prompt: list[int]) -> str | None:
        """Why a prompt does not extend this segment; None when it does."""
        so_far = [*self.prompt_ids, *self.completion_ids]
        if prompt[: len(so_far)] == so_far:
            return None
        return "rerender" if prompt[: self.last_prompt] == so_far[: self.last_prompt] else "compaction"


class Account(msgspec.Struct):
    """A rollout's segments in the order of their first calls, and what became of every call."""

    threads: list[dict[str, Any]]
    kinds: dict[int, tuple[str, int]]
    """Call to its thread's kind and number; failed calls have none."""
    segments: list[Segment]
    dropped: list[dict[str, Any]]


def account_of(calls: Sequence[TokenCall]) -> Account:
    """Conversations and segments of a rollout's calls."""
    threads = _threads([call for call in calls if not call.failed])
    by_index = {call.index: call for call in calls}
    kinds = {index: (thread["kind"], thread["thread"]) for thread in threads for index in thread["calls"]}
    segments: list[Segment] = []
    dropped: list[dict[str, Any]] = []
    for thread in threads:
        current: Segment | None = None
        start: dict[str, Any] | None = None
        for index in thread["calls"]:
            call = by_index[index]
            if (reason := call.unusable) is not None:
                dropped.append({"call": index, "reason": reason})
                current, start = None, {"reason": "after_dropped_call", "call": index}
                continue
            departure = current.departs(call.prompt or []) if current is not None else None
            if current is not None and departure is not None:
                start = {"reason": departure, "call": current.calls[-1]}
            if current is None or departure is not None:
                current = Segment(thread["thread"], thread["kind"], start, list(call.prompt or []))
                segments.append(current)
                start = None
            current.add(call)
    segments.sort(key=lambda segment: segment.calls[0])
    return Account(threads, kinds, segments, sorted(dropped, key=lambda drop: drop["call"]))


def _threads(calls: Sequence[TokenCall]) -> list[dict[str, Any]]:
    """Conversations by recorded purpose and set of tools: the first set is the agent's, another a sub-agent's."""
    agentic = any(call.tools for call in calls if call.purpose not in HELPERS | {"compaction"})
    numbers: dict[tuple[str, ...], int] = {}
    threads: list[dict[str, Any]] = []
    for call in calls:
        shared = False
        if call.purpose == "compaction":
            kind = "compaction"
        elif call.purpose in HELPERS or (agentic and not call.tools):
            kind = "helper"
        else:
            shared = True
            kind = "chat" if not agentic else "subagent" if numbers and call.tools not in numbers else "agent"
        key = call.tools if agentic else ()
        if shared and key in numbers:
            threads[numbers[key]]["calls"].append(call.index)
            continue
        if shared:
            numbers[key] = len(threads)
        threads.append({"thread": len(threads), "kind": kind, "calls": [call.index]})
    return threads


def segment_digest(segment: Segment) -> str:
    """`sha256:` over the compact JSON of the four token lists, which a trainer can recompute."""
    lists = {name: getattr(segment, name) for name in ("prompt_ids", "completion_ids", "action_mask", "logprobs")}
    return f"sha256:{hashlib.sha256(json.dumps(lists, separators=(',', ':')).encode()).hexdigest()}"


def sequences(account: Account) -> list[dict[str, Any]] | None:
    """One merged sequence per conversation; None where a conversation is not one unbroken span."""
    merged = []
    for thread in account.threads:
        spans = [s for s in account.segments if s.thread == thread["thread"]]
        if len(spans) != 1 or spans[0].calls != thread["calls"]:
            return None
        merged.append(
            {
                "thread": thread["thread"],
                "kind": thread["kind"],
                "calls": thread["calls"],
                "prompt_ids": spans[0].prompt_ids,
                "completion_ids": spans[0].completion_ids,
                "completion_mask": spans[0].action_mask,
                "completion_logprobs": spans[0].logprobs,
            }
        )
    return merged
