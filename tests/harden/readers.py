"""Damaged job folders through every reader and every layout.

Whatever lies in a folder: reading gives rollouts and drops and raises nothing, `convert` writes rows that its own
validator accepts or ends with one line, each rollout is converted or named, and no planted secret is in the rows.
"""

import random
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from tests.harden.mutations import damage_tree
from trace_flywheel.flow.conversion.convert import convert
from trace_flywheel.flow.conversion.request import Request
from trace_flywheel.flow.validate import FileCheck
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.sample.plan import secrets
from trace_flywheel.sample.write import write_sample
from trace_flywheel.sources.discover import discover, read_unit, units
from trace_flywheel.sources.reader import ReadOptions
from trace_flywheel.sources.run_state import state
from trace_flywheel.trainers.candidates import Choice
from trace_flywheel.trainers.layout import Layout
from trace_flywheel.trainers.registry import layouts

UNFORESEEN = "Error: "
"""In the evidence of a drop: the boundary of reading caught what no reader foresaw."""


def layouts_of_rollouts() -> list[Layout]:
    """What `convert` makes from single rollouts."""
    return [one for one in layouts().values() if type(one).candidate_row is not Layout.candidate_row]


def round_of(seed: int, work: Path) -> Iterator[str]:
    """Faults of one round, in words."""
    rng = random.Random(seed)
    root = work / "jobs"
    shutil.rmtree(work, ignore_errors=True)
    write_sample(root)
    done = damage_tree(root, rng)
    target = rng.choice(layouts_of_rollouts())
    for fault in (*_read(root), *_converted(root, work / "out", target, rng)):
        yield f"seed {seed} ({target.NAME}; {'; '.join(done)}): {fault}"


def _read(root: Path) -> Iterator[str]:
    for run in discover([root]).runs:
        state(run)
        for unit in units(run):
            for found in read_unit(run, unit, ReadOptions()):
                if not isinstance(found, Rollout | Drop):
                    yield f"{unit.relative}: gave a {type(found).__name__}"
                elif isinstance(found, Drop) and UNFORESEEN in str(found.evidence.get("text", ""))[:40]:
                    yield f"{unit.relative}: unforeseen: {found.evidence['text']}"
                elif found.run_id != run.run_id:
                    yield f"{unit.relative}: says run {found.run_id}"


def _converted(root: Path, folder: Path, target: Layout, rng: random.Random) -> Iterator[str]:
    folder.mkdir()
    out = folder / ("rows" if target.CONTAINER == "folder" else "rows.jsonl")
    choice = Choice(rng.choice(("trial", "exchange")), rng.choice(("full", "last-turn")), helpers=True, subagents=True)
    grouped = rng.choice((None, "grpo", "max-rl"))
    request = Request(
        (root,), out, target.NAME, choice=choice, group_advantage=grouped, reward_vector=grouped is not None
    )
    with redirect_stderr(StringIO()):
        try:
            tally = convert(request, workers=1)
        except FlywheelError as error:
            if out.exists():
                yield f"wrote although it ended with {error}"
            return
    named = {(drop["rollout"], drop["trace_id"], str(drop.get("evidence"))) for drop in tally.drops}
    if tally.converted + len(named) < tally.rollouts:
        yield f"{tally.rollouts} rollouts, {tally.converted} converted, {len(named)} named"
    check = FileCheck(out, target)
    yield from (f"row {fault.line}: {fault.text}" for fault in check if "the same row stands" not in fault.text)
    if check.rows != tally.rows:
        yield f"{check.rows} rows in the file, {tally.rows} counted"
    data = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    yield from (f"planted {name} in the rows" for name, value in secrets().items() if value.encode() in data)
