"""Where else in a home an erasure reaches: versions, exports, indexes of corpora, notes, and what killed writers left.

Partitions of runs are `rewrite`'s. Each of these may be done again: what is gone already is passed over.
"""

import json
import shutil
from collections.abc import Collection, Iterator, Sequence, Set
from pathlib import Path

from trace_flywheel.flow.corpus_index import erase
from trace_flywheel.flow.erasable import Address, holds, published, quoted, runs_of
from trace_flywheel.flow.erased import WITHHELD
from trace_flywheel.flow.expected import STEPS
from trace_flywheel.flow.roots import roots_in_force
from trace_flywheel.lake import dataset
from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.files import TEMPORARY, is_temporary, keep_only, replace_text
from trace_flywheel.lake.purged import address_of, erased_rows, tombstones
from trace_flywheel.lake.quarantine import quarantines, release
from trace_flywheel.lake.segments import DamagedError, building, shelves
from trace_flywheel.lake.store import Lake
from trace_flywheel.lake.withdrawn import forget
from trace_flywheel.records.canonical import sha256_hex
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import DATASET_CORPUS, Settings
from trace_flywheel.sources.walked import walked

NEEDS_GRADING = "needs_grading.jsonl"
DAGSTER, SEARCHED = "dagster", frozenset({*STEPS, "datasets"})
"""Folders with files of others, and those that an erasure has looked through when it comes to the rest."""


def sweep_all(lake: Lake, settings: Settings) -> None:
    """Remove what killed writers left, of whatever age: who holds the lock is the only writer.

    Exports write below the home too, and their folders have the same kind of name. Source folders are left alone.
    """
    for folder, folders, files in _walk(lake, settings, {DAGSTER}):
        for name in (n for n in (*folders, *files) if n.startswith(TEMPORARY)):
            path = Path(folder, name)
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        folders[:] = [name for name in folders if not name.startswith(TEMPORARY)]


def prune(lake: Lake) -> None:
    """Remove the generations and tables that no pointer names: their writer was killed before it did."""
    for sidecar in (s for step in STEPS for s in lake.sidecars(step)):
        keep_only(lake.folder(sidecar.asset, sidecar.run_id), sidecar.generation)
    for pointer in sorted(lake.root.glob("*/current")):
        keep_only(pointer.parent, pointer.read_text("utf-8").strip())


def forget_run(lake: Lake, run_id: str) -> None:
    """Remove a run's partitions whole, and its name with them."""
    for folder in (lake.folder(step, run_id) for step in STEPS):
        if folder.exists():
            gone = folder.with_name(TEMPORARY + sha256_hex(folder.name.encode())[:16])
            folder.rename(gone)
            shutil.rmtree(gone)
    release(lake, run_id)


def doomed_versions(lake: Lake, addresses: Set[Address], doomed: Set[Path]) -> tuple[dataset.Version, ...]:
    """These versions and every one with a row made from one of the addresses."""
    return tuple(
        version
        for version in published(lake)
        if version.path in doomed
        or any(addresses & set(zip(runs_of(row), row.trace_ids, strict=False)) for row in dataset.provenance(version))
    )


def name_of_version(version: dataset.Version) -> str:
    return f"{version.name}@{version.version}"


def require_no_corpus(settings: Settings, doomed: Collection[dataset.Version]) -> None:
    """Raise `FlywheelError` where a corpus is a version that must go: nothing could be published against it again."""
    named = tuple(address.removeprefix(DATASET_CORPUS) for address in map(str, settings.corpora))
    for version in doomed:
        if any(name_of_version(version).startswith(name) for name in named if "@" in name):
            raise FlywheelError(
                f"{name_of_version(version)} holds a row of it and must go, but `corpora` names it; take it out of "
                "`corpora`, or name an export of the rows that may stay, then purge again"
            )


def remove_versions(lake: Lake, addresses: Set[Address], doomed: Collection[dataset.Version]) -> tuple[str, ...]:
    """Remove the doomed; in the other versions the fates of the addresses lose their name."""
    gone = {version.path for version in doomed}
    for version in list(published(lake)):
        if version.path in gone:
            dataset.remove(version.path)
        else:
            dataset.forget(version, set(addresses))
    return tuple(map(name_of_version, doomed))


