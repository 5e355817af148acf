"""What a conversion tells about itself: BenchFlow's counters under its names, and every rollout that gave no row.

The manifest holds no clock and no machine: the same inputs, settings and version give the same bytes.
"""

from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import orjson

from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.flow.conversion.rollout import CONVERT, TORN, Outcome, Refusal
from trace_flywheel.redaction.policy import Policy

SKIPPED = ("terminal_error", "reward", "no_trajectory", "provider_error", "no_assistant", "invalid", TORN)
"""Reasons that are counted, as `skipped_<reason>`; BenchFlow counts all but the last."""


class Tally:
    """Counts as outcomes come; identities and reasons are kept, rows never."""

    def __init__(self, format: str) -> None:
        self.format = format
        self.rollouts = 0
        """Read or unreadable, those without a `result.json` too."""
        self.without_result = 0
        self.converted = 0
        self.rows = 0
        self.rows_with_calls = 0
        self.counts: dict[str, int] = {}
        self.redactions: dict[str, int] = {}
        self.sources: list[str] = []
        self.inputs: list[dict[str, Any]] = []
        self._files: dict[str, dict[str, Any]] = {}
        """Of them those that hold many rollouts, by path."""
        self.windowed = False
        """Rows say in `context_window` what a message window took from them."""
        self.window = {"rows_compacted": 0, "messages_dropped": 0, "max_original_tokens": 0, "max_final_tokens": 0}
        self.drops: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self.group_by: tuple[str, ...] = ()
        self.normalisation: str | None = None
        self.eps = 0.0
        self.existing: tuple[str, ...] = ()
        """Corpora that rows were held against, with their digests."""

    @property
    def seen(self) -> int:
        """BenchFlow's `rollouts_seen`: it does not see a trial without `result.json`."""
        return self.rollouts - self.without_result

    def reasons(self) -> str:
        """Why rollouts and conversations gave no row, the most frequent first: `reward 3, no_trajectory 1`."""
        counts = Counter(drop["reason"] for drop in self.drops)
        return ", ".join(f"{reason} {n}" for reason, n in sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def file(self, path: str) -> dict[str, Any]:
        """A file of rows as an input, whose rows are counted as they come; its digest is for the caller to add."""
        told = self._files[path] = {"path": path, "sha256": "", "rows": 0}
        self.inputs.append(told)
        return told

    def add(self, outcome: Outcome) -> None:
        """Count one rollout."""
        self.rollouts += outcome.is_rollout
        self.rows += len(outcome.rows)
        self.rows_with_calls += outcome.rows_with_calls
        self.converted += bool(outcome.rows)
        for name, number in (
            ("exchanges_seen", outcome.exchanges),
            ("skipped_helper_calls", outcome.helpers),
            ("subagent_exchanges_seen", outcome.subagents),
        ):
            self._count(name, number)
        for row in outcome.rows if self.windowed else ():
            self._cut(orjson.loads(row)["context_window"])
        for rule, number in outcome.redactions.items():
            self.redactions[rule] = self.redactions.get(rule, 0) + number
        if outcome.source_path is not None:
            self.sources += [outcome.source_path] * len(outcome.rows)
            if outcome.source_path in self._files:
                self._files[outcome.source_path]["rows"] += len(outcome.rows)
            elif outcome.sha256:
                self.inputs.append({"path": outcome.source_path, "sha256": outcome.sha256, "rows": len(outcome.rows)})
        for refusal in (outcome.refusal, *outcome.refused):
            if refusal is not None:
                self._refused(outcome, refusal)

    def _refused(self, outcome: Outcome, refusal: Refusal) -> None:
        if refusal.stage == CONVERT:
            self._count(f"skipped_{refusal.reason}", 1)
            if refusal.reason == "provider_error":
                self._count("skipped_exchanges_provider_error", outcome.failed_exchanges)
        elif outcome.unreadable and outcome.is_rollout:
            self.without_result += refusal.reason == "missing_result"
            self._count("skipped_no_result", refusal.reason != "missing_result")
        drop = {"rollout": outcome.path, "run_id": outcome.run_id, "trace_id": outcome.trace_id}
        drop["source_path"] = outcome.source_path
        self.drops.append({**drop, **msgspec.to_builtins(refusal)})

    def _cut(self, told: dict[str, Any]) -> None:
        window = self.window
        window["rows_compacted"] += told["messages_dropped"] > 0
        window["messages_dropped"] += told["messages_dropped"]
        for end in ("original", "final"):
            window[f"max_{end}_tokens"] = max(window[f"max_{end}_tokens"], told[f"{end}_tokens"])

    def _count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def manifest(self, request: Request) -> dict[str, Any]:
        """The manifest document."""
        missing = "skipped_missing_tools" if self.format == "trl-sft" else "skipped_missing_tool_defs"
        counters = {f"skipped_{reason}": self.counts.get(f"skipped_{reason}", 0) for reason in SKIPPED}
        document: dict[str, Any] = {
            "manifest_version": 1,
            "format": self.format,
            "version": code_version(),
            "settings": {**settings_of(request), "dedup_against": list(self.existing)},
            "rollouts": {"in": self.rollouts, "converted": self.converted, "dropped": self.rollouts - self.converted},
            "rollouts_seen": self.seen,
            "exchanges_seen": self.counts.get("exchanges_seen", 0),
            "rows_written": self.rows,
            "rows_with_tool_calls": self.rows_with_calls,
            **counters,
            missing: self.counts.get("skipped_missing_tool_defs", 0),
            "skipped_no_result": self.counts.get("skipped_no_result", 0),
            "skipped_exchanges_provider_error": self.counts.get("skipped_exchanges_provider_error", 0),
            "skipped_helper_calls": self.counts.get("skipped_helper_calls", 0),
            **(self.window if self.format == "trl-sft" else {}),
            "sources": self.sources,
            "inputs": self.inputs,
            "drops": self.drops,
            "redactions": self.redactions,
        }
        if self.normalisation is not None:
            document["training_signal"] = {
                "reward_vector": request.reward_vector,
                "group_advantage": self.normalisation,
                "group_by": list(self.group_by),
                "std_ddof": 1,
                "eps": self.eps,
                "groups": self.groups,
            }
        return document


def write_manifest(path: Path, tally: Tally, request: Request) -> None:
    """Write the manifest, keys sorted, as BenchFlow does."""
    with replaced(path) as file:
        file.write(orjson.dumps(tally.manifest(request), option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n")


def settings_of(request: Request) -> dict[str, Any]:
    """What decided about the rows, as plain data."""
    return {
        "row_mode": request.choice.row_mode,
        "context": request.choice.context,
        "include_helpers": request.choice.helpers,
        "include_subagents": request.choice.subagents,
        "min_reward": request.min_reward,
        "group_advantage": request.group_advantage,
        "group_by": list(request.group_by),
        "reward_vector": request.reward_vector,
        "redaction": redaction_of(request.pii),
        "pass_reward": request.options.pass_reward,
        "policy_version": request.policy_version,
        "window": None if request.window is None else msgspec.to_builtins(request.window),
    }


def redaction_of(pii: Policy | str | None) -> str | None:
    """What is redacted, by the name of its setting; None where nothing is."""
    return pii.pii if isinstance(pii, Policy) else pii


def code_version() -> str:
    """Version of the installed package; `unknown` in a checkout that is not installed."""
    try:
        return version("trace-flywheel")
    except PackageNotFoundError:
        return "unknown"
