"""One rollout through all datasets: what became of it in each, and the evidence."""

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from trace_flywheel.flow.ingest_tasks import GRADED
from trace_flywheel.lake import dataset
from trace_flywheel.lake.purged import address_of
from trace_flywheel.lake.quarantine import quarantines
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.redaction.redact import redactor


def why(lake: Lake, trace_id: str, run_id: str | None = None) -> list[dict[str, Any]]:
    """The fates of a trace, dataset by dataset, in its newest version. `run_id` may be a run's last component.

    Raises `FlywheelError` where no dataset knows it, and says what does.
    """
    found: list[dict[str, Any]] = []
    for name in dataset.names(lake.home):
        newest = dataset.find_version(lake.home, name)
        table = dataset.fates(newest)
        named = table.filter(pc.equal(table["trace_id"], trace_id)).to_pylist()
        for fate in (*named, *_erased(table, trace_id)):
            if run_id is None or fate["run_id"] == run_id or str(fate["run_id"]).rsplit("/", 1)[-1] == run_id:
                evidence = orjson.loads(fate["evidence"]) if fate["evidence"] else {}
                found.append({"dataset": name, "version": newest.version, **fate, "evidence": evidence})
    if not found:
        mask = redactor("none").mask
        told = f"no rollout {mask(trace_id)!r}{f' of run {mask(run_id)!r}' if run_id else ''}"
        raise FlywheelError(f"{told}; {_what_there_is(lake)}")
    return found


def _erased(fates: pa.Table, trace_id: str) -> Iterator[dict[str, Any]]:
    """Fates that have no name any more and are this trace's: their evidence has the hash of its address."""
    nameless = fates.filter(pc.and_(pc.equal(fates["reason"], "purged"), pc.is_null(fates["trace_id"])))
    for fate in nameless.to_pylist():
        evidence = orjson.loads(fate["evidence"]) if fate["evidence"] else {}
        if evidence.get("address") == address_of(fate["run_id"], trace_id):
            yield {**fate, "trace_id": trace_id}


def _what_there_is(lake: Lake) -> str:
    if not dataset.names(lake.home):
        return f"{lake.home} holds no dataset yet: run `flywheel refresh`"
    runs = len(lake.sidecars(GRADED))
    away = "".join(f"; {q.run_id} is quarantined: {q.reason}" for q in quarantines(lake)[:3])
    return f"{runs} runs were read (`flywheel sources DIR` lists what a folder holds){away}"
