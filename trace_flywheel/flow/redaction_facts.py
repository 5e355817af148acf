"""What a dataset says about redaction: findings in its runs by rule, and the turns that placeholders keep from being
learned. A share of masked turns above the band stops publication: rules that hit half of the turns are wrong, or the
runs are."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from trace_flywheel.flow.writing import Published
from trace_flywheel.lake.sidecar import LakeError, Sidecar
from trace_flywheel.settings import Settings


def redaction_facts(name: str, runs: Sequence[Sidecar], done: Published, settings: Settings) -> dict[str, Any]:
    """The facts, under `redaction`. Raises `LakeError` where the share of masked turns is above the band."""
    turns, masked = done.turns, done.turns_masked
    band = settings.redaction.masked_share
    if masked > band * turns:
        raise LakeError(
            f"{name}: not published: {masked} of {turns} turns ({masked / turns:.0%}) would teach a placeholder, above "
            f"redaction.masked_share = {band}; look at the findings of its runs, or raise the band"
        )
    findings: Counter[str] = Counter()
    for run in runs:
        findings.update(run.facts.get("findings", {}))
    return {
        "redaction": {
            "findings_in_runs": dict(sorted(findings.items())),
            "turns": turns,
            "turns_masked_for_placeholders": masked,
        }
    }
