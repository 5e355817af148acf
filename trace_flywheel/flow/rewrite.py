"""A run's partitions without what is erased: written anew part by part, so that part k still follows from part k."""

from collections.abc import Sequence, Set

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from trace_flywheel.flow import contents
from trace_flywheel.flow.erased import purged, texts_of
from trace_flywheel.flow.expected import BEFORE, ERASED_FROM, Expected
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.columns import table_in
from trace_flywheel.lake.parts import TableFile
from trace_flywheel.lake.purged import address_of
from trace_flywheel.lake.sidecar import Part, Sidecar, file_mode
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.fate import Drop
from trace_flywheel.settings import Settings

BATCH_ROWS = 1_000


class Gone(msgspec.Struct, frozen=True):
    """What a run loses: rollouts by trace id, and drops that quote a value."""

    traces: frozenset[str]
    spelt: tuple[bytes, ...]
    reason: str

    def takes(self, drop: Drop) -> bool:
        return drop.trace_id in self.traces or any(text in texts_of(drop) for text in self.spelt)

    def drop(self, run_id: str, trace_id: str | None) -> Drop:
        if trace_id is None:
            return purged(run_id, None, "value", self.reason)
        return purged(run_id, address_of(run_id, trace_id), "address", self.reason)


def rewrite(
    lake: Lake, settings: Settings, inputs: SideInputs, sidecar: Sidecar, gone: Gone, fresh: bool, follows: bool
) -> None:
    """One partition of a run without what is gone; each row that it loses is a nameless drop.

    A partition that was up to date stays so; one that was not is made again by the next refresh, as before. One that
    follows from the step before as that stood follows from it still, so that its run is no run without an index. What
    that was stands in `ERASED_FROM` until then: the next erasure knows it where this one is killed.
    """
    step, run_id = sidecar.asset, sidecar.run_id
    parts: list[Part] = []
    carried = lake.drops(sidecar)
    lost = [gone.drop(run_id, drop.trace_id) for drop in carried if gone.takes(drop)]
    with lake.generation(step, run_id) as folder:
        for part in sidecar.parts:
            table = table_in(lake.part_path(sidecar, part))
            is_gone = is_of(table, gone.traces)
            left = table.filter(pc.invert(is_gone))
            lost += [gone.drop(run_id, trace) for trace in table.filter(is_gone)["trace_id"].to_pylist()]
            if step == INDEX:
                left = _closed_up(left)
            with TableFile(folder / part.name, left.schema, file_mode(step), part.chunk) as file:
                for start in range(0, left.num_rows, BATCH_ROWS):
                    file.write(left.slice(start, BATCH_ROWS))
            parts.append(file.part)
        if step == GRADED and (lake.generation_folder(sidecar) / contents.FILE).is_file():
            known = contents.contents_of(lake, sidecar)
            contents.write_contents(folder, [pair for pair in known if pair[0] not in gone.traces])
        before = lake.sidecar(BEFORE[step], run_id) if step in BEFORE and (fresh or follows) else None
        after = _after(lake, sidecar) if lost else None
        staged = lake.stage(
            folder,
            step,
            run_id,
            parts=parts,
            drops=[*(drop for drop in carried if not gone.takes(drop)), *lost],
            entered=sidecar.counts.entered,
            inputs_digest=_wanted(lake, settings, inputs, sidecar) if fresh else sidecar.inputs_digest,
            source_fingerprint=sidecar.source_fingerprint,
            facts={
                **sidecar.facts,
                **({"of": before.content_digest} if before else {}),
                **({ERASED_FROM: after} if after else {}),
            },
        )
        lake.land([staged])


def _closed_up(index: pa.Table) -> pa.Table:
    """Index entries with the positions of a redacted part that lost the same rows."""
    at = index.column_names.index("position")
    field = index.schema.field(at)
    return index.set_column(at, field, pa.array(range(index.num_rows), field.type))


def _after(lake: Lake, sidecar: Sidecar) -> str | None:
    """The content of a partition that the step after it was made from; None where that is not this one's."""
    step = next((after for after, before in BEFORE.items() if before == sidecar.asset), None)
    after = lake.sidecar(step, sidecar.run_id) if step is not None else None
    return after.facts["of"] if after is not None and follows(after, (sidecar,)) else None


def is_fresh(lake: Lake, settings: Settings, inputs: SideInputs, sidecar: Sidecar) -> bool:
    """Whether a partition was up to date: now, or before an erasure began that was killed since."""
    tables = (table_in(lake.part_path(sidecar, part), columns=["trace_id"]) for part in sidecar.parts)
    standing = {address_of(sidecar.run_id, trace) for table in tables for trace in table["trace_id"].to_pylist()}
    return Expected(lake, settings, inputs).was_fresh(sidecar, standing)


def follows(sidecar: Sidecar, standing: Sequence[Sidecar]) -> bool:
    """Whether a partition was made from the step before as it stands, or as it stood before a killed erasure."""
    before = (s for s in standing if s.asset == BEFORE.get(sidecar.asset))
    return any(sidecar.facts["of"] in (s.content_digest, s.facts.get(ERASED_FROM)) for s in before)


def _wanted(lake: Lake, settings: Settings, inputs: SideInputs, sidecar: Sidecar) -> str:
    return Expected(lake, settings, inputs).digest(sidecar.asset, sidecar.run_id, sidecar.source_fingerprint)


def is_of(table: pa.Table, traces: Set[str]) -> pa.ChunkedArray:
    """Which rows are of these trace ids."""
    return pc.is_in(table["trace_id"], value_set=pa.array(sorted(traces), pa.string()))
