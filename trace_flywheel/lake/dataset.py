"""Dataset versions: immutable folders that appear whole, named by a hash of all that they say.

    datasets/<name>/<version>/  data-00000.jsonl …  data-eval-00000.jsonl …  layouts/<layout>/data-00000.jsonl …
                                README.md  manifest.json  provenance.parquet  fates.parquet
    datasets/<name>/latest      names the newest

Rows may be added in any order: they are spooled and written sorted by (split, place, task id, row id), so that the
bytes do not depend on where a row was read; only a mix gives rows a place, or several. Text passes through
once and only keys and provenance stay in memory.

The name is a hash of rows, settings, fates and the rest of the manifest. So two folders of one name hold the same bytes
in every home, and a version tells the whole truth about what entered: nothing about it rests elsewhere. What was
published before is kept, and nothing is written.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import jsonschema_rs
import msgspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.lake.files import TEMPORARY, new_file, replace_text, settle, workplace
from trace_flywheel.lake.ledger import content_of, fates_table, ledger_of
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.shards import SPLITS, shard_stem
from trace_flywheel.lake.store import LakeError, sweep
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.rows import Provenance

SHARD_ROWS, SHARD_BYTES = 50_000, 256_000_000
"""A shard of published rows: small enough to load whole, large enough to keep the number of files low."""
CANONICAL = "messages"
"""The layout of the rows in the version folder itself."""
MANIFEST = "dataset-manifest.v1"

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
    ]
)


class Version(msgspec.Struct, frozen=True):
    """A dataset version in its place. `new` is False when the same was published before."""

    name: str
    version: str
    path: Path
    rows: int
    manifest: dict[str, Any]
    new: bool = False


class Draft:
    """A version being written. Made by `draft`; `add` rows, then `publish`."""

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
        _prune(self._base, version, keep)
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
def draft(home: Path, name: str, layouts: Sequence[str]) -> Iterator[Draft]:
    """A version to write; it leaves nothing behind unless it is published."""
    base = home / "datasets" / name
    sweep(base)
    with workplace(base) as folder:
        yield Draft(base, name, folder, layouts)


def remove(folder: Path) -> None:
    """Remove a version whole. First `latest` names the newest that is left, or goes: it never names what is gone."""
    base = folder.parent
    latest = base / "latest"
    if latest.is_file() and latest.read_text("utf-8").strip() == folder.name:
        left = sorted((p for p in _folders(base) if p != folder), key=lambda p: (p.stat().st_mtime_ns, p.name))
        if left:
            replace_text(latest, left[-1].name + "\n")
        else:
            latest.unlink()
    _discard(folder)


def _discard(folder: Path) -> None:
    """Renamed first: a reader finds the whole version or none, and so does who comes after a kill."""
    doomed = folder.parent / f"{TEMPORARY}{folder.name}"
    if doomed.exists():
        shutil.rmtree(doomed)
    folder.rename(doomed)
    shutil.rmtree(doomed)


def forget(version: Version, addresses: set[tuple[str, str]]) -> None:
    """Take trace id and evidence from the fates of these (run id, trace id); what became of them still counts."""
    table = fates(version).to_pylist()
    known = [row for row in table if (row["run_id"], row["trace_id"]) in addresses]
    if not known:
        return
    for row in known:
        row |= {"trace_id": None, "evidence": None}
    path = version.path / "fates.parquet"
    temporary = version.path / f"{TEMPORARY}fates.parquet"
    temporary.unlink(missing_ok=True)
    write_table(temporary, fates_table(table))
    temporary.replace(path)


def _prune(base: Path, version: str, keep: int) -> None:
    """Keep the newest `keep` versions by the time of publication, the new one always among them."""
    others = sorted((p for p in _folders(base) if p.name != version), key=lambda p: (p.stat().st_mtime_ns, p.name))
    for old in others[: max(0, len(others) - keep + 1)]:
        _discard(old)


def _folders(base: Path) -> Iterator[Path]:
    if base.is_dir():
        yield from (p for p in base.iterdir() if p.is_dir() and not p.name.startswith(TEMPORARY))


def names(home: Path) -> tuple[str, ...]:
    """Datasets with a published version, sorted."""
    return tuple(sorted(p.parent.name for p in (home / "datasets").glob("*/latest")))


def versions(home: Path, name: str) -> tuple[Version, ...]:
    """The versions of a dataset, newest publication first."""
    base = home / "datasets" / name
    folders = sorted(_folders(base), key=lambda p: (p.stat().st_mtime_ns, p.name), reverse=True)
    return tuple(read_version(p) for p in folders)


def find_version(home: Path, address: str) -> Version:
    """`NAME` (its newest version) or `NAME@VERSION` (a unique beginning is enough). `LakeError` says what there is."""
    name, _, wanted = address.partition("@")
    base = home / "datasets" / name
    if not (base / "latest").is_file():
        there = ", ".join(names(home)) or "none; run `flywheel refresh`"
        raise LakeError(f"no dataset {name!r} in {home}; there are: {there}")
    if not wanted:
        return read_version(base / (base / "latest").read_text("utf-8").strip())
    matching = [p for p in _folders(base) if p.name.startswith(wanted)]
    if len(matching) != 1:
        there = ", ".join(sorted(p.name for p in _folders(base)))
        raise LakeError(f"{name} has {len(matching) or 'no'} version(s) {wanted!r}; there are: {there}")
    return read_version(matching[0])


def read_version(folder: Path) -> Version:
    """A version from its manifest."""
    try:
        manifest = orjson.loads((folder / "manifest.json").read_bytes())
        return Version(manifest["dataset"], manifest["version"], folder, manifest["rows"], manifest)
    except (OSError, orjson.JSONDecodeError, KeyError) as error:
        raise LakeError(f"{folder}: no readable manifest ({error}); remove the folder and refresh") from None


def fates(version: Version) -> pa.Table:
    return pq.read_table(version.path / "fates.parquet")


def provenance(version: Version) -> Iterator[Provenance]:
    """In the order of the rows."""
    for row in pq.read_table(version.path / "provenance.parquet").to_pylist():
        yield msgspec.convert(row, Provenance)


def shards(version: Version, layout: str = CANONICAL) -> tuple[Path, ...]:
    """The files of one layout, in the order of their rows."""
    folder = version.path if layout == CANONICAL else version.path / "layouts" / layout
    return tuple(sorted(folder.glob("data-*.jsonl")))


def lines(version: Version, layout: str = CANONICAL) -> Iterator[bytes]:
    """The rows of one layout as JSON lines, in order."""
    for shard in shards(version, layout):
        with shard.open("rb") as stream:
            for line in stream:
                yield line.rstrip(b"\n")


def altered(version: Version) -> str | None:
    """The first file of rows that is not as the manifest says, None where all are."""
    for file in version.manifest["files"]:
        try:
            with (version.path / file["path"]).open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            digest = None
        if digest != file["sha256"]:
            return str(file["path"])
    return None


def manifest_validator() -> jsonschema_rs.Draft202012Validator:
    """The schema that every manifest is held against before it is published."""
    package = Path(str(files("trace_flywheel")))
    name = f"{MANIFEST}.schema.json"
    found = next(p for p in (package / "schemas" / name, package.parent / "schemas" / name) if p.is_file())
    return jsonschema_rs.Draft202012Validator(orjson.loads(found.read_bytes()))
