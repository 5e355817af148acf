"""A dataset version being written: rows in any order become one folder that appears whole.

Rows are spooled (`lake.spool`) and written sorted by (split, place, task id, row id), so that the bytes do not depend
on where a row was read, or by whom; only a mix gives rows a place, or several. Text passes through once and only keys
and provenance stay in memory.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from trace_flywheel.lake.dataset import CANONICAL, MANIFEST, Version, manifest_validator, prune, read_version
from trace_flywheel.lake.files import new_file, replace_text, settle, sweep, workplace
from trace_flywheel.lake.ledger import content_of, ledger_of
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.shards import SPLITS, Shard, cut, shard_stem, write_shard
from trace_flywheel.lake.spool import Place, unspool
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.rows import Provenance

_PLACE = struct.Struct("<IQQII")
"""A `Place`, in a tenth of the memory."""
PROVENANCE_SCHEMA = pa.schema(
    [
        pa.field("row_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("task_id", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("trace_ids", pa.list_(pa.string())),
        pa.field("grader", pa.string()),
        pa.field("grader_version", pa.string()),
        pa.field("rewards", pa.list_(pa.float64())),
        pa.field("source", pa.list_(pa.string())),
        pa.field("corrected_by", pa.string()),
        pa.field("masked_steps", pa.int64()),
        pa.field("delta", pa.float64()),
        pa.field("delta_source", pa.string()),
        pa.field("rejected_is_min", pa.bool_()),
        pa.field("group_size", pa.int64()),
        pa.field("spread", pa.float64()),
        pa.field("group_id", pa.string()),
        pa.field("rejected_run_id", pa.string()),
        pa.field("transforms", pa.list_(pa.string())),
        pa.field("split", pa.string()),
        pa.field("weight", pa.float64()),
        pa.field("suite", pa.string()),
    ]
)


class Draft:
    """A version being written. Made by `drafting`; spool lines in its `folder`, `add` rows, then `publish`."""

    def __init__(self, base: Path, name: str, folder: Path, layouts: Sequence[str]) -> None:
        self.name, self._base, self.folder = name, base, folder
        self._layouts = (CANONICAL, *sorted(set(layouts) - {CANONICAL}))
        self._rows: list[tuple[str, str, Provenance, bytes]] = []
        self._place: list[int] = []
        self._distinct = 0

    def add(self, provenance: Provenance, places: Mapping[str, Place], at: Sequence[int] = (0,)) -> None:
        """One row: its provenance, and by layout where the JSON lines that it becomes are spooled (exactly one in the
        canonical layout).

        `at`: where it stands among the others, once for each time.
        """
        if places[CANONICAL].lines != 1:
            raise ValueError(f"row {provenance.row_id}: {places[CANONICAL].lines} canonical lines, not one")
        packed = b"".join(_PLACE.pack(*places[name]) for name in self._layouts)
        for place in at:
            self._rows.append((provenance.task_id, provenance.row_id, provenance, packed))
            self._place.append(place)
        self._distinct += 1

    def __len__(self) -> int:
        return len(self._rows)

    def shards_of(self, layout: str) -> Iterator[Shard]:
        """The files of a layout, rows in their order."""
        where = "" if layout == CANONICAL else f"layouts/{layout}/"
        (self.folder / where).mkdir(parents=True, exist_ok=True)
        at = self._layouts.index(layout) * _PLACE.size
        for split in SPLITS:
            places = [Place(*_PLACE.unpack_from(r[3], at)) for r in self._rows if r[2].split == split]
            if places or split == "train":
                stem = f"{where}{shard_stem(split)}"
                for number, of_shard in enumerate(cut(places)):
                    yield Shard(self.folder, layout, f"{stem}{number:05d}.jsonl", of_shard)

    def publish(
        self,
        fates: pa.Table,
        settings: Mapping[str, Any],
        manifest: Mapping[str, Any],
        card: Callable[[dict[str, Any]], str],
        keep: int,
        spread: Callable[[Callable[[Shard], str], Sequence[Shard]], Iterable[str]] = map,
    ) -> Version:
        """Write the version and make it the newest.

        `manifest` is what the caller knows (kind, inputs, code); `card` makes the README from the finished manifest;
        `spread` gives what a function makes of each file, in order.
        Raises `AssertionError` when the fates do not account for every row.
        """
        ledger = ledger_of(fates)
        claimed = {row for rows in fates["row_ids"].to_pylist() for row in rows or ()}
        written = [row_id for _, row_id, _, _ in self._rows]
        if claimed != set(written) or self._distinct != len(claimed):
            raise AssertionError(f"{self.name}: fates keep {len(claimed)} rows, {self._distinct} were written")
        placed = sorted(
            zip(self._place, self._rows, strict=True), key=lambda r: (SPLITS.index(r[1][2].split), r[0], *r[1][:2])
        )
        self._rows = [row for _, row in placed]
        splits = {split: sum(r[2].split == split for r in self._rows) for split in SPLITS}
        shards = [shard for layout in self._layouts for shard in self.shards_of(layout)]
        listed: list[dict[str, Any]] = [
            {"path": shard.path, "rows": sum(p.lines for p in shard.places), "bytes": shard.size, "sha256": digest}
            for shard, digest in zip(shards, spread(write_shard, shards), strict=True)
        ]
        unspool(self.folder)
        rows = hashlib.sha256()
        for file in listed:
            rows.update(f"{file['path']} {file['sha256']}\n".encode())
        document = {
            "schema": MANIFEST,
            "dataset": self.name,
            "rows": len(self._rows),
            "rows_sha256": rows.hexdigest(),
            "counts": ledger.as_json(),
            "funnel": [
                {"stage": s.stage, "in": s.entered, "kept": s.kept, "dropped": s.dropped} for s in ledger.funnel()
            ],
            "settings": dict(settings),
            "files": listed,
            "splits": {split: n for split, n in splits.items() if n},
            **manifest,
        }
        version = content_id([document, content_of(fates)], 16)
        if (existing := self._base / version).exists():
            replace_text(self._base / "latest", version + "\n")
            return read_version(existing)
        document["version"] = version
        write_table(
            self.folder / "provenance.parquet",
            pa.Table.from_pylist([msgspec.to_builtins(r[2]) for r in self._rows], schema=PROVENANCE_SCHEMA),
        )
        write_table(self.folder / "fates.parquet", fates)
        manifest_validator().validate(document)
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"
        for file_name, content in (("manifest.json", text), ("README.md", card(document))):
            with new_file(self.folder / file_name) as stream:
                stream.write(content.encode())
        final = self._base / version
        settle(self.folder, final)
        replace_text(self._base / "latest", version + "\n")
        prune(self._base, version, keep)
        return Version(self.name, version, final, len(self._rows), document, new=True)


@contextmanager
def drafting(home: Path, name: str, layouts: Sequence[str]) -> Iterator[Draft]:
    """A version to write; it leaves nothing behind unless it is published."""
    base = home / "datasets" / name
    sweep(base)
    with workplace(base) as folder:
        yield Draft(base, name, folder, layouts)
