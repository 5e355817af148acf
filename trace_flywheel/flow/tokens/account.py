"""Whether a rollout's tokens are good enough to train on: BenchFlow's summary of one capture.

A call is complete with integer prompt ids and, for its answer, ids and as many logprobs. Inside a conversation the next
prompt must start with the previous prompt and what was sampled after it, token for token. Training grade: at least one
call, all of them complete, no break.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from trace_flywheel.flow.tokens.calls import TokenCall

Thread = dict[str, Any]


def summary(calls: Sequence[TokenCall]) -> dict[str, Any]:
    """`calls, captured_calls, complete_calls, unavailable, prefix, threads, training_grade, path`."""
    captured = [call for call in calls if call.captured]
    missing: Counter[str] = Counter()
    for call in captured:
        missing.update(f"{field}:{why.get('reason', 'unknown')}" for field, why in call.unavailable.items())
        missing["logprobs:length_mismatch"] += call.mismatch
    threads = conversations(captured)
    complete = {call.index: call for call in captured if call.unusable is None}
    pairs, breaks = 0, []
    for thread in threads:
        inside = [complete[index] for index in thread["calls"] if index in complete]
        for before, after in pairwise(inside):
            pairs += 1
            if not extends(before, after):
                breaks.append(after.index)
    providers = sorted({call.provider for call in captured if call.provider})
    return {
        "calls": len(calls),
        "captured_calls": len(captured),
        "complete_calls": len(complete),
        "unavailable": {key: missing[key] for key in sorted(missing) if missing[key]},
        "prefix": {"pairs": pairs, "extends_previous_call": pairs - len(breaks), "breaks": sorted(breaks)},
        "threads": threads,
        "training_grade": bool(calls) and len(complete) == len(calls) and not breaks,
        "path": ",".join(providers) or None,
    }


def conversations(calls: Sequence[TokenCall]) -> list[Thread]:
    """Where some calls offer tools: a conversation per set of tools, and each call without any a helper of its own;
    else one chat."""
    with_tools = any(call.tools for call in calls)
    threads: list[Thread] = []
    numbers: dict[tuple[str, ...], int] = {}
    for call in calls:
        helper = with_tools and not call.tools
        if helper or call.tools not in numbers:
            kind = "helper" if helper else "agent" if with_tools else "chat"
            threads.append({"thread": len(threads), "kind": kind, "calls": []})
            if not helper:
                numbers[call.tools] = len(threads) - 1
        threads[-1 if helper else numbers[call.tools]]["calls"].append(call.index)
    return threads


def extends(before: TokenCall, after: TokenCall) -> bool:
    """Whether a prompt starts with the previous prompt and its sampled tokens. Both calls are complete."""
    prefix = [*(before.prompt or ()), *((before.choice.token_ids if before.choice else None) or ())]
    return (after.prompt or [])[: len(prefix)] == prefix
