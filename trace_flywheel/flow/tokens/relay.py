"""What a policy relay attests: that the server, the capture and the segments hold the same tokens, and which policy
served each call. Calls are matched to the relay's own records (`trajectory/policy_relay.jsonl`) by token digest.
"""

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.flow.tokens.calls import TokenCall
from trace_flywheel.sources.benchflow_folders import listing
from trace_flywheel.sources.jsonl import Line, read_lines

RELAY = "trajectory/policy_relay.jsonl"
NO_RECORD = {"status": "unavailable", "detail": "no policy relay record for this rollout"}


class Attested(msgspec.Struct, frozen=True):
    """`matched`: call to (attested, policy version); a call that the relay never saw is not attested."""

    report: dict[str, Any]
    matched: dict[int, tuple[bool, Any]]


def attested(trial: Path, calls: Sequence[TokenCall], max_line_bytes: int) -> Attested:
    """The relay's word on each call that has a digest."""
    path = trial / RELAY
    if listing(path.parent).denied or not path.is_file():
        return Attested(NO_RECORD, {})
    waiting: dict[str, deque[dict[str, Any]]] = {}
    ok = without_digest = 0
    for line in read_lines(path, trial, max_line_bytes):
        record = line.value if isinstance(line, Line) else None
        if not isinstance(record, dict) or record.get("status") != "ok":
            continue
        ok += 1
        digest = record.get("digest")
        if isinstance(digest, str) and digest:
            waiting.setdefault(digest, deque()).append(record)
        else:
            without_digest += 1
    matched: dict[int, tuple[bool, Any]] = {}
    for call in calls:
        if call.failed or call.digest is None:
            continue
        known = waiting.get(call.digest)
        matched[call.index] = (True, known.popleft().get("version")) if known else (False, None)
    mismatched = [index for index, (sure, _) in matched.items() if not sure]
    relay_only = sum(map(len, waiting.values()))
    report = {
        **_verdict(len(mismatched), relay_only, without_digest),
        "relay_calls": ok,
        "matched": len(matched) - len(mismatched),
        "mismatched_calls": mismatched,
        "relay_only": relay_only,
        "relay_without_digest": without_digest,
    }
    return Attested(report, matched)


def _verdict(mismatched: int, relay_only: int, without_digest: int) -> dict[str, Any]:
    if mismatched:
        return {"status": "mismatch", "detail": f"{mismatched} captured call(s) hold tokens that no relay record has"}
    if relay_only:
        return {"status": "partial", "detail": f"{relay_only} relay record(s) have no captured call"}
    if without_digest:
        return {"status": "partial", "detail": f"{without_digest} relay record(s) came without complete tokens"}
    return {"status": "attested", "detail": "every captured call is the one that the relay recorded"}
