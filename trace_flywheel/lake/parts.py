"""Part files of a partition: Parquet, long columns by zstd level 1, in batches, cut by fixed rules.

Where a part ends depends on the sequence of rows alone, never on who writes it or how many processes do: the same rows
give the same files, byte for byte.
"""

import hashlib
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.lake.codec import JSON, SCHEMA, SOURCE, Spelt, rollouts_of, row_of, size_of, table_of
from trace_flywheel.lake.columns import table as table_of_rows
from trace_flywheel.lake.files import OPEN_FILE, new_file
from trace_flywheel.lake.index import INDEX_SCHEMA, LISTS, SKETCHES
from trace_flywheel.lake.sidecar import Part
from trace_flywheel.records.rollout import Rollout

BATCH_ROWS, BATCH_CHARS = 1_000, 16_000_000
"""A row group: large enough for zstd 1 to run at full speed, small enough for a worker's memory."""
READ_ROWS = 50
"""Rows whose texts stand as Python objects at a time, beside the table that they come from."""
PART_ROWS, PART_CHARS = 20_000, 64_000_000
"""A part: the 16 to 64 MB in which work is spread over processes."""


class _Hashed:
    """A write-only stream that hashes what passes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.sha256, self.closed = stream, hashlib.sha256(), False

    def write(self, data: Any) -> int:
        self.sha256.update(data)
        return self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()

    def flush(self) -> None:
        self._stream.flush()

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _writer(stream: Any, schema: pa.Schema) -> Any:
    texts = [f.name for f in schema if pa.types.is_string(f.type)]
    packed: Any = _packed(schema)
    return pq.ParquetWriter(
        stream,
        schema,
        compression=packed,
        compression_level=1 if packed == "zstd" else {name: 1 for name in packed if packed[name] == "zstd"},
        use_dictionary=texts,
        write_statistics=False,
    )


def _packed(schema: pa.Schema) -> dict[str, str] | str:
    """How columns are compressed. Of what a run is told by, most are short, and a compressor takes a tenth of a
    millisecond for each, to write it and to read it, however short it is."""
    if schema.equals(SCHEMA):
        long = set(JSON)
    elif schema.equals(INDEX_SCHEMA):
        long = {*SKETCHES, *(f"{name}.list.element" for name in LISTS)}
    else:
        return "zstd"
    names = [f"{name}.list.element" if name in LISTS else name for name in schema.names]
    return {name: "zstd" if name in long else "NONE" for name in names}


class TableFile:
    """A Parquet file written table by table; `.part` says what it holds once it is closed."""

    def __init__(self, path: Path, schema: pa.Schema, mode: int = OPEN_FILE, chunk: int = 0) -> None:
        self._path, self._chunk, self.rows = path, chunk, 0
        self._context = new_file(path, mode)
        self._stream = _Hashed(self._context.__enter__())
        self._writer = _writer(self._stream, schema)
        self._open = True

    def write(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        self._writer.write_table(table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open = False
        try:
            if kind is None:
                self._writer.close()
        finally:
            self._writer.is_open = False
            self._context.__exit__(kind, error, at)

    def __del__(self) -> None:
        """What was not finished is nobody's file: it goes without an end and without a word."""
        if getattr(self, "_open", False):
            with suppress(OSError):
                self.__exit__(GeneratorExit, GeneratorExit(), None)

    @property
    def part(self) -> Part:
        return Part(self._path.name, self.rows, self._stream.sha256.hexdigest(), self._chunk)


def write_table(path: Path, table: pa.Table, mode: int = OPEN_FILE) -> Part:
    """A whole table as one file."""
    if not table.num_rows:
        data = _without_rows(table.schema.serialize().to_pybytes())
        with new_file(path, mode) as stream:
            stream.write(data)
        return Part(path.name, 0, hashlib.sha256(data).hexdigest())
    with TableFile(path, table.schema, mode) as file:
        file.write(table)
    return file.part


def write_tables(path: Path, tables: Iterable[pa.Table], mode: int = OPEN_FILE) -> Part:
    """Tables of one schema, at least one, as one file; no more than one at a time is held."""
    waiting = iter(tables)
    first = next(waiting)
    if not first.num_rows:
        return write_table(path, first, mode)
    with TableFile(path, first.schema, mode) as file:
        for table in chain([first], waiting):
            file.write(table)
    return file.part


