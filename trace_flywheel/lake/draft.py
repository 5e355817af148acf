"""A dataset version being written: rows in any order become one folder that appears whole.

Rows are spooled and written sorted by (split, place, task id, row id), so that the bytes do not depend on where a row
was read; only a mix gives rows a place, or several. Text passes through once and only keys and provenance stay in
memory.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
import orjson
import pyarrow as pa

from trace_flywheel.lake.dataset import CANONICAL, MANIFEST, Version, manifest_validator, prune, read_version
from trace_flywheel.lake.files import new_file, replace_text, settle, sweep, workplace
from trace_flywheel.lake.ledger import content_of, ledger_of
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.shards import SPLITS, shard_stem
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.rows import Provenance

SHARD_ROWS, SHARD_BYTES = 50_000, 256_000_000
"""A shard of published rows: small enough to load whole, large enough to keep the number of files low."""

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
    """A version being written. Made by `drafting`; `add` rows, then `publish`."""

    def __init__(self, base: Path, name: str, folder: Path, layouts: Sequence[str]) -> None:
        self.name, self._base, self._folder = name, base, folder
        self._layouts = (CANONICAL, *sorted(set(layouts) - {CANONICAL}))
        self._spools: dict[str, _Spool] = {layout: _Spool(folder / f"spool-{layout}") for layout in self._layouts}
        self._rows: list[tuple[str, str, Provenance, dict[str, tuple[int, int, int]]]] = []
        self._place: list[int] = []
        self._distinct = 0

    def add(self, provenance: Provenance, lines: Mapping[str, Sequence[bytes]], at: Sequence[int] = (0,)) -> None:
        """One row: its provenance, and by layout the JSON lines it becomes (exactly one in the canonical layout).

        `at`: where it stands among the others, once for each time.
        """
        if len(lines[CANONICAL]) != 1:
            raise ValueError(f"row {provenance.row_id}: {len(lines[CANONICAL])} canonical lines, not one")
        places = {name: self._spools[name].add(lines.get(name, ())) for name in self._layouts}
        for place in at:
            self._rows.append((provenance.task_id, provenance.row_id, provenance, places))
            self._place.append(place)
        self._distinct += 1

    def __len__(self) -> int:
        return len(self._rows)

    def publish(
        self,
        fates: pa.Table,
        settings: Mapping[str, Any],
        manifest: Mapping[str, Any],
        card: Callable[[dict[str, Any]], str],
        keep: int,
    ) -> Version:
        """Write the version and make it the newest.

        `manifest` is what the caller knows (kind, inputs, code); `card` makes the README from the finished manifest.
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
        listed: list[dict[str, Any]] = []
        for layout in self._layouts:
            where = self._folder if layout == CANONICAL else self._folder / "layouts" / layout
            where.mkdir(parents=True, exist_ok=True)
            for split in SPLITS:
                rows_of_split = [r[3][layout] for r in self._rows if r[2].split == split]
                if rows_of_split or split == "train":
                    shards = _write_shards(where, self._spools[layout].lines(iter(rows_of_split)), shard_stem(split))
                    listed += [{**s, "path": (where / s["path"]).relative_to(self._folder).as_posix()} for s in shards]
        for spool in self._spools.values():
            spool.remove()
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
            self._folder / "provenance.parquet",
            pa.Table.from_pylist([msgspec.to_builtins(r[2]) for r in self._rows], schema=PROVENANCE_SCHEMA),
        )
        write_table(self._folder / "fates.parquet", fates)
        manifest_validator().validate(document)
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"
        for file_name, content in (("manifest.json", text), ("README.md", card(document))):
            with new_file(self._folder / file_name) as stream:
                stream.write(content.encode())
        final = self._base / version
        settle(self._folder, final)
        replace_text(self._base / "latest", version + "\n")
        prune(self._base, version, keep)
        return Version(self.name, version, final, len(self._rows), document, new=True)


class _Spool:
    """Lines in the order they came; gives them back by place."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self._stream: IO[bytes] = path.open("wb")

    def add(self, lines: Sequence[bytes]) -> tuple[int, int, int]:
        """(offset, bytes, number of lines)."""
        start = self._at
        for line in lines:
            if b"\n" in line:
                raise ValueError("a JSON line holds a line feed")
            self._at += self._stream.write(line + b"\n")
        return start, self._at - start, len(lines)

    def lines(self, places: Iterator[tuple[int, int, int]]) -> Iterator[tuple[bytes, int]]:
        self._stream.close()
        with self._path.open("rb") as stream:
            for offset, size, count in places:
                stream.seek(offset)
                yield stream.read(size), count

    def remove(self) -> None:
        self._stream.close()
        self._path.unlink()


def _write_shards(folder: Path, blocks: Iterator[tuple[bytes, int]], stem: str) -> list[dict[str, Any]]:
    """Shards cut by rows and bytes; one empty shard where there is no row, so that the folder still loads as data."""
    shards: list[dict[str, Any]] = []
    waiting = next(blocks, None)
    while waiting is not None or not shards:
        name, rows, size, digest = f"{stem}{len(shards):05d}.jsonl", 0, 0, hashlib.sha256()
        with new_file(folder / name) as stream:
            while waiting is not None and (not rows or (rows < SHARD_ROWS and size + len(waiting[0]) <= SHARD_BYTES)):
                stream.write(waiting[0])
                digest.update(waiting[0])
                rows, size = rows + waiting[1], size + len(waiting[0])
                waiting = next(blocks, None)
        shards.append({"path": name, "rows": rows, "bytes": size, "sha256": digest.hexdigest()})
    return shards


@contextmanager
def drafting(home: Path, name: str, layouts: Sequence[str]) -> Iterator[Draft]:
    """A version to write; it leaves nothing behind unless it is published."""
    base = home / "datasets" / name
    sweep(base)
    with workplace(base) as folder:
        yield Draft(base, name, folder, layouts)
