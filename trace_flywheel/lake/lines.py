"""Which lines of a dataset version are whose: what the next version copies instead of making it again.

    lake/<dataset>_lines/<digest>/rows.parquet       keys and account of each row, in the order in which rows are made
                                  <layout>.parquet   where its lines stand in the version's files

A key is a hash of all that makes the row what it is, so that rows with equal keys are one row; a near key is one of all
but some numbers in it. The table lies beside
the version and is no part of it; it is taken where its bytes and those of the version's files are what they were, and
is no loss where they are not. It holds no text. What is erased must not come back: an erasure forgets all of it.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.dataset import CANONICAL, Version
from trace_flywheel.lake.index import LINES
from trace_flywheel.lake.parts import TableFile
from trace_flywheel.lake.spool import Place
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import content_id

FORMAT = 1
KEY, ID = 16, 16
BATCH = 4_096
SIZES = np.dtype([("size", "<u8"), ("lines", "<u4"), ("crc", "<u4")])
PLACES = np.dtype([("file", "<u4"), ("offset", "<u8"), ("size", "<u8"), ("lines", "<u4"), ("crc", "<u4")])
_SIZES = struct.Struct("<QII")
_PLACES = struct.Struct("<IQQII")


class File(NamedTuple):
    """A file that lines are copied from, and what its bytes were when they were published."""

    path: Path
    sha256: str
    size: int


def is_as_it_was(file: File) -> bool:
    """Where something else took its place (a pipe would never end) it is not even opened."""
    try:
        if not file.path.is_file() or file.path.stat().st_size != file.size:
            return False
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


def forget(lake: Lake) -> None:
    """Remove what is known of the lines of every dataset: some are to go."""
    for folder in sorted(lake.root.glob(f"*{LINES}")):
        lake.discard(folder.name)


class Lines:
    """What stands of the lines of a dataset."""

    def __init__(self, folder: Path, version: Path, told: Mapping[str, Any]) -> None:
        self._folder = folder
        self.told: Any = told["told"]
        self.files = {
            layout: [File(version / path, sha256, size) for path, sha256, size in files]
            for layout, files in told["files"].items()
        }
        self.keys, self._near = (
            _fixed(table_in(folder / "rows.parquet", columns=[name])[name], KEY) for name in ("key", "near")
        )

    @classmethod
    def of(cls, lake: Lake, name: str, common: str) -> "Lines | None":
        """Those of the newest version of a dataset that was noted, where what all its rows share was `common`."""
        asset = name + LINES
        try:
            current = lake.current(asset)
            if current is None or current.inputs_digest != _basis(common) or not lake.is_whole(current):
                return None
            folder = lake.root / asset / current.digest
            metadata = pq.read_schema(folder / "rows.parquet").metadata or {}
            told = msgspec.json.decode(metadata[b"flywheel"])
            return cls(folder, lake.home / "datasets" / name / told["version"], told)
        except (OSError, ValueError, msgspec.MsgspecError):
            return None

    def find(self, near: np.ndarray) -> np.ndarray:
        """By near key the row of the table that has it, or -1; one that is not in the table's order is not found."""
        if not len(self._near):
            return np.full(len(near), -1, dtype=np.int64)
        order = np.argsort(self._near, kind="stable")
        at = order[np.minimum(np.searchsorted(self._near, near, sorter=order), len(order) - 1)]
        found = np.where(self._near[at] == near, at, -1).astype(np.int64)
        before = np.maximum.accumulate(np.concatenate([[-1], found]))[:-1]
        return np.where(found > before, found, -1)

    def rows(self, wanted: np.ndarray) -> Iterator[tuple[bytes, dict[str, Place]]]:
        """(account, where its lines stand by layout) of rows of the table, in order; `writer` is the file's number."""
        readers = [_batches(self._folder / "rows.parquet", "account", wanted)]
        readers += [_batches(self._folder / f"{layout}.parquet", "place", wanted) for layout in self.files]
        for account, *places in zip(*readers, strict=True):
            yield account, {n: Place(*_PLACES.unpack(at)) for n, at in zip(self.files, places, strict=True)}


def _basis(common: str) -> str:
    return content_id([FORMAT, common])


def _fixed(values: pa.ChunkedArray, width: int) -> np.ndarray:
    """Values of one width as an array, which compares them whole."""
    data = b"".join(_bytes_of(chunk, width) for chunk in values.chunks)
    return np.frombuffer(data, dtype=f"S{width}")


def _bytes_of(chunk: pa.Array, width: int) -> memoryview:
    return memoryview(chunk.buffers()[1])[chunk.offset * width : (chunk.offset + len(chunk)) * width]


def _batches(path: Path, column: str, wanted: np.ndarray) -> Iterator[bytes]:
    start = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH, columns=[column], use_threads=False):
            low, high = np.searchsorted(wanted, [start, start + batch.num_rows]).tolist()
            if high > low:
                yield from batch.column(0).take(pa.array(wanted[low:high] - start)).to_pylist()
            start += batch.num_rows