@lru_cache(maxsize=16)
def _without_rows(schema: bytes) -> bytes:
    """The file of a table without rows: every run that lost nothing has three of them, and each took a millisecond."""
    stream = io.BytesIO()
    known = pa.ipc.read_schema(pa.py_buffer(schema))
    with _writer(stream, known) as writer:
        writer.write_table(table_of_rows([], known))
    return stream.getvalue()


class RolloutParts:
    """Writes a sequence of rollouts to `<folder>/<stem>-00000.parquet …`; `close` gives the parts.

    `cut=False` writes one file named `stem`: the part that mirrors a part of the asset before.
    """

    def __init__(
        self, folder: Path, stem: str, mode: int = OPEN_FILE, chunk: int = 0, cut: bool = True, keep_text: bool = True
    ) -> None:
        self._folder, self._stem, self._mode, self._chunk = folder, stem, mode, chunk
        self._cut, self._keep_text = cut, keep_text
        self._parts: list[Part] = []
        self._file: TableFile | None = None
        self._batch: list[tuple[Any, ...]] = []
        self._batch_chars = self._part_chars = self._part_rows = 0

    def add(self, rollout: Rollout, spelt: Spelt | None = None) -> tuple[int, int]:
        """Appends one; gives its (part, position). `spelt` is what `read_rollouts` told of it."""
        row = row_of(rollout, self._keep_text, spelt)
        size = size_of(row)
        if self._cut and self._part_rows and (self._part_rows >= PART_ROWS or self._part_chars + size > PART_CHARS):
            self._end_part()
        place = len(self._parts), self._part_rows
        self._batch.append(row)
        self._batch_chars += size
        self._part_rows += 1
        self._part_chars += size
        if len(self._batch) >= BATCH_ROWS or self._batch_chars >= BATCH_CHARS:
            self._flush()
        return place

    def _flush(self) -> None:
        if self._file is None:
            name = f"{self._stem}-{len(self._parts):05d}.parquet" if self._cut else self._stem
            self._file = TableFile(self._folder / name, SCHEMA, self._mode, self._chunk)
        if self._batch:
            self._file.write(table_of(self._batch))
        self._batch, self._batch_chars = [], 0

    def _end_part(self) -> None:
        self._flush()
        assert self._file is not None
        self._file.__exit__(None, None, None)
        self._parts.append(self._file.part)
        self._file, self._part_chars, self._part_rows = None, 0, 0

    def close(self) -> tuple[Part, ...]:
        """Ends the last part; a mirrored part exists even without a row."""
        if self._part_rows or (not self._cut and not self._parts):
            self._end_part()
        return tuple(self._parts)


def _taken(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """Some rows of a table, ascending. (`Table.take` imports Arrow's functions: a tenth of a second a process.)"""
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][1] == row:
            runs[-1][1] += 1
        else:
            runs.append([row, row + 1])
    return pa.concat_tables([table.slice(start, end - start) for start, end in runs])


def read_rollouts(
    path: Path,
    positions: frozenset[int] | None = None,
    exchanges: bool = True,
    fields: Collection[str] | None = None,
    spelt: Spelt | None = None,
) -> Iterator[tuple[int, Rollout]]:
    """(position, rollout) of a part file, one row group in memory; only the named positions where given.

    Without `exchanges` the recorded calls are not even decompressed: most of a part's bytes. With `fields` nothing but
    those and the source is read, and rollouts lack the others: each column takes its time, however short the part.
    `spelt` is told how the one that is given last was written.
    """
    columns = None if exchanges else [name for name in SCHEMA.names if name != "exchanges"]
    if fields is not None:
        columns = [name for name in SCHEMA.names if name in fields or name in SOURCE]
    with pq.ParquetFile(path) as file:
        start = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            wanted = range(rows) if positions is None else [i for i in range(rows) if start + i in positions]
            if wanted:
                # Threads for forty columns of a few rows take longer than the columns.
                table = file.read_row_group(group, columns=columns, use_threads=rows > READ_ROWS)
                chosen = table if len(wanted) == rows else _taken(table, wanted)
                places = iter(wanted)
                for at in range(0, len(wanted), READ_ROWS):
                    for rollout in rollouts_of(chosen.slice(at, READ_ROWS), spelt):
                        yield start + next(places), rollout
            start += rows
