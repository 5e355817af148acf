"""The invariants, each as a check of finished files: (what was looked at, with its numbers; the faults in words)."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from trace_flywheel.flow.conversion.plan import plan_of
from trace_flywheel.flow.ingest_tasks import GRADED
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.dataset import Version, fates, find_version, names, provenance
from trace_flywheel.lake.parts import read_rollouts
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sample.plan import secrets
from trace_flywheel.settings import Settings
from trace_flywheel.sources.discover import read_unit
from trace_flywheel.sources.reader import ReadOptions

Checked = tuple[str, list[str]]


class Evidence:
    """What a run left: its home, and the job folders that it read."""

    def __init__(self, home: Path, root: Path) -> None:
        self.home, self.root, self.lake = home, root, Lake(home)
        self.versions: tuple[Version, ...] = tuple(find_version(home, name) for name in names(home))

    @cached_property
    def read(self) -> list[Rollout | Drop]:
        """The source folders once more, by the readers alone."""
        pieces = plan_of([self.root]).pieces
        return [
            found for piece in pieces for unit in piece.units for found in read_unit(piece.run, unit, ReadOptions())
        ]

    @cached_property
    def documents(self) -> list[tuple[str, bytes]]:
        """Every line and text of every published file."""
        return [
            (f"{version.name}/{path.name}", path.read_bytes())
            for version in self.versions
            for path in sorted(version.path.rglob("*"))
            if path.suffix in (".jsonl", ".json", ".md")
        ]

    @cached_property
    def rows(self) -> list[tuple[str, Any]]:
        """Every published row of every layout, with its place."""
        return [
            (f"{place}:{number}", json.loads(line, parse_constant=_no_number))
            for place, data in self.documents
            if place.endswith(".jsonl")
            for number, line in enumerate(data.split(b"\n")[:-1], 1)
        ]


def conservation(seen: Evidence) -> Checked:
    faults, rollouts, dropped = [], len(seen.read), 0
    for version in seen.versions:
        table = fates(version).to_pylist()
        lost = [fate for fate in table if not fate["kept"]]
        dropped += len(lost)
        if len(table) != rollouts:
            faults.append(f"{version.name}: {rollouts} rollouts in the folders, {len(table)} fates")
        faults += [f"{version.name}: {f['trace_id']} has no reason" for f in lost if not (f["stage"] and f["reason"])]
        kept = Counter(row for fate in table for row in fate["row_ids"] or () if fate["kept"])
        rows = {row.row_id for row in provenance(version)}
        if kept.keys() != rows:
            faults.append(f"{version.name}: {len(rows)} rows, {len(kept)} named by fates")
        counts = version.manifest["counts"]
        if counts["in"] != counts["kept"] + sum(n for reasons in counts["dropped"].values() for n in reasons.values()):
            faults.append(f"{version.name}: the manifest's counts do not add up")
    return f"{rollouts} rollouts in each of {len(seen.versions)} datasets, {dropped} drops with their reason", faults


def provenance_of_every_row(seen: Evidence) -> Checked:
    faults, rows, files = [], 0, set()
    for version in seen.versions:
        for row in provenance(version):
            rows += 1
            if not (row.run_id and row.trace_ids and row.grader and row.source):
                faults.append(f"{version.name}: row {row.row_id} is not traced")
            for source in row.source:
                path, _, digest = source.rpartition("#")
                file = _below(seen.root, row.run_id, path)
                files.add(path)
                if file is None or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                    faults.append(f"{version.name}: row {row.row_id}: {path} is not the file that was read")
    return f"{rows} rows, hashed anew against the {len(files)} source files that they name", faults


def no_golden(seen: Evidence) -> Checked:
    goldens = [json.loads(line) for path in seen.root.rglob("goldens.jsonl") for line in path.open()]
    ids = {golden["task_id"] for golden in goldens}
    statements = {_grams(_said(golden)) for golden in goldens}
    faults = [
        f"{version.name}: row {row.row_id} is of {row.task_id}"
        for version in seen.versions
        for row in provenance(version)
        if row.task_id in ids
    ]
    for place, row in seen.rows:
        held = _grams(_said(row))
        faults += [f"{place}: holds a golden" for grams in statements if grams and len(grams & held) * 2 >= len(grams)]
    return f"{len(goldens)} goldens against {len(seen.rows)} rows of all layouts, by task and by 8-word runs", faults


def no_finding(seen: Evidence) -> Checked:
    rules = redactor(policy_of(Settings(home=seen.home)))
    faults = [f"{place}: {', '.join(sorted(found))}" for place, row in seen.rows if (found := rules.scan(row))]
    for place, data in seen.documents:
        faults += [f"{place}: planted {name}" for name, value in secrets().items() if value.encode() in data]
    planted = sum(
        path.read_bytes().count(value.encode())
        for path in seen.root.rglob("*")
        if path.is_file()
        for value in secrets().values()
    )
    if not planted:
        faults.append("the folders hold no planted value, so nothing was shown")
    return f"{planted} planted values in the folders, none in {len(seen.documents)} published files", faults


def losslessness(seen: Evidence) -> Checked:
    kept = {
        (rollout.run_id, rollout.trace_id): rollout
        for sidecar in seen.lake.sidecars(GRADED)
        for part in sidecar.parts
        for _, rollout in read_rollouts(seen.lake.part_path(sidecar, part))
    }
    faults, calls, messages, rollouts = [], 0, 0, 0
    for rollout in seen.read:
        if isinstance(rollout, Drop):
            continue
        rollouts += 1
        calls += sum(len(message.tool_calls) for message in rollout.messages)
        messages += len(rollout.messages)
        held = kept.get((rollout.run_id, rollout.trace_id))
        if held is None or (held.messages, held.tools, held.reward) != (
            rollout.messages,
            rollout.tools,
            rollout.reward,
        ):
            faults.append(f"{rollout.run_id} {rollout.trace_id}: not in the lake as it was read")
    return f"{rollouts} rollouts with {messages} messages and {calls} calls, equal in the lake", faults


def finite_numbers(seen: Evidence) -> Checked:
    numbers = sum(1 for _, row in seen.rows for value in _leaves(row) if isinstance(value, float))
    faults = [p for p, row in seen.rows if any(isinstance(v, float) and not math.isfinite(v) for v in _leaves(row))]
    return f"{numbers} decimal numbers in {len(seen.rows)} rows of strict JSON", faults


def lost_members(seen: Evidence) -> Checked:
    lost = [found for found in seen.read if isinstance(found, Drop)]
    faults = [f"{d.path}: {d.reason} says too little" for d in lost if not (d.run_id and d.path and d.task_id)]
    told = {f["trace_id"] for version in seen.versions for f in fates(version).to_pylist() if f["stage"] == "read"}
    faults += [f"{drop.path}: has no fate" for drop in lost if drop.trace_id not in told]
    if not lost:
        faults.append("the folders hold nothing unreadable, so nothing was shown")
    return f"{len(lost)} unreadable attempts, each with run, task and path, and a fate in every dataset", faults


INVARIANTS: dict[str, Callable[[Evidence], Checked]] = {
    "conservation": conservation,
    "provenance": provenance_of_every_row,
    "no golden": no_golden,
    "no finding": no_finding,
    "losslessness": losslessness,
    "finite numbers": finite_numbers,
    "lost members": lost_members,
}


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _leaves(value: Any) -> Iterator[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        yield value
    else:
        for one in inner:
            yield from _leaves(one)


def _said(row: Any) -> str:
    return " ".join(str(leaf) for leaf in _leaves(row)).lower()


def _grams(text: str) -> frozenset[tuple[str, ...]]:
    words = "".join(c if c.isalnum() else " " for c in text).split()
    return frozenset(zip(*(words[start:] for start in range(8)), strict=False))


def _below(root: Path, run_id: str, path: str) -> Path | None:
    """The source file of a row: paths in data are relative to the root that its run lies below."""
    return next((file for file in (root / path, root.parent / path) if file.is_file()), None)