class Noted:
    """What is noted of the rows of a draft while they are made; `keep` makes it the lines of what was published.

    It waits in a file without a name, which no kill leaves behind.
    """

    def __init__(self, folder: Path, layouts: Sequence[str]) -> None:
        self._layouts = tuple(layouts)
        fields = [(n, pa.binary(w)) for n, w in (("key", KEY), ("near", KEY), ("row_id", ID), ("account", -1))]
        self._schema = pa.schema([*fields, *((f"in {name}", pa.binary(SIZES.itemsize)) for name in self._layouts)])
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # closed with the object
        # Of zstd every column would have a writer of half a megabyte.
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="lz4", write_statistics=False)
        self._waiting: list[tuple[bytes, ...]] = []

    def add(self, key: bytes, near: bytes, row_id: str, account: bytes, places: Mapping[str, Place]) -> None:
        """A row that came through, or that says what one before it said."""
        sizes = (_SIZES.pack(at.size, at.lines, at.crc) for at in (places[name] for name in self._layouts))
        self._waiting.append((key, near, bytes.fromhex(row_id), account, *sizes))
        if len(self._waiting) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(self._table())
        self._waiting = []
        pa.default_memory_pool().release_unused()  # of the rows so far no object is left, and rows take a while

    def _table(self) -> pa.Table:
        columns = zip(*self._waiting, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def close(self) -> None:
        """Forget what was noted, where it was not kept: its end is not written."""
        self._writer.is_open = False
        self._file.close()

    def keep(self, lake: Lake, version: Version, common: str, told: Any) -> None:
        """Note them as the lines of a version. `told` is kept with them as JSON."""
        if self._waiting:
            self._flush()
        self._writer.close()
        listed = {name: _files(version, name) for name in self._layouts}
        rows, rank = self._published(version)
        about = {"version": version.version, "files": listed, "told": told}

        def write(folder: Path) -> None:
            schema = pa.schema([("key", pa.binary(KEY)), ("near", pa.binary(KEY)), ("account", pa.binary())])
            with TableFile(
                folder / "rows.parquet", schema.with_metadata({b"flywheel": msgspec.json.encode(about)})
            ) as file:
                for batch in self._batches(schema.names, rows):
                    file.write(pa.Table.from_batches([batch], schema=schema))
                    pa.default_memory_pool().release_unused()  # a row leaves half a kilobyte
            for name in self._layouts:
                places = self._places(name, rows, rank, [size for _, _, size in listed[name]])
                packed = pa.FixedSizeBinaryArray.from_buffers(
                    pa.binary(PLACES.itemsize), len(places), [None, pa.py_buffer(places)]
                )
                with TableFile(folder / f"{name}.parquet", pa.schema([("place", packed.type)])) as file:
                    for at in range(0, len(packed), BATCH):
                        file.write(pa.table({"place": packed[at : at + BATCH]}))

        lake.put(version.name + LINES, {}, _basis(common), {"rows": len(rows), "version": version.version}, write)

    def _published(self, version: Version) -> tuple[np.ndarray, np.ndarray]:
        """The noted rows that were published, in their order, and the place of each among the version's rows."""
        ids = _fixed(self._read("row_id"), ID)
        first = np.sort(np.unique(ids, return_index=True)[1])
        with pq.ParquetFile(version.path / "provenance.parquet") as file:
            named = file.iter_batches(BATCH, columns=["row_id"], use_threads=False)
            data = b"".join(bytes.fromhex("".join(batch["row_id"].to_pylist())) for batch in named)
        published = np.frombuffer(data, dtype=f"S{ID}")
        order = np.argsort(published, kind="stable")
        at = np.minimum(np.searchsorted(published, ids[first], sorter=order), max(0, len(order) - 1))
        if len(first) != len(published) or not np.array_equal(published[order[at]], ids[first]):
            raise AssertionError(f"{version.name}: {len(first)} rows were noted, {len(published)} published")
        return first, order[at]

    def _places(self, layout: str, rows: np.ndarray, rank: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
        """Where the lines of each row stand in files of these sizes."""
        packed = self._read(f"in {layout}")
        of_rows = np.frombuffer(b"".join(_bytes_of(c, SIZES.itemsize) for c in packed.chunks), dtype=SIZES)[rows]
        length = np.zeros(len(rows), dtype=np.int64)
        length[rank] = of_rows["size"]
        ends = np.cumsum(np.array(sizes, dtype=np.int64))
        start = (np.cumsum(length) - length)[rank]
        file = np.minimum(np.searchsorted(ends, start, side="right"), len(sizes) - 1)
        places = np.zeros(len(rows), dtype=PLACES)
        places["file"], places["offset"] = file, start - (ends - np.array(sizes, dtype=np.int64))[file]
        for name in SIZES.names or ():
            places[name] = of_rows[name]
        if length.sum() != ends[-1] or (start + of_rows["size"].astype(np.int64) > ends[file]).any():
            raise AssertionError(f"{layout}: lines and files differ in size")
        return places

    def _read(self, column: str) -> pa.ChunkedArray:
        self._file.seek(0)
        return pq.ParquetFile(self._file).read(columns=[column], use_threads=False)[column]

    def _batches(self, columns: list[str], rows: np.ndarray) -> Iterator[pa.RecordBatch]:
        start = 0
        self._file.seek(0)
        for batch in pq.ParquetFile(self._file).iter_batches(BATCH, columns=columns, use_threads=False):
            low, high = np.searchsorted(rows, [start, start + batch.num_rows]).tolist()
            yield batch.take(pa.array(rows[low:high] - start))
            start += batch.num_rows


def _files(version: Version, layout: str) -> list[tuple[str, str, int]]:
    """Path, digest and size of a layout's files, in the order of their rows."""
    folder = "" if layout == CANONICAL else f"layouts/{layout}/"
    listed = version.manifest["files"]
    return [(f["path"], f["sha256"], f["bytes"]) for f in listed if f["path"].rpartition("data-")[0] == folder]
