"""Branched trials to child rows and sibling pairs: sources, redaction, goldens, layout.

A fork is redacted as one text, so that siblings keep the same prefix and a value found in one child is gone from all.
A tree that cannot be read is told and the rest is converted; in strict mode it ends the conversion.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import orjson

from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.conversion.convert import Warn
from trace_flywheel.flow.conversion.eval_goldens import goldens_told
from trace_flywheel.flow.conversion.manifest import code_version, redaction_of
from trace_flywheel.flow.conversion.rollout import MAX_FAULTS, joined
from trace_flywheel.flow.outputs import written
from trace_flywheel.records.branch import BranchChild, BranchTrial, Fork
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources.benchflow_tree import every_tree, read_branches
from trace_flywheel.sources.jsonl import Fault
from trace_flywheel.sources.reader import Run
from trace_flywheel.sources.wires.acp import inferred_tools
from trace_flywheel.trainers.branch_tree import LAYOUT, child_row, pair_row, same_request

ORACLE = "oracle"


class Request(msgspec.Struct, frozen=True):
    """What `convert --format branch-tree` was asked for; fields as in the common request."""

    paths: tuple[Path, ...]
    out: Path
    pairs: Path | None = None
    any_request: bool = False
    """Also pair siblings that were asked different things."""
    include_oracle: bool = False
    min_reward: float | None = None
    expected_rows: int | None = None
    pii: Policy | str | None = "standard"
    strict: bool = False
    goldens: tuple[Path, ...] = ()
    overlap: float = 0.5
    max_line_bytes: int = 64_000_000


class Counts(msgspec.Struct):
    """BenchFlow's counters of a branch export, and beside them every row that was not written, with the reason."""

    trials: int = 0
    forks: int = 0
    child_rows: int = 0
    pair_rows: int = 0
    unscored_children: int = 0
    missing_observations: int = 0
    skipped_oracle: int = 0
    below_min_reward: int = 0
    pairs_skipped_different_request: int = 0
    drops: list[dict[str, Any]] = []
    inputs: list[dict[str, Any]] = []


def convert_branches(request: Request, warn: Warn = lambda text: None) -> Counts:
    """Write the child rows, and the pairs where asked. Raises `FlywheelError`, with nothing written, where there is no
    tree, an output is an input or a folder, or the number of child rows is not the expected one."""
    missing = [path for path in request.paths if not path.is_dir()]
    if missing:
        raise FlywheelError(f"{missing[0]}: no such folder; give job folders with branched trials")
    if request.pairs is not None and request.pairs.resolve() == request.out.resolve():
        raise FlywheelError(f"{request.pairs}: is --out; give --pairs another name")
    roots = {path.resolve(): str(path) for path in request.paths}
    found = list(every_tree(list(roots)))
    if not found:
        raise FlywheelError(f"{', '.join(map(str, request.paths))}: no tree.json found here; nothing was branched")
    counts = Counts()
    runs = [Run(root.name, "benchflow", root, root) for root in roots]
    job = _Job(request, counts, goldens_told(request.goldens, request.pii, runs))
    with written(request.out) as children:
        if request.pairs is None:
            _write(found, roots, job, children, None, warn)
        else:
            with replaced(request.pairs) as pairs:
                _write(found, roots, job, children, pairs, warn)
    return counts


