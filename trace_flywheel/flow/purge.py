"""Erasure: a rollout's text and rows leave the lake, the index and every dataset version; tombstones stay.

What was erased is a drop `read/purged` without a name in the partitions of its run. Versions that held a row of it are
removed, in the others its fate loses its name, and the datasets are published again from what is left. The source
folder is its owner's: it is not touched, and what was erased is read back neither from it nor from any copy of it.

An erasure that was killed is ended by the next: its tombstones stand first, its versions go before its partitions, and
what a tombstone names and is still there goes with whatever is erased next.
"""

import shutil
from collections.abc import Sequence, Set
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from trace_flywheel.flow import contents, datasets, gathered, tables
from trace_flywheel.flow.corpus_index import erase
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.erasable import Address, drops_with, holds, published, quoted, runs_of
from trace_flywheel.flow.erased import spellings
from trace_flywheel.flow.expected import STEPS
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.names import every, name_of
from trace_flywheel.flow.rewrite import Gone, follows, is_fresh, is_of, rewrite
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake import dataset
from trace_flywheel.lake.files import is_temporary, replace_text, sweep
from trace_flywheel.lake.purged import Tombstone, address_of, bury, erased_rows, of_values
from trace_flywheel.lake.quarantine import quarantines, release
from trace_flywheel.lake.segments import DamagedError, building, shelves
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import DATASET_CORPUS, Settings

UNFINISHED = "purging"
"""Stands in the lake while an erasure is under way."""


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
    inputs.require_goldens()  # before anything is gone: it could not be published again
    quoting = drops_with(lake, value) if value is not None else ()
    if not addresses and not versions and not quoting and value is None:
        raise FlywheelError(
            "nothing to purge: no rollout in the lake fits; `flywheel why TRACE_ID` tells what there is"
        )
    by_run: dict[str, set[str]] = {}
    for run_id, trace_id in addresses:
        by_run.setdefault(run_id, set()).add(trace_id)
    for run_id in quoting:
        by_run.setdefault(run_id, set())
    standing = {
        run_id: [sidecar for step in STEPS if (sidecar := lake.sidecar(step, run_id)) is not None] for run_id in by_run
    }
    fresh = {(s.asset, s.run_id) for found in standing.values() for s in found if is_fresh(lake, settings, inputs, s)}
    there = dataset.names(lake.home)
    spelt = sorted(spellings(value)) if value is not None else []
    stones = [stone for run_id, traces in sorted(by_run.items()) for stone in _stones(lake, run_id, traces, reason)]
    replace_text(lake.root / UNFINISHED, "")
    # First the tombstones: a run that is killed now is read again without what is to go.
    bury(lake.root, [*stones, *of_values(lake.root, spelt, reason)])
    _sweep(lake)
    _release(lake, [text.encode() for text in spelt])
    removed = tuple(_remove_versions(lake, set(addresses), set(versions)))
    gathered.forget(lake)
    (lake.root / "needs_grading.jsonl").unlink(missing_ok=True)
    indexed = _forget(lake, set(removed))
    for run_id, traces in sorted(by_run.items()):
        for sidecar in standing[run_id]:
            gone = Gone(frozenset(traces), tuple(text.encode() for text in spelt), reason)
            is_next = follows(sidecar, standing[run_id])
            rewrite(lake, settings, inputs, sidecar, gone, (sidecar.asset, run_id) in fresh, is_next)
    curation = Curation(lake, settings, inputs)
    made = [tables.grouped_advantages(curation)] + [
        datasets.make(curation, kind, recipe) for kind, recipe in every(settings) if name_of(kind, recipe) in there
    ]
    exports = _remove_exports(lake, set(addresses), value)
    (lake.root / UNFINISHED).unlink()
    return Purged(len(addresses), removed, tuple(made), indexed, exports)


def unfinished(lake: Lake) -> bool:
    """Whether an erasure began and did not end."""
    return (lake.root / UNFINISHED).is_file()


def _sweep(lake: Lake) -> None:
    """Remove what killed writers left, of whatever age: who holds the lock is the only writer."""
    for place in (lake.root, *lake.root.iterdir(), *lake.root.glob("*/*"), *(lake.home / "datasets").glob("*")):
        sweep(place, 0)


def _stones(lake: Lake, run_id: str, traces: set[str], reason: str) -> list[Tombstone]:
    graded = lake.sidecar(GRADED, run_id)
    digests = dict(contents.contents_of(lake, graded)) if graded is not None else {}
    rows: dict[str, str] = {}
    if (index := lake.sidecar(INDEX, run_id)) is not None:
        for part in index.parts:
            table = pq.read_table(lake.part_path(index, part), columns=["trace_id", "exact_hash"])
            rows |= {row["trace_id"]: row["exact_hash"] for row in table.filter(is_of(table, traces)).to_pylist()}
    return [
        Tombstone(address_of(run_id, trace), run_id, digests.get(trace, ""), reason, rows.get(trace, ""))
        for trace in sorted(traces)
    ]


def _remove_versions(lake: Lake, addresses: set[Address], doomed: set[Path]) -> list[str]:
    """Remove the doomed and every version with a row made from one of the addresses; in the others their fates lose
    their name."""
    removed = []
    for version in list(published(lake)):
        rows = dataset.provenance(version)
        if version.path in doomed or any(
            addresses & set(zip(runs_of(row), row.trace_ids, strict=False)) for row in rows
        ):
            removed.append(f"{version.name}@{version.version}")
            dataset.remove(version.path)
        else:
            dataset.forget(version, addresses)
    return removed


def _forget(lake: Lake, versions: set[str]) -> int:
    """Indexes of versions that are gone go too; the others lose the rows that equal an erased one."""
    lost, erased = 0, erased_rows(lake.root)
    with building(lake.root):
        for shelf in shelves(lake.root):
            try:
                state = shelf.state()
                if state is None or state.corpus.removeprefix(DATASET_CORPUS) in versions:
                    lost += state.rows if state else 0
                    shelf.remove()
                else:
                    lost += erase(shelf, erased)
            except DamagedError:  # nothing of it may stay; it is made again without what was erased
                shelf.remove()
    return lost


def _release(lake: Lake, spelt: Sequence[bytes]) -> None:
    """Forget quarantines whose reason quotes a value; the next try gives one that does not."""
    for entry in quarantines(lake) if spelt else ():
        if any(text in entry.reason.encode() for text in spelt):
            release(lake, entry.run_id)


def _remove_exports(lake: Lake, addresses: Set[Address], value: str | None) -> tuple[Path, ...]:
    """Remove what `flywheel export` wrote below the home and what held one of the rows, or the value."""
    spelt = quoted(value) if value is not None else ()
    removed = []
    for file in sorted(lake.home.rglob("provenance.parquet")):
        folder = file.parent
        if {"lake", "datasets"} & set(folder.relative_to(lake.home).parts[:1]) or is_temporary(folder):
            continue
        rows = list(dataset.provenance_in(folder))
        if any(addresses & set(zip(runs_of(row), row.trace_ids, strict=False)) for row in rows) or any(
            holds(one, spelt) for one in folder.rglob("*.*")
        ):
            shutil.rmtree(folder)
            removed.append(folder)
    return tuple(removed)
