"""Where run partitions rest, and how they change: whole generations behind one pointer.

    lake/<asset>/<encoded run>/<generation>/part-00000.parquet … drops.parquet      sidecar.json names the generation

A generation is written under a temporary name, synced and renamed; the pointer is replaced last and the generation
before is removed after it (`landing`). So a reader sees the old partition or the new one, and a killed writer leaves
the old one. Generations are named by their content: the same input gives the same name and changes nothing.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.lake.codec import drop_table, drops_of
from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.files import (
    OPEN_FOLDER,
    PRIVATE_FOLDER,
    make_folder,
    sweep,
    workplace,
)
from trace_flywheel.lake.landing import POINTER, Staged, land, pointer_beside, stage
from trace_flywheel.lake.parts import write_table
from trace_flywheel.lake.remote import Remote
from trace_flywheel.lake.sidecar import (
    FORMAT,
    RAW_ASSET,
    Counts,
    LakeError,
    Part,
    Sidecar,
    count_drops,
    encode_run,
    file_mode,
)
from trace_flywheel.lake.tables import Tables
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.fate import Drop


class _Named(msgspec.Struct, frozen=True):
    """The one field of a sidecar that tells whose it is."""

    run_id: str


_sidecar_decoder, _name_decoder = msgspec.json.Decoder(Sidecar), msgspec.json.Decoder(_Named)


class Lake(Tables):
    """The lake of one home. Opening it refuses a newer format; nothing is written before the first partition."""

    def __init__(self, home: Path, remote: Remote | None = None) -> None:
        """`remote`: the object store that the home is a working copy of."""
        self.home, self._remote = Path(home), remote
        super().__init__(self.home / "lake")

    def __eq__(self, other: object) -> bool:
        """Of the same home; a connection to an object store is equal to itself alone."""
        return isinstance(other, Lake) and (self.home, self._remote) == (other.home, other._remote)

    def __hash__(self) -> int:
        return hash(self.home)

    def folder(self, asset: str, run_id: str) -> Path:
        return self.root / asset / encode_run(run_id)

    def sidecar(self, asset: str, run_id: str) -> Sidecar | None:
        """The partition's pointer, or None where it was never made. A damaged one raises `LakeError`."""
        path = f"{self.root}/{asset}/{encode_run(run_id)}/{POINTER}"
        try:
            with open(path, "rb", 0) as file:
                sidecar = _sidecar_decoder.decode(file.read())
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise LakeError(f"{path}: damaged ({error}); remove its folder and refresh") from None
        if sidecar.run_id != run_id:
            raise LakeError(f"{path}: belongs to run {sidecar.run_id!r}, not {run_id!r}")
        return sidecar

    def sidecars(self, asset: str) -> tuple[Sidecar, ...]:
        """The pointers of all partitions of an asset, sorted by run id."""
        found = self._decoded(self._sidecar_paths(asset), _sidecar_decoder)
        return tuple(sorted(found, key=lambda s: s.run_id))

    def run_ids(self, asset: str, beside: Iterable[str] = ()) -> frozenset[str]:
        """The runs of which an asset has a partition, beside those that are known."""
        folders = frozenset(map(encode_run, beside))
        others = (path for path in self._sidecar_paths(asset) if path.rsplit("/", 2)[1] not in folders)
        return frozenset(named.run_id for named in self._decoded(others, _name_decoder))

    def newest(self, asset: str) -> float | None:
        """When a partition of an asset changed last, in Unix seconds; None where there is none."""
        return max((Path(path).stat().st_mtime for path in self._sidecar_paths(asset)), default=None)

    def _decoded(self, paths: Iterable[str], decoder: msgspec.json.Decoder[Any]) -> Iterator[Any]:
        for path in paths:
            try:
                with open(path, "rb", 0) as file:
                    yield decoder.decode(file.read())
            except msgspec.DecodeError as error:
                raise LakeError(f"{path}: damaged ({error}); remove its folder and refresh") from None

    def _sidecar_paths(self, asset: str) -> Iterator[str]:
        """Of every partition, in no particular order."""
        try:
            with os.scandir(self.root / asset) as entries:
                paths = [f"{entry.path}/{POINTER}" for entry in entries]
        except FileNotFoundError:
            return
        yield from filter(os.path.isfile, paths)

    @contextmanager
    def generation(self, asset: str, run_id: str) -> Iterator[Path]:
        """A folder to write part files into; it becomes readable by `stage` and `land` and vanishes without them."""
        self.prepare()
        private = asset == RAW_ASSET
        if private:
            make_folder(self.root / asset, PRIVATE_FOLDER)
        base = self.folder(asset, run_id)
        sweep(base)
        with workplace(base, PRIVATE_FOLDER if private else OPEN_FOLDER) as folder:
            try:
                yield folder
            finally:
                pointer_beside(folder).unlink(missing_ok=True)

    def stage(
        self,
        folder: Path,
        asset: str,
        run_id: str,
        *,
        parts: Sequence[Part],
        drops: Sequence[Drop],
        entered: int,
        inputs_digest: str,
        source_fingerprint: str,
        facts: Mapping[str, Any] | None = None,
    ) -> Staged:
        """End a written generation; `land` makes it the partition. Raises `AssertionError` where counts do not add up.

        `drops` are those of this step and, carried on, of the steps before it; `entered` counts them in.
        """
        counts = Counts(entered, sum(p.rows for p in parts), count_drops(drops))
        if counts.entered != counts.kept + counts.n_dropped:
            raise AssertionError(f"{asset} of {run_id}: {entered} in, {counts.kept} kept, {counts.n_dropped} dropped")
        listed = write_table(folder / "drops.parquet", drop_table(drops), file_mode(asset))
        content = content_id([FORMAT, asset, [(p.name, p.sha256) for p in parts], listed.sha256])
        sidecar = Sidecar(
            FORMAT,
            asset,
            run_id,
            content[:16],
            content,
            inputs_digest,
            source_fingerprint,
            counts,
            tuple(parts),
            dict(facts or {}),
        )
        return stage(self.folder(asset, run_id), folder, sidecar)

    def land(self, staged: Sequence[Staged]) -> tuple[Sidecar, ...]:
        """Make generations their partitions, together; their writers hold `generation` open until then."""
        land(staged)
        return tuple(one.sidecar for one in staged)

    def part_path(self, sidecar: Sidecar, part: Part) -> Path:
        return self.generation_folder(sidecar) / part.name

    def generation_folder(self, sidecar: Sidecar) -> Path:
        """Where a partition's files lie; fetched first where only the object store has them."""
        folder = self.folder(sidecar.asset, sidecar.run_id) / sidecar.generation
        if self._remote is not None:
            self._remote.need(folder.relative_to(self.home).as_posix())
        return folder

    def drops(self, sidecar: Sidecar) -> tuple[Drop, ...]:
        if not sidecar.counts.dropped:
            return ()
        path = self.generation_folder(sidecar) / "drops.parquet"
        return tuple(drops_of(table_in(path)))