def write_manifest(path: Path, counts: Counts, request: Request) -> None:
    """The counts with settings and version, as JSON, keys sorted."""
    document = {
        "manifest_version": 1,
        "format": LAYOUT.NAME,
        "version": code_version(),
        "settings": {
            "pairs": request.pairs is not None,
            "pairs_any_request": request.any_request,
            "include_oracle": request.include_oracle,
            "min_reward": request.min_reward,
            "redaction": redaction_of(request.pii),
        },
        **msgspec.to_builtins(counts),
    }
    with replaced(path) as file:
        file.write(orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n")


def _write(
    found: Sequence[tuple[Path, Path]],
    roots: dict[Path, str],
    job: "_Job",
    children: BinaryIO,
    pairs: BinaryIO | None,
    warn: Warn,
) -> None:
    for root, tree in found:
        told = joined(roots[root], tree.relative_to(root).as_posix())
        trial = read_branches(tree, root, job.request.max_line_bytes)
        if isinstance(trial, Fault):
            if job.request.strict:
                raise FlywheelError(f"{told}: {trial.reason} ({trial.text}); without --strict the rest is converted")
            warn(f"not converted: {told}: {trial.reason} ({trial.text})")
            job.counts.drops.append({"tree": told, "reason": trial.reason, "evidence": trial.evidence()})
            continue
        job.counts.trials += 1
        job.counts.inputs.append({"path": told, "sha256": trial.sha256})
        for fork in trial.forks:
            job.counts.forks += 1
            job.fork(trial, fork, told, children, pairs)
    rows, expected = job.counts.child_rows, job.request.expected_rows
    if expected is not None and rows != expected:
        raise FlywheelError(f"row count {rows} != expected {expected}; nothing written")


class _Job:
    """One conversion's rules and counts."""

    def __init__(self, request: Request, counts: Counts, goldens: tuple[Golden, ...]) -> None:
        self.request, self.counts, self.goldens = request, counts, goldens

    def fork(self, trial: BranchTrial, fork: Fork, told: str, children: BinaryIO, pairs: BinaryIO | None) -> None:
        """Write the fork's rows."""
        about = {"tree": told, "fork_id": fork.id}
        observed = [child for child in fork.children if child.messages is not None]
        unseen = [child for child in fork.children if child.messages is None]
        self.counts.missing_observations += len(unseen)
        self.counts.unscored_children += sum(child.reward is None for child in fork.children)
        if trial.agent == ORACLE and not self.request.include_oracle:
            self.counts.skipped_oracle += len(fork.children)
            for child in fork.children:
                self._drop(about, child, "oracle", {"agent": trial.agent})
            return
        for child in unseen:
            self._drop(about, child, "missing_observation", {})
        safe = _redacted(trial, fork, observed, self.request.pii)
        if isinstance(safe, Drop):
            self.counts.drops.append({**about, "reason": safe.reason, "evidence": safe.evidence})
            return
        kept = [child for child in safe.children if self._not_golden(trial, safe, child, about)]
        for child in kept:
            floor = self.request.min_reward
            if floor is not None and (child.reward is None or child.reward < floor):
                self.counts.below_min_reward += 1
                self._drop(about, child, "reward", {"reward": child.reward, "min_reward": floor})
                continue
            tools = inferred_tools((*safe.prefix, *(child.messages or ())))
            row = child_row(trial, safe, child, tools)
            self.counts.child_rows += self._put(row, children, {**about, "child": child.node_id})
        if pairs is not None:
            for row, names in self._pairs(trial, safe, kept, told):
                self.counts.pair_rows += self._put(row, pairs, {**about, "pair": names})

    def _pairs(
        self, trial: BranchTrial, fork: Fork, children: Sequence[BranchChild], told: str
    ) -> Iterator[tuple[dict[str, Any], list[str]]]:
        scored = [child for child in children if child.reward is not None]
        for one, other in combinations(scored, 2):
            if one.reward == other.reward:
                continue
            if not same_request(one, other) and not self.request.any_request:
                self.counts.pairs_skipped_different_request += 1
                drop = {"tree": told, "fork_id": fork.id, "pair": [one.node_id, other.node_id]}
                self.counts.drops.append({**drop, "reason": "different_request", "evidence": {}})
                continue
            tools = inferred_tools((*fork.prefix, *(one.messages or ()), *(other.messages or ())))
            yield pair_row(trial, fork, one, other, tools), [one.node_id, other.node_id]

    def _put(self, row: dict[str, Any], file: BinaryIO, about: dict[str, Any]) -> bool:
        faults = list(LAYOUT.validate(row))
        if faults:
            self.counts.drops.append({**about, "reason": "invalid", "evidence": {"faults": faults[:MAX_FAULTS]}})
            return False
        file.write(orjson.dumps(row) + b"\n")
        return True

    def _not_golden(self, trial: BranchTrial, fork: Fork, child: BranchChild, about: dict[str, Any]) -> bool:
        if not self.goldens:
            return True
        from trace_flywheel.flow.conversion.holdout import golden_of

        whole = _rollout(trial, (*fork.prefix, *(child.messages or ())))
        held = golden_of(whole, self.goldens, self.request.overlap)
        if held is not None:
            self._drop(about, child, held.reason, held.evidence)
        return held is None

    def _drop(self, about: dict[str, Any], child: BranchChild, reason: str, evidence: dict[str, Any]) -> None:
        self.counts.drops.append({**about, "child": child.node_id, "reason": reason, "evidence": evidence})


def _rollout(trial: BranchTrial, messages: tuple[Message, ...], metadata: dict[str, Any] | None = None) -> Rollout:
    return Rollout(
        trial.name,
        trial.name,
        trial.task or trial.name,
        Source("benchflow", trial.path, trial.sha256),
        messages,
        agent=trial.agent,
        model=trial.model,
        metadata=metadata,
    )


def _redacted(trial: BranchTrial, fork: Fork, children: Sequence[BranchChild], pii: Policy | str | None) -> Fork | Drop:
    """The fork with its observed children, redacted as one."""
    if pii is None:
        return msgspec.structs.replace(fork, children=tuple(children))
    texts = [[child.label, child.requested] for child in children]
    parts = [fork.prefix, *(child.messages or () for child in children)]
    whole = tuple(message for part in parts for message in part)
    safe = redactor(pii).redact(_rollout(trial, whole, {"children": texts}))
    if isinstance(safe, Drop):
        return safe
    rest = iter(safe.messages)
    prefix, *continuations = [tuple(next(rest) for _ in part) for part in parts]
    labels = (safe.metadata or {})["children"]
    told = [
        msgspec.structs.replace(child, messages=messages, label=label, requested=requested)
        for child, messages, (label, requested) in zip(children, continuations, labels, strict=True)
    ]
    return msgspec.structs.replace(fork, prefix=prefix, children=tuple(told))
