"""Assets without partitions: whole tables, replaced together behind one pointer.

    lake/<asset>/<digest>/<table>.parquet …  sidecar.json                           `current` names the digest

A version is written under a temporary name, synced and renamed, and the pointer is replaced last. It is named by its
content and what that was made from; only the newest one is kept. All of it can be made again: a damaged one counts as
not there, and whatever stands in its place gives way.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.files import (
    TEMPORARY,
    clear,
    keep_only,
    new_file,
    remove,
    replace_text,
    settle,
    sweep,
    workplace,
)
from trace_flywheel.lake.landing import POINTER
from trace_flywheel.lake.parts import write_tables
from trace_flywheel.lake.sidecar import FORMAT, LakeError, TableSidecar, check_format, pretty
from trace_flywheel.records.canonical import content_id

BATCH = 1 << 14
"""Rows of a table that are read at a time."""


class Tables:
    """The assets without partitions below `root`."""

    def __init__(self, root: Path) -> None:
        """Raises `LakeError` where a newer version wrote there."""
        self.root = root
        check_format(root)

    def prepare(self) -> None:
        if not (self.root / "format").is_file():
            replace_text(self.root / "format", f"{FORMAT}\n")

    def current(self, asset: str) -> TableSidecar | None:
        """What the newest version of an unpartitioned asset says about itself."""
        try:
            digest = _read(self.root / asset / "current").decode().strip()
        except (OSError, UnicodeDecodeError):
            return None
        return self._sidecar_of(asset, digest)

    def _sidecar_of(self, asset: str, digest: str) -> TableSidecar | None:
        try:
            return msgspec.json.decode(_read(self.root / asset / digest / POINTER), type=TableSidecar)
        except (OSError, msgspec.MsgspecError):
            return None

    def whole(self, asset: str) -> TableSidecar | None:
        """`current`, where its files are those that were written."""
        current = self.current(asset)
        return current if current is not None and self.is_whole(current) else None

    def table(self, asset: str, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """One table of the newest version of an unpartitioned asset, or some columns of it."""
        return table_in(self._table(asset, name), columns)

    def batches(self, asset: str, name: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of such a table, few rows at a time."""
        with pq.ParquetFile(self._table(asset, name)) as file:
            yield from file.iter_batches(BATCH, columns=list(columns), use_threads=False)

    def table_schema(self, asset: str, name: str) -> pa.Schema:
        """Of such a table."""
        return pq.read_schema(self._table(asset, name))

    def _table(self, asset: str, name: str) -> Path:
        current = self.current(asset)
        if current is None:
            raise LakeError(f"{self.root / asset}: not made yet; run `flywheel refresh`")
        return self.root / asset / current.digest / f"{name}.parquet"

    def put(
        self,
        asset: str,
        tables: Mapping[str, pa.Table | Iterable[pa.Table]],
        inputs_digest: str,
        counts: Mapping[str, Any],
        write: Callable[[Path], None] | None = None,
    ) -> TableSidecar:
        """Replace an unpartitioned asset; only its newest version is kept. Tables may come in pieces. `write` adds
        files that are no tables."""
        self.prepare()
        base = self.root / asset
        clear(base)
        clear(base / "current", folder=False)
        sweep(base)
        with workplace(base) as folder:
            for name, table in sorted(tables.items()):
                write_tables(folder / f"{name}.parquet", [table] if isinstance(table, pa.Table) else table)
            if write is not None:
                write(folder)
            digest = _digest_of(asset, folder, inputs_digest)
            sidecar = TableSidecar(FORMAT, asset, digest, inputs_digest, dict(counts))
            with new_file(folder / POINTER) as stream:
                stream.write(pretty(sidecar).encode())
            if self._sidecar_of(asset, digest) is None or not self.is_whole(sidecar):
                remove(base / digest)
            settle(folder, base / digest)
        replace_text(base / "current", digest + "\n")
        keep_only(base, digest)
        return sidecar

    def is_whole(self, table: TableSidecar) -> bool:
        """Whether the files of an unpartitioned asset are, byte for byte, those that it was named by."""
        try:
            return _digest_of(table.asset, self.root / table.asset / table.digest, table.inputs_digest) == table.digest
        except OSError:
            return False

    def discard(self, asset: str) -> None:
        """Remove an unpartitioned asset, under another name: no kill and no reader that writes in it leaves a part."""
        if os.path.lexists(self.root / asset):
            gone = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=self.root))
            with suppress(FileNotFoundError):
                (self.root / asset).rename(gone / asset)
            shutil.rmtree(gone, ignore_errors=True)


def _read(path: Path) -> bytes:
    """A file whole; a pipe would never end."""
    if not path.is_file():
        raise FileNotFoundError(path)
    return path.read_bytes()


def _digest_of(asset: str, folder: Path, inputs_digest: str) -> str:
    """The name of a version of an unpartitioned asset."""
    files = [(path.name, _sha256(path)) for path in sorted(folder.iterdir()) if path.name != POINTER]
    return content_id([FORMAT, asset, files, inputs_digest])[:16]


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
