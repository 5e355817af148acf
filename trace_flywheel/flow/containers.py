"""What a trainer opens, made from lines: a file of lines, a Parquet table, a folder with lines and metadata.

Rows are always spooled as lines beside the output and take its name when the last one is there, or never. A table's
types come from the layout's schema, never from the rows.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import orjson

from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.outputs import STDOUT, written
from trace_flywheel.flow.workers import Crash, run_alone
from trace_flywheel.records.errors import FlywheelError, UsageError
from trace_flywheel.sources.jsonl import Line
from trace_flywheel.trainers.layout import Layout, Row

BATCH = 1000
"""Most rows of one Parquet row group."""
PIECE_BYTES, GROUP_BYTES = 2_000_000, 16_000_000
"""Bytes of lines that are taken apart at once (as objects they are six times as many), and of a row group."""
READ_ROWS = 16
"""Rows of a table that are objects at a time: a conversation is a hundred times as large as in the file."""
ALONE_BYTES = 1_000_000
"""Lines of more bytes are worth a process that makes the table."""
RESULTS = "results.jsonl"


@contextmanager
def opened(layout: Layout, out: Path, beside: Sequence[str] = ()) -> Iterator[BinaryIO]:
    """A file to write the layout's lines to; `out` appears whole when the block ends well. `beside`: keys that the rows
    have and the layout does not, which a table has columns for where they are named.

    Raises `FlywheelError` where `out` cannot be what the layout makes.
    """
    if layout.CONTAINER == "jsonl":
        with written(out) as file:
            yield file
        return
    if out == STDOUT:
        raise UsageError(f"--out -: {layout.NAME} makes a {layout.CONTAINER}, which stdout is not; give it a name")
    if layout.CONTAINER == "folder" and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FlywheelError(f"{out}: exists already; {layout.NAME} makes a folder, give --out a new name")
    spool = out.with_name(f".{out.name}.{os.getpid()}.jsonl")
    try:
        with replaced(spool) as file:
            yield file
        if layout.CONTAINER == "parquet":
            _table(layout, spool, out, beside)
        else:
            _folder(layout, spool, out)
    finally:
        spool.unlink(missing_ok=True)


def _table(layout: Layout, spool: Path, out: Path, beside: Sequence[str]) -> None:
    with replaced(out) as file:
        shared, task = (layout.NAME, tuple(beside)), (spool, Path(file.name))
        if "pyarrow" in sys.modules and spool.stat().st_size < ALONE_BYTES:
            _write_table(shared, task)
            return
        # in a process of its own: what read the rows holds its memory still, and the library alone takes 50 MB
        done = run_alone(_write_table, shared, task)
        if isinstance(done, Crash):
            raise FlywheelError(f"{out}: {done.reason}")


def _write_table(shared: tuple[str, Sequence[str]], task: tuple[Path, Path]) -> None:
    """The lines of a spool as a table, into a file that is there; `shared`: the layout's name and columns beside it."""
    # tables are imported for the layouts that are one
    import pyarrow as pa
    import pyarrow.parquet as pq

    from trace_flywheel.flow.table_schemas import table_schema

    spool, out = task
    name, beside = shared
    schema = table_schema(name, beside)
    with (
        out.open("wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
        spool.open("rb") as lines,
    ):
        group, rows, size = [schema.empty_table()], 0, 0
        for piece in _pieces(lines):
            group.append(pa.Table.from_pylist([_cells(orjson.loads(line), beside) for line in piece], schema=schema))
            rows, size = rows + len(piece), size + sum(map(len, piece))
            if rows >= BATCH or size >= GROUP_BYTES:
                writer.write_table(pa.concat_tables(group))
                group, rows, size = [schema.empty_table()], 0, 0
        if rows:  # a group of no rows is one that readers of groups fail on
            writer.write_table(pa.concat_tables(group))


def _cells(row: Row, beside: Sequence[str]) -> Row:
    """The row, what stands beside it and is an object as JSON text."""
    for key in beside:
        if isinstance(row.get(key), dict):
            row[key] = orjson.dumps(row[key]).decode()
    return row


def _pieces(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines in their order, a part of a row group at a time."""
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= PIECE_BYTES or len(piece) == BATCH // 10:
            yield piece
            piece, size = [], 0
    yield piece


def _folder(layout: Layout, spool: Path, out: Path) -> None:
    building = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    building.mkdir(parents=True)
    try:
        with spool.open("rb") as lines:
            rows = sum(1 for _ in lines)
        spool.rename(building / RESULTS)
        metadata = {"layout": layout.NAME, "version": layout.VERSION, "episodes": rows, "results": RESULTS}
        (building / "metadata.json").write_bytes(orjson.dumps(metadata, option=orjson.OPT_INDENT_2) + b"\n")
        if out.is_dir():
            out.rmdir()
        building.rename(out)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def rows_file(layout: Layout, path: Path) -> Path:
    """The file of a layout's rows: of a folder the one inside."""
    return path / RESULTS if layout.CONTAINER == "folder" and path.is_dir() else path


def table_lines(path: Path) -> Iterator[Line]:
    """A table's rows as lines, streamed; their number is that of the row. `FlywheelError` for what is no table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without its read-ahead, which is a whole row group.
        with pq.ParquetFile(path, pre_buffer=False) as table:
            number = 0
            for batch in table.iter_batches(READ_ROWS, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    yield Line(number, {key: value for key, value in row.items() if value is not None})
    except pa.ArrowInvalid as error:
        raise FlywheelError(f"{path}: is no Parquet file ({str(error).splitlines()[0]})") from None