def forget_rows(lake: Lake, versions: Collection[str]) -> int:
    """Indexes of versions that are gone go too; the others lose the rows that equal an erased one. How many rows."""
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


def forget_notes(lake: Lake, addresses: Set[Address], spelt: Sequence[str]) -> None:
    """Take what is erased out of the list of what needs a grade, and quarantines whose reason quotes a value; the next
    try gives one that does not."""
    sought = [text.encode() for text in spelt]
    for entry in quarantines(lake) if sought else ():
        if any(text in entry.reason.encode() for text in sought):
            release(lake, entry.run_id)
    path = lake.root / NEEDS_GRADING
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.is_file() else []
    rows = ((line, json.loads(line)) for line in lines)
    left = [
        line
        for line, row in rows
        if (row["run_id"], row["trace_id"]) not in addresses and not any(text in _said(row) for text in spelt)
    ]
    if left != lines:
        replace_text(path, "".join(left))


def forget_withdrawals(lake: Lake, spelt: Sequence[str]) -> None:
    """Withdrawals of traces that were erased wherever they stood, and what quotes a value: a line would keep the name.

    One whose trace stands in another run too, as a rollout or as a drop, stays in force there.
    """
    stones = [stone for stone in tombstones(lake.root) if stone.address]
    runs = {stone.run_id for stone in stones}
    buried = {stone.address for stone in stones}

    def quotes(text: str | None) -> bool:
        return text is not None and any(value in text for value in spelt)

    def erased(one: Withdrawal) -> bool:
        if any(map(quotes, (one.grader, one.run, one.trace))):
            return True
        trace = one.trace
        return trace is not None and any(address_of(r, trace) in buried for r in runs) and not _stands(lake, trace)

    forget(lake, erased, lambda reason: WITHHELD if quotes(reason) else reason)


def remove_exports(lake: Lake, value: str | None = None) -> tuple[Path, ...]:
    """Remove what `flywheel export` wrote below the home and what holds a row of anything erased, or the value."""
    spelt = quoted(value) if value is not None else ()
    buried = {stone.address for stone in tombstones(lake.root) if stone.address}
    removed = []
    for folder in sorted(file.parent for file in lake.home.rglob("provenance.parquet")):
        if folder.relative_to(lake.home).parts[0] in {"lake", "datasets"} or is_temporary(folder):
            continue
        rows = dataset.provenance_in(folder)
        named = {at for row in rows for at in zip(runs_of(row), row.trace_ids, strict=False)}
        if any(address_of(*at) in buried for at in named) or any(holds(one, spelt) for one in folder.rglob("*.*")):
            dataset.discard(folder)
            removed.append(folder)
    return tuple(removed)


def still_holding(lake: Lake, settings: Settings, value: str) -> tuple[Path, ...]:
    """Files below the home that hold a value after all: goldens that say it, files of other commands, Dagster's.

    Partitions and versions were looked through before; source folders are their owner's.
    """
    spelt = quoted(value)
    paths = (Path(folder, name) for folder, _, files in _walk(lake, settings, SEARCHED) for name in files)
    return tuple(path for path in sorted(paths) if holds(path, spelt))


def _walk(lake: Lake, settings: Settings, without: Collection[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` over the home, without folders of these names two levels down, and without the roots."""
    roots = {str(root.resolve()) for root in roots_in_force(settings)}
    for folder, folders, files in walked(lake.home):
        if Path(folder) in (lake.home, lake.root):
            folders[:] = [name for name in folders if name not in without]
        folders[:] = sorted(name for name in folders if str(Path(folder, name).resolve()) not in roots)
        yield folder, folders, files


def _said(row: dict[str, object]) -> str:
    return "\n".join(str(value) for value in row.values())


def _stands(lake: Lake, trace: str) -> bool:
    """Whether a trace id stands in the lake, as a rollout or as a drop."""
    for step in STEPS:
        for sidecar in lake.sidecars(step):
            if any(drop.trace_id == trace for drop in lake.drops(sidecar)):
                return True
            for part in sidecar.parts:
                if trace in table_in(lake.part_path(sidecar, part), columns=["trace_id"])["trace_id"].to_pylist():
                    return True
    return False
