"""Which runs take part in a pass, and what is known of them without a row: no table is loaded for it."""

from collections.abc import Sequence
from pathlib import Path

from trace_flywheel.flow.ingest_tasks import INDEX, REDACTED
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.sidecar import Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import content_id


def agreeing(lake: Lake) -> tuple[tuple[Sidecar, ...], tuple[str, ...]]:
    """The index sidecars of the runs whose index was made from their text as it is now, and the names of the others."""
    texts = {s.run_id: s.content_digest for s in lake.sidecars(REDACTED)}
    found = lake.sidecars(INDEX)
    good = tuple(s for s in found if s.facts["of"] == texts.get(s.run_id))
    return good, tuple(sorted({s.run_id for s in found} - {s.run_id for s in good}))


def digest_of(runs: Sequence[Sidecar]) -> str:
    """Of the content of every run: what a dataset depends on."""
    return content_id([[s.run_id, s.content_digest, s.inputs_digest] for s in runs])


def unusable(inputs: SideInputs) -> list[str]:
    """A warning of the lines that say nothing, without the folder that their file stands in: versions repeat it."""
    if not inputs.problems:
        return []
    where = f"{Path(inputs.problems[0].path or '').name}:{inputs.problems[0].evidence.get('line', 1)}"
    return [f"{len(inputs.problems)} lines of input files could not be used; the first is {where}."]
