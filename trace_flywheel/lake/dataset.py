"""Dataset versions: immutable folders that appear whole, named by a hash of all that they say.

    datasets/<name>/<version>/  data-00000.jsonl …  data-eval-00000.jsonl …  layouts/<layout>/data-00000.jsonl …
                                README.md  manifest.json  provenance.parquet  fates.parquet
    datasets/<name>/latest      names the newest

The name is a hash of rows, settings, fates and the rest of the manifest. So two folders of one name hold the same bytes
in every home, and a version tells the whole truth about what entered: nothing about it rests elsewhere. What was
published before is kept, and nothing is written.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from trace_flywheel.lake.ages import by_age, folders
from trace_flywheel.lake.files import TEMPORARY, replace_text, sync
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.records.rows import Provenance

if TYPE_CHECKING:
    import jsonschema_rs
    import pyarrow as pa

CANONICAL = "messages"
"""The layout of the rows in the version folder itself."""
MANIFEST = "dataset-manifest.v1"
BATCH = 1_000
"""Rows whose provenance stands as Python's objects at a time."""
FATES = 4_096
"""Fates of a version that stand as a table at a time."""
ADDRESSES = ("row_id", "kind", "task_id", "run_id", "trace_ids")
"""What of the provenance of a row says whose it is."""


class Version(msgspec.Struct, frozen=True):
    """A dataset version in its place. `new` is False when the same was published before."""

    name: str
    version: str
    path: Path
    rows: int
    manifest: dict[str, Any]
    new: bool = False


def remove(folder: Path) -> None:
    """Remove a version whole. First `latest` names the newest that is left, or goes: it never names what is gone."""
    base = folder.parent
    latest = base / "latest"
    if latest.is_file() and latest.read_text("utf-8").strip() == folder.name:
        left = [p for p in by_age(base) if p != folder]
        if left:
            replace_text(latest, left[-1].name + "\n")
        else:
            latest.unlink()
    discard(folder)


def discard(folder: Path) -> None:
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
    # tables are imported where one is read or written: `convert` reads the rows of a version alone
    from trace_flywheel.lake.ledger import fates_table
    from trace_flywheel.lake.parts import write_table

    published = version.path.stat().st_mtime_ns
    write_table(temporary, fates_table(table))
    sync([temporary])
    temporary.replace(path)
    os.utime(version.path, ns=(published, published))
    sync([version.path])


def prune(base: Path, version: str, keep: int) -> None:
    """Keep the newest `keep` versions by the time of publication, the new one always among them."""
    others = [p for p in by_age(base) if p.name != version]
    for old in others[: max(0, len(others) - keep + 1)]:
        discard(old)


def names(home: Path) -> tuple[str, ...]:
    """Datasets with a published version, sorted."""
    return tuple(sorted(p.parent.name for p in (home / "datasets").glob("*/latest") if _newest(p.parent) is not None))


def _newest(base: Path) -> Path | None:
    """The version that `latest` names, or the newest that is left where somebody removed it."""
    if not (base / "latest").is_file():
        return None
    named = base / ((base / "latest").read_text("utf-8").strip() or TEMPORARY)
    return named if named.is_dir() else next(iter(by_age(base)[::-1]), None)


def versions(home: Path, name: str) -> tuple[Version, ...]:
    """The versions of a dataset, newest publication first."""
    base = home / "datasets" / name
    return tuple(read_version(p) for p in reversed(by_age(base)))


def find_version(home: Path, address: str) -> Version:
    """`NAME` (its newest version) or `NAME@VERSION` (a unique beginning is enough). `LakeError` says what there is."""
    name, _, wanted = address.partition("@")
    base = home / "datasets" / name
    if (newest := _newest(base)) is None:
        there = ", ".join(names(home)) or "none; run `flywheel refresh`"
        raise LakeError(f"no dataset {name!r} in {home}; there are: {there}")
    if not wanted:
        return read_version(newest)
    matching = [p for p in folders(base) if p.name.startswith(wanted)]
    if len(matching) != 1:
        there = ", ".join(sorted(p.name for p in folders(base)))
        raise LakeError(f"{name} has {len(matching) or 'no'} version(s) {wanted!r}; there are: {there}")
    return read_version(matching[0])


def read_version(folder: Path) -> Version:
    """A version from its manifest."""
    try:
        manifest = orjson.loads((folder / "manifest.json").read_bytes())
        return Version(manifest["dataset"], manifest["version"], folder, manifest["rows"], manifest)
    except (OSError, orjson.JSONDecodeError, KeyError) as error:
        raise LakeError(f"{folder}: no readable manifest ({error}); remove the folder and refresh") from None


def fates(version: Version, columns: Sequence[str] | None = None) -> "pa.Table":
    """Of every rollout that entered; all that is said of it, or some of it."""
    from trace_flywheel.lake.columns import table_in

    return table_in(version.path / "fates.parquet", columns)


def fates_in_order(version: Version) -> "Iterator[pa.Table]":
    """Few at a time; those of one trace are never parted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rest: pa.Table | None = None
    with pq.ParquetFile(version.path / "fates.parquet") as file:
        for batch in file.iter_batches(FATES, use_threads=False):
            some = pa.Table.from_batches([batch])
            some = some if rest is None else pa.concat_tables([rest, some])
            start = some.num_rows - 1
            while start > 0 and _trace(some, start - 1) == _trace(some, some.num_rows - 1):
                start -= 1
            yield some.slice(0, start)
            rest = some.slice(start)
    if rest is not None:
        yield rest


def _trace(fates: "pa.Table", row: int) -> tuple[str, str]:
    return fates["run_id"][row].as_py() or "", fates["trace_id"][row].as_py() or ""


def provenance(version: Version, columns: Sequence[str] | None = None) -> Iterator[Provenance]:
    """In the order of the rows."""
    yield from provenance_in(version.path, columns)


def provenance_in(folder: Path, columns: Sequence[str] | None = None) -> Iterator[Provenance]:
    """Of the rows of a version, or of an export of one, few of them at a time: one takes 2 kB as Python's objects.
    `columns`: those that are read, where not all are."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(folder / "provenance.parquet") as file:
        for batch in file.iter_batches(BATCH, columns=columns and list(columns), use_threads=False):
            yield from msgspec.convert(batch.to_pylist(), list[Provenance])


def row_ids(version: Version) -> "pa.ChunkedArray":
    """In the order of the rows."""
    from trace_flywheel.lake.columns import table_in

    return table_in(version.path / "provenance.parquet", ["row_id"])["row_id"]


def rewards(version: Version) -> list[float | None]:
    """Of all traces behind its rows, in the order of the rows."""
    from trace_flywheel.lake.columns import table_in

    table = table_in(version.path / "provenance.parquet", ["rewards"])
    found: list[float | None] = table["rewards"].combine_chunks().flatten().to_pylist()
    return found


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


def manifest_validator() -> "jsonschema_rs.Draft202012Validator":
    """The schema that every manifest is held against before it is published."""
    import jsonschema_rs

    package = Path(str(files("trace_flywheel")))
    name = f"{MANIFEST}.schema.json"
    found = next(p for p in (package / "schemas" / name, package.parent / "schemas" / name) if p.is_file())
    return jsonschema_rs.Draft202012Validator(orjson.loads(found.read_bytes()))
