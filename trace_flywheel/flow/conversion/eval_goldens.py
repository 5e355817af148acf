"""Which eval goldens a conversion holds its rows against: those that were named, and those that lie beside the runs."""

from collections.abc import Sequence
from pathlib import Path

from trace_flywheel.records.golden import Golden
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.sources.goldens import goldens_above
from trace_flywheel.sources.reader import Run


def goldens_told(named: Sequence[Path], pii: Policy | str | None, runs: Sequence[Run]) -> tuple[Golden, ...]:
    """The goldens, redacted as rows are."""
    paths = (*named, *(path for run in runs for path in goldens_above(run)))
    if not paths:
        return ()
    # numbers and tables are imported for goldens alone
    from trace_flywheel.flow.conversion.holdout import goldens_for

    return goldens_for(paths, pii)
