"""Branched BenchFlow trials (`tree.json`): each fork's prefix and what its children did, from ACP events.

A fork's node names the step after which it was cut (`step-3-agent_message`: four events). A nested fork's prefix goes
on with its own child's events. A trial that was started from a kept checkpoint begins with the events of the trial it
came from, where that lies below the root: no path out of it is followed, whatever the files say.
"""

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.records.branch import BranchChild, BranchTrial, Fork
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.benchflow_identity import text_or_none
from trace_flywheel.sources.jsonl import Document, Fault, Line, read_document, read_lines
from trace_flywheel.sources.reader import files_below
from trace_flywheel.sources.wires import acp

TREE = "tree.json"
_STEP = re.compile(r"step-(\d+)-")
Events = list[dict[str, Any]]


class _Open(msgspec.Struct, frozen=True):
    """A child that forks may be inside of: all events before it, its own, its depth."""

    before: Events
    own: Events
    depth: int


def trees(root: Path) -> list[Path]:
    """Every branch tree's file below a folder, sorted by path."""
    return sorted(path for path in files_below(root) if path.name == TREE)


def read_branches(tree: Path, root: Path, max_bytes: int) -> BranchTrial | Fault:
    """The branched trial whose tree this is, or what is wrong with the tree."""
    document = read_document(tree, root, max_bytes)
    if isinstance(document, Fault):
        return document
    value = document.value
    if not isinstance(value, dict) or (value.get("kind"), value.get("schema_version")) != ("benchflow-branch-tree", 1):
        return Fault("unknown_shape", "this is no branch tree of version 1")
    try:
        return _Tree(tree.parent, root, max_bytes).trial(value, document.sha256)
    except _DamagedEventsError as error:
        return error.fault


class _DamagedEventsError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


class _Tree:
    def __init__(self, trial: Path, root: Path, max_bytes: int) -> None:
        self._trial, self._root, self._max_bytes = trial, root, max_bytes
        self._inside: dict[str, _Open] = {}

    def trial(self, tree: dict[str, Any], sha256: str) -> BranchTrial:
        found = folders.read_result(self._trial, self._root)
        result = found if isinstance(found, dict) else {}
        before, origin, complete = self._origin()
        own = self._events(self._trial / folders.ACP)
        steps = {str(n.get("id")): n.get("step_id") for n in _objects(tree.get("nodes"))}
        forks = tuple(self._fork(fork, before, own, steps) for fork in _objects(tree.get("forks")))
        return BranchTrial(
            name=self._trial.name,
            path=(self._trial / TREE).relative_to(self._root).as_posix(),
            sha256=sha256,
            task=text_or_none(result.get("task_name")),
            agent=text_or_none(result.get("agent")),
            model=text_or_none(result.get("model")),
            forks=forks,
            prefix_source=origin,
            prefix_complete=complete,
        )

    def _fork(self, fork: dict[str, Any], before: Events, own: Events, steps: dict[str, Any]) -> Fork:
        node = text_or_none(fork.get("parent_node"))
        step = _STEP.match(str(steps.get(node or "")))
        cut = int(step[1]) + 1 if step else 0
        owner = self._inside.get(str(fork.get("rollout")))
        parent = str(fork.get("rollout")) if owner is not None else None
        prefix = [*owner.before, *owner.own[:cut]] if owner is not None else [*before, *own[:cut]]
        depth = owner.depth + 1 if owner is not None else 1
        snapshot = fork.get("snapshot")
        session = snapshot.get("agent_session") if isinstance(snapshot, dict) else None
        return Fork(
            id=str(fork.get("id")),
            prefix=acp.messages_of(prefix),
            children=tuple(self._child(child, prefix, depth) for child in _objects(fork.get("children"))),
            kind=text_or_none(fork.get("kind")) or "fork",
            status=text_or_none(fork.get("status")),
            parent_node=node,
            parent_child=parent,
            depth=depth,
            value=_number(fork.get("value")),
            value_stderr=_number(fork.get("value_stderr")),
            session=text_or_none(session) or "fresh",
            named=_named(prefix),
        )

    def _child(self, child: dict[str, Any], prefix: Events, depth: int) -> BranchChild:
        intervention, artifacts = child.get("intervention"), child.get("artifacts")
        about = intervention if isinstance(intervention, dict) else {}
        path = text_or_none(artifacts.get("path")) if isinstance(artifacts, dict) else None
        events = self._observed(path) if path else None
        node = str(child.get("node_id"))
        self._inside[node] = _Open(prefix, events or [], depth)
        index = child.get("index")
        return BranchChild(
            index=index if isinstance(index, int) else 0,
            node_id=node,
            messages=acp.messages_of(events) if events is not None else None,
            reward=_number(child.get("reward")),
            label=text_or_none(about.get("label")),
            requested=text_or_none(about.get("requested")),
            status=text_or_none(child.get("status")),
            reward_source=text_or_none(child.get("reward_source")),
            path=path,
            named=_named(events or []),
        )

    def _observed(self, path: str) -> Events | None:
        file = Path(os.path.normpath(self._trial / path)) / "observation.json"
        document = read_document(file, self._trial, self._max_bytes)
        value = document.value if isinstance(document, Document) else None
        listed = value.get("trajectory") if isinstance(value, dict) else None
        return _said(_objects(listed)) if isinstance(listed, list) else None

    def _origin(self) -> tuple[Events, dict[str, Any] | None, bool]:
        """(events, what they are of, whether they are all there) of the checkpoint that the trial started from."""
        if not (self._trial / "checkpoint_source.json").is_file():
            return [], None, True
        document = read_document(self._trial / "checkpoint_source.json", self._root, self._max_bytes)
        value = document.value if isinstance(document, Document) and isinstance(document.value, dict) else {}
        count, path = value.get("prefix_events"), value.get("trial_path")
        origin = {"trial": value.get("trial"), "checkpoint": value.get("fork_id"), "events": count}
        if not isinstance(count, int) or not isinstance(path, str):
            return [], origin, False
        try:
            events = self._events(Path(path).absolute() / folders.ACP)
        except _DamagedEventsError:
            return [], origin, False
        return (events[:count], origin, True) if len(events) >= count else ([], origin, False)

    def _events(self, path: Path) -> Events:
        """A trial's events, none where it has no file. Steps are counted in them, so no line may be missing."""
        events: Events = []
        for line in read_lines(path, self._root, self._max_bytes):
            if isinstance(line, Line):
                events += _objects([line.value])
            elif line.line is not None:
                text = f"{path.name}:{line.line}: {line.text}"
                raise _DamagedEventsError(msgspec.structs.replace(line, text=text))
        return _said(events)


def _said(events: Events) -> Events:
    """The events, an oracle's commands as what it says."""
    return [
        {"type": "agent_message", "text": f"[oracle] {e.get('command')} exited {e.get('return_code')}"}
        if e.get("type") == "oracle"
        else e
        for e in events
    ]


def _named(events: Events) -> tuple[str, ...]:
    calls = [event for event in events if event.get("type") == "tool_call"]
    return tuple(sorted({"agent" if text_or_none(call.get("tool_name")) else "inferred" for call in calls}))


def _objects(value: Any) -> Events:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def every_tree(roots: list[Path]) -> Iterator[tuple[Path, Path]]:
    """(root, tree) of all trees below the roots, each tree once."""
    seen: set[Path] = set()
    for root in roots:
        for tree in trees(root):
            if tree not in seen:
                seen.add(tree)
                yield root, tree
