"""A dataset version being written: rows in any order become one folder that appears whole.

Rows are spooled (`lake.spool`) and written sorted by (split, place, task id, row id), so that the bytes do not depend
on where a row was read, or by whom; only a mix gives rows a place, or several. Text passes through once; in memory stay
ids and places, numbers rather than objects: 0.4 kB a row.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from filecmp import cmp
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from trace_flywheel.lake.ages import date
from trace_flywheel.lake.dataset import CANONICAL, MANIFEST, Version, discard, manifest_validator, prune
from trace_flywheel.lake.files import new_file, replace_text, settle, sweep, syncing, workplace
from trace_flywheel.lake.ledger import FATES_SCHEMA, Ledger, Sums, tell
from trace_flywheel.lake.numbers import Numbers
from trace_flywheel.lake.order import ranks
from trace_flywheel.lake.origins import Origins
from trace_flywheel.lake.parts import TableFile, write_table
from trace_flywheel.lake.shards import SPLITS, Shard, cut, shard_stem, write_shard
from trace_flywheel.lake.spool import Place, Places, unspool
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.rows import Provenance

GROUP = 4_096
"""Fates that stand as a table at a time, and in a row group of their file."""


class Draft:
    """A version being written. Made by `drafting`; spool lines in its `folder`, `add` rows, then `publish`."""

    def __init__(self, base: Path, name: str, folder: Path, layouts: Sequence[str]) -> None:
        self.name, self._base, self.folder = name, base, folder
        self._layouts = (CANONICAL, *sorted(set(layouts) - {CANONICAL}))
        self.numbers = Numbers()
        """Of the rows by their ids, as they came."""
        self.origins = Origins(folder)
        self._places = {name: Places() for name in self._layouts}
        self._tasks: dict[str, int] = {}
        self._task, self._split = array("I"), array("B")
        # Of every time that a row stands among the others: its number, and where.
        self._row, self._at = array("I"), array("q")
        self._files: list[dict[str, Any]] = []

    def add(self, provenance: Provenance, places: Mapping[str, Place], at: Sequence[int] = (0,)) -> None:
        """One row: its provenance, and by layout where the JSON lines that it becomes are spooled (exactly one in the
        canonical layout).

        `at`: where it stands among the others, once for each time.
        """
        row_id, number = provenance.row_id, len(self.numbers)
        if places[CANONICAL].lines != 1:
            raise ValueError(f"row {row_id}: {places[CANONICAL].lines} canonical lines, not one")
        if self.numbers.add(row_id) != number:
            raise ValueError(f"row {row_id} was added before")
        for name, of_layout in self._places.items():
            of_layout.add(places[name])
        self.origins.add(provenance)
        self._task.append(self._tasks.setdefault(provenance.task_id, len(self._tasks)))
        self._split.append(SPLITS.index(provenance.split))
        self._row.extend([number] * len(at))
        self._at.extend(at)

    def __len__(self) -> int:
        return len(self._row)

    @cached_property
    def _ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the rows in their order, and of each its split. To be asked for once all were added."""
        rows, splits = np.array(self._row), np.array(self._split)
        of_task = ranks(list(self._tasks))[np.array(self._task)]
        keys = (self.numbers.ranks()[rows], of_task[rows], np.array(self._at), splits[rows])
        rows = rows[np.lexsort(keys)]
        return rows, splits[rows]

    def shards(self) -> Iterator[Shard]:
        """The files of all layouts, rows in their order. To be taken once: with them go the places."""
        rows, splits = self._ordered
        for layout in self._layouts:
            where = "" if layout == CANONICAL else f"layouts/{layout}/"
            (self.folder / where).mkdir(parents=True, exist_ok=True)
            of_layout = self._places.pop(layout)
            for number, split in enumerate(SPLITS):
                places = of_layout.taken(rows[splits == number])
                if len(places) or split == "train":
                    for file, of_shard in enumerate(cut(places)):
                        path = f"{where}{shard_stem(split)}{file:05d}.jsonl"
                        yield Shard(self.folder, layout, path, of_shard)

    def write(self, spread: Callable[[Callable[[Shard], str], Sequence[Shard]], Iterable[str]] = map) -> None:
        """Write the files of rows, once all were added; they are durable before `publish`, and nobody sees them.

        `spread` gives what a function makes of each file, in order.
        """
        shards = list(self.shards())
        with syncing() as sync_beside:
            for shard, sha256 in zip(shards, spread(write_shard, shards), strict=True):
                sync_beside(shard.folder / shard.path)
                rows = sum(place.lines for place in shard.places)
                self._files.append({"path": shard.path, "rows": rows, "bytes": shard.size, "sha256": sha256})

    def publish(
        self,
        fates: Iterable[pa.Table],
        settings: Mapping[str, Any],
        manifest: Mapping[str, Any],
        card: Callable[[dict[str, Any]], str],
        keep: int,
    ) -> Version:
        """Make it the newest version; its files are written here, unless `write` did.

        `fates` come once, piece by piece, in their order (`ledger.ordered`). `manifest` is what the caller knows (kind,
        inputs, code); `card` makes the README from the finished manifest.
        Raises `AssertionError` when the fates do not account for every row.
        """
        ledger, told = self._accounted(fates)
        if not self._files:
            self.write()
        rows, splits, listed = *self._ordered, self._files
        digest = hashlib.sha256()
        for file in listed:
            digest.update(f"{file['path']} {file['sha256']}\n".encode())
        document = {
            "schema": MANIFEST,
            "dataset": self.name,
            "rows": len(rows),
            "rows_sha256": digest.hexdigest(),
            "counts": ledger.as_json(),
            "funnel": [
                {"stage": s.stage, "in": s.entered, "kept": s.kept, "dropped": s.dropped} for s in ledger.funnel()
            ],
            "settings": dict(settings),
            "files": listed,
            "splits": {
                split: n for split, n in zip(SPLITS, np.bincount(splits, minlength=3).tolist(), strict=True) if n
            },
            **manifest,
        }
        version = content_id([document, told], 16)
        document["version"] = version
        pa.default_memory_pool().release_unused()
        self.origins.write(self.folder / "provenance.parquet", rows)
        manifest_validator().validate(document)
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"
        for file_name, content in (("manifest.json", text), ("README.md", card(document))):
            with new_file(self.folder / file_name) as stream:
                stream.write(content.encode())
        self.close()
        final = self._base / version
        if final.exists():
            if _holds_all(final, self.folder):
                replace_text(self._base / "latest", version + "\n")
                return Version(self.name, version, final, len(rows), document)
            discard(final)  # somebody wrote there since: it is not what its name says
        settle(self.folder, final)
        date(final)
        replace_text(self._base / "latest", version + "\n")
        prune(self._base, version, keep)
        return Version(self.name, version, final, len(rows), document, new=True)

    def _accounted(self, fates: Iterable[pa.Table]) -> tuple[Ledger, str]:
        """Write the fates as they come: of a hundred thousand, evidence alone is tens of MB. Gives their sums, and
        the sha256 of what they say."""
        path, sums, digest = self.folder / "fates.parquet", Sums(), hashlib.sha256()
        is_claimed, unknown = np.zeros(len(self.numbers), dtype=bool), 0
        groups = _groups(fates)
        if (first := next(groups, None)) is None:
            write_table(path, pa.Table.from_batches([], FATES_SCHEMA))
        else:
            with TableFile(path, FATES_SCHEMA) as file:
                for group in chain([first], groups):
                    sums.add(group)
                    tell(digest, group)
                    for row_id in group["row_ids"].combine_chunks().flatten().to_pylist():
                        if (number := self.numbers.get(row_id)) is None:
                            unknown += 1
                        else:
                            is_claimed[number] = True
                    file.write(group)
        if unknown or not is_claimed.all():
            claimed = unknown + int(is_claimed.sum())
            raise AssertionError(f"{self.name}: fates keep {claimed} rows, {len(self.numbers)} were written")
        return sums.ledger(), digest.hexdigest()

    def close(self) -> None:
        """Remove what was written on the way."""
        self.origins.close()
        unspool(self.folder)


def _groups(fates: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Fates by the row group, whatever they come in: the same fates give the same bytes."""
    waiting: list[pa.Table] = []
    for piece in fates:
        waiting.append(piece)
        while sum(map(len, waiting)) >= GROUP:
            some = pa.concat_tables(waiting)
            waiting = [some.slice(GROUP)]
            yield some.slice(0, GROUP).combine_chunks()
    if sum(map(len, waiting)):
        yield pa.concat_tables(waiting).combine_chunks()


def _holds_all(folder: Path, other: Path) -> bool:
    """Whether all files of the other one stand in this folder, byte for byte."""
    names = [path.relative_to(other) for path in other.rglob("*") if path.is_file()]
    return all((folder / name).is_file() and cmp(folder / name, other / name, shallow=False) for name in names)


@contextmanager
def drafting(home: Path, name: str, layouts: Sequence[str]) -> Iterator[Draft]:
    """A version to write; it leaves nothing behind unless it is published."""
    base = home / "datasets" / name
    sweep(base)
    with workplace(base) as folder, closing(Draft(base, name, folder, layouts)) as draft:
        yield draft
