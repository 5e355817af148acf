"""Erasure: a rollout's text and rows leave the lake, the index and every dataset version; tombstones stay.

What was erased is a drop `read/purged` without a name in the partitions of its run. Versions that held a row of it are
removed, in the others its fate loses its name, and the datasets are published again from what is left. The source
folder is its owner's: it is not touched, and what was erased is read back neither from it nor from any copy of it.

An erasure that was killed is ended by the next, with the same files as if nobody had disturbed it: its tombstones
stand first, its versions go before its partitions, and what a tombstone names and is still there goes with whatever is
erased next. `purging` in the lake says that one is under way, and which datasets stood when it began.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trace_flywheel.flow import contents, datasets, gathered, tables
from trace_flywheel.flow import erasure_reach as reach
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.erasable import Address, drops_with, runs_named
from trace_flywheel.flow.erased import spellings
from trace_flywheel.flow.expected import STEPS
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.names import every, name_of
from trace_flywheel.flow.rewrite import Gone, follows, is_fresh, is_of, rewrite
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake import dataset, lines
from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.purged import UNFINISHED, Tombstone, address_of, bury, of_values, unfinished
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import Settings


class Purged(msgspec.Struct, frozen=True):
    """What an erasure did."""

    rollouts: int
    versions: tuple[str, ...]
    """`NAME@VERSION` of the versions that held a row and are gone."""
    made: tuple[Made, ...]
    indexed: int = 0
    """Rows that the indexes of corpora forgot."""
    exports: tuple[Path, ...] = ()
    """Exports below the home that held a row and are gone."""
    left: tuple[Path, ...] = ()
    """Files below the home that hold the value all the same: they are others' to mend."""


def purge(
    lake: Lake,
    settings: Settings,
    inputs: SideInputs,
    addresses: Sequence[Address],
    reason: str,
    versions: Sequence[Path] = (),
    value: str | None = None,
) -> Purged:
    """Erase the rollouts at these addresses, and these versions, and publish again. The caller holds the home's lock.

    `value`: what all of these held, and what nothing that is read later may hold. Raises `FlywheelError` where there is
    nothing to erase.
    """
    inputs.require_all()  # before anything is gone: it could not be published again
    quoting = drops_with(lake, value) if value is not None else ()
    if not addresses and not versions and not quoting and value is None and not unfinished(lake.root):
        raise FlywheelError(
            "nothing to purge: no rollout in the lake fits; `flywheel why TRACE_ID` tells what there is"
        )
    of_addresses = set(addresses)
    doomed = reach.doomed_versions(lake, of_addresses, set(versions))
    reach.require_no_corpus(settings, doomed)
    named = runs_named(lake, value) if value is not None else ()
    by_run: dict[str, set[str]] = {}
    for run_id, trace_id in addresses:
        by_run.setdefault(run_id, set()).add(trace_id)
    for run_id in quoting:
        by_run.setdefault(run_id, set())
    standing = {
        run_id: [sidecar for step in STEPS if (sidecar := lake.sidecar(step, run_id)) is not None] for run_id in by_run
    }
    fresh = {(s.asset, s.run_id) for found in standing.values() for s in found if is_fresh(lake, settings, inputs, s)}
    there = sorted({*dataset.names(lake.home), *_begun(lake)})
    spelt = sorted(spellings(value)) if value is not None else []
    stones = [stone for run_id, traces in sorted(by_run.items()) for stone in _stones(lake, run_id, traces, reason)]
    stones = [msgspec.structs.replace(s, run_id="") if s.run_id in named else s for s in stones]
    replace_text(lake.root / UNFINISHED, json.dumps(there))
    # First the tombstones: a run that is killed now is read again without what is to go.
    bury(lake.root, [*stones, *of_values(lake.root, spelt, reason)])
    reach.sweep_all(lake, settings)
    reach.prune(lake)
    reach.forget_notes(lake, of_addresses, spelt)
    removed = reach.remove_versions(lake, of_addresses, doomed)
    gathered.forget(lake)
    lines.forget(lake)
    indexed = reach.forget_rows(lake, removed)
    for run_id in named:  # no part of a run without a name is left to keep
        reach.forget_run(lake, run_id)
    for run_id, traces in sorted(by_run.items()):
        for sidecar in standing[run_id] if run_id not in named else ():
            gone = Gone(frozenset(traces), tuple(text.encode() for text in spelt), reason)
            is_next = follows(sidecar, standing[run_id])
            rewrite(lake, settings, inputs, sidecar, gone, (sidecar.asset, run_id) in fresh, is_next)
    reach.forget_withdrawals(lake, spelt)
    gathered.forget(lake)  # a reader may have gathered what stood meanwhile
    curation = Curation(lake, settings, inputs)
    made = [tables.grouped_advantages(curation)] + [
        datasets.make(curation, kind, recipe) for kind, recipe in every(settings) if name_of(kind, recipe) in there
    ]
    exports = reach.remove_exports(lake, value)
    (lake.root / UNFINISHED).unlink()
    left = reach.still_holding(lake, settings, value) if value is not None else ()
    return Purged(len(addresses), removed, tuple(made), indexed, exports, left)


def _begun(lake: Lake) -> tuple[str, ...]:
    """Datasets that stood when an erasure began that was killed: it may have taken all versions of one."""
    text = (lake.root / UNFINISHED).read_text("utf-8") if unfinished(lake.root) else ""
    return tuple(json.loads(text or "[]"))  # older versions wrote nothing


def _stones(lake: Lake, run_id: str, traces: set[str], reason: str) -> list[Tombstone]:
    graded = lake.sidecar(GRADED, run_id)
    digests = dict(contents.contents_of(lake, graded)) if graded is not None else {}
    rows: dict[str, str] = {}
    if (index := lake.sidecar(INDEX, run_id)) is not None:
        for part in index.parts:
            table = table_in(lake.part_path(index, part), columns=["trace_id", "exact_hash"])
            rows |= {row["trace_id"]: row["exact_hash"] for row in table.filter(is_of(table, traces)).to_pylist()}
    return [
        Tombstone(address_of(run_id, trace), run_id, digests.get(trace, ""), reason, rows.get(trace, ""))
        for trace in sorted(traces)
    ]
