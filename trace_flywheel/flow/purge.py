"""Erasure: a rollout's text and rows leave the lake, the index and every dataset version; tombstones stay.

The three partitions of a run are written anew without it, part by part, so that part k still follows from part k; what
was erased is a drop `read/purged` without a name. Versions that held a row of it are removed, in the others its fate
loses its name, and the datasets are published again from what is left. The source folder is its owner's: it is not
touched, and what was erased is not read back from it.

An erasure that was killed is ended by the next: its tombstones stand first, its versions go before its partitions, and
what a tombstone names and is still there goes with whatever is erased next.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trace_flywheel.flow import datasets, gathered, tables
from trace_flywheel.flow.corpus_index import erase
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.erasable import Address, published, runs_of
from trace_flywheel.flow.expected import BEFORE, STEPS, Expected
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX, REDACTED
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.names import every, name_of
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake import dataset
from trace_flywheel.lake.files import sweep
from trace_flywheel.lake.parts import TableFile
from trace_flywheel.lake.purged import Tombstone, address_of, bury, erased_rows
from trace_flywheel.lake.segments import DamagedError, building, shelves
from trace_flywheel.lake.sidecar import Part, Sidecar, file_mode
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import sha256_hex
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.settings import DATASET_CORPUS, Settings

BATCH_ROWS = 1_000


class Purged(msgspec.Struct, frozen=True):
    """What an erasure did."""

    rollouts: int
    versions: tuple[str, ...]
    """`NAME@VERSION` of the versions that held a row and are gone."""
    made: tuple[Made, ...]
    indexed: int = 0
    """Rows that the indexes of corpora forgot."""


def purge(
    lake: Lake,
    settings: Settings,
    inputs: SideInputs,
    addresses: Sequence[Address],
    reason: str,
    versions: Sequence[Path] = (),
) -> Purged:
    """Erase the rollouts at these addresses, and these versions, and publish again. The caller holds the home's lock.

    Raises `FlywheelError` where there is nothing to erase.
    """
    if not addresses and not versions:
        raise FlywheelError(
            "nothing to purge: no rollout in the lake fits; `flywheel why TRACE_ID` tells what there is"
        )
    by_run: dict[str, set[str]] = {}
    for run_id, trace_id in addresses:
        by_run.setdefault(run_id, set()).add(trace_id)
    standing = {
        run_id: [sidecar for step in STEPS if (sidecar := lake.sidecar(step, run_id)) is not None] for run_id in by_run
    }
    fresh = {(s.asset, s.run_id) for found in standing.values() for s in found if _is_fresh(lake, settings, inputs, s)}
    there = dataset.names(lake.home)
    # First the tombstones: a run that is killed now is read again without what is to go.
    for run_id, traces in sorted(by_run.items()):
        bury(lake, _stones(lake, run_id, traces, reason))
    _sweep(lake)
    removed = tuple(_remove_versions(lake, set(addresses), set(versions)))
    gathered.forget(lake)
    (lake.root / "needs_grading.jsonl").unlink(missing_ok=True)
    indexed = _forget(lake, set(removed))
    for run_id, traces in sorted(by_run.items()):
        for sidecar in standing[run_id]:
            _rewrite(lake, settings, inputs, sidecar, traces, (sidecar.asset, run_id) in fresh)
    curation = Curation(lake, settings, inputs)
    made = [tables.grouped_advantages(curation)] + [
        datasets.make(curation, kind, recipe) for kind, recipe in every(settings) if name_of(kind, recipe) in there
    ]
    return Purged(len(addresses), removed, tuple(made), indexed)


def _sweep(lake: Lake) -> None:
    """Remove what killed writers left, of whatever age: who holds the lock is the only writer."""
    for place in (lake.root, *lake.root.iterdir(), *lake.root.glob("*/*"), *(lake.home / "datasets").glob("*")):
        sweep(place, 0)


def _stones(lake: Lake, run_id: str, traces: set[str], reason: str) -> list[Tombstone]:
    digests: dict[str, str] = {}
    rows: dict[str, str] = {}
    if (index := lake.sidecar(INDEX, run_id)) is not None:
        for part in index.parts:
            table = pq.read_table(lake.part_path(index, part), columns=["trace_id", "exact_hash"])
            rows |= {row["trace_id"]: row["exact_hash"] for row in table.filter(_is_in(table, traces)).to_pylist()}
    for step in (REDACTED, GRADED):
        if (sidecar := lake.sidecar(step, run_id)) is None:
            continue
        for part in sidecar.parts:
            table = pq.read_table(lake.part_path(sidecar, part))
            for row in table.filter(_is_in(table, traces)).to_pylist():
                digests[row["trace_id"]] = sha256_hex(orjson.dumps(row, option=orjson.OPT_SORT_KEYS))
    return [
        Tombstone(address_of(run_id, trace), run_id, digests.get(trace, ""), reason, rows.get(trace, ""))
        for trace in sorted(traces)
    ]


def _is_in(table: pa.Table, traces: set[str]) -> pa.ChunkedArray:
    return pc.is_in(table["trace_id"], value_set=pa.array(sorted(traces), pa.string()))


def _is_fresh(lake: Lake, settings: Settings, inputs: SideInputs, sidecar: Sidecar) -> bool:
    return sidecar.inputs_digest == _wanted(lake, settings, inputs, sidecar)


def _wanted(lake: Lake, settings: Settings, inputs: SideInputs, sidecar: Sidecar) -> str:
    return Expected(lake, settings, inputs).digest(sidecar.asset, sidecar.run_id, sidecar.source_fingerprint)


def _rewrite(
    lake: Lake, settings: Settings, inputs: SideInputs, sidecar: Sidecar, traces: set[str], fresh: bool
) -> None:
    """One partition of a run without the traces; each row that it loses is a nameless drop.

    A partition that was up to date stays so; one that was not is made again by the next refresh, as before.
    """
    step, run_id = sidecar.asset, sidecar.run_id
    parts: list[Part] = []
    named = [drop for drop in lake.drops(sidecar) if drop.trace_id in traces]
    lost = len(named)
    with lake.generation(step, run_id) as folder:
        for part in sidecar.parts:
            table = pq.read_table(lake.part_path(sidecar, part))
            left = table.filter(pc.invert(_is_in(table, traces)))
            lost += table.num_rows - left.num_rows
            if step == INDEX:
                left = _closed_up(left)
            with TableFile(folder / part.name, left.schema, file_mode(step), part.chunk) as file:
                for start in range(0, left.num_rows, BATCH_ROWS):
                    file.write(left.slice(start, BATCH_ROWS))
            parts.append(file.part)
        drops = [drop for drop in lake.drops(sidecar) if drop.trace_id not in traces]
        before = lake.sidecar(BEFORE[step], run_id) if step in BEFORE and fresh else None
        lake.commit(
            folder,
            step,
            run_id,
            parts=parts,
            drops=[*drops, *[Drop(Stage.READ, "purged", run_id=run_id)] * lost],
            entered=sidecar.counts.entered,
            inputs_digest=_wanted(lake, settings, inputs, sidecar) if fresh else sidecar.inputs_digest,
            source_fingerprint=sidecar.source_fingerprint,
            facts={**sidecar.facts, **({"of": before.content_digest} if before else {})},
        )


def _closed_up(index: pa.Table) -> pa.Table:
    """Index entries with the positions of a redacted part that lost the same rows."""
    at = index.column_names.index("position")
    field = index.schema.field(at)
    return index.set_column(at, field, pa.array(range(index.num_rows), field.type))


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
    lost, erased = 0, erased_rows(lake)
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
