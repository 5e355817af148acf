"""What the partitions of runs would be made from now, and which of them are made from just that.

A partition's digest covers its step's code, settings and rules, the side inputs that concern the run, and the content
of the step before, or the folder's fingerprint. What all runs share is worked out once for a pass: an unchanged run
among ten thousand costs its own folder's fingerprint and its own three sidecars.
"""

from collections.abc import Set
from functools import cached_property
from typing import Any

import msgspec

from trace_flywheel.flow.erased import Erased, Tombs
from trace_flywheel.flow.ingest_tasks import GRADED, INDEX, REDACTED
from trace_flywheel.flow.inputs import SideInputs, read_options
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.sidecar import FORMAT, Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import canonical_value, content_id
from trace_flywheel.records.index import INDEX_VERSION
from trace_flywheel.settings import Settings

STEPS = (GRADED, REDACTED, INDEX)
BEFORE = {REDACTED: GRADED, INDEX: REDACTED}
ERASED_FROM = "erased_from"
"""Fact of a partition that an erasure wrote anew: the content of it that the step after was made from."""
CODE = {GRADED: 1, REDACTED: 5, INDEX: INDEX_VERSION}
"""Goes up when a step gives other bytes for the same input: its partitions are made again."""


class Expected:
    """One pass's view of settings, side inputs and tombstones, held against the lake run by run."""

    def __init__(self, lake: Lake, settings: Settings, inputs: SideInputs, tombs: Tombs | None = None) -> None:
        self._lake, self._settings, self._inputs = lake, settings, inputs
        self._tombs = tombs or Tombs(lake)

    @cached_property
    def _reading(self) -> dict[str, Any]:
        # In the form that is hashed: what all runs share is brought into it once.
        read: dict[str, Any] = canonical_value(msgspec.to_builtins(read_options(self._settings)))
        return read

    @cached_property
    def _rules(self) -> str:
        return policy_of(self._settings).digest()

    def erased(self, run_id: str) -> Erased:
        """What may not be read from a run.

        Only addresses are part of a run's digest: an erasure takes what it names out of every run that it finds it in,
        so that what others hold is what they would hold if they were read again.
        """
        return self._tombs.of(run_id)

    def shown(self, reason: str) -> str:
        """A reason for people, unless it quotes an erased value."""
        return self._tombs.everywhere.safe(reason)

    def digest(self, step: str, run_id: str, fingerprint: str) -> str:
        """Digest of all that a run's partition of this step depends on, with the step before as it stands."""
        before = self._lake.sidecar(BEFORE[step], run_id) if step in BEFORE else None
        return self._digest(step, before.content_digest if before else None, run_id, fingerprint)

    def is_fresh(self, step: str, run_id: str, fingerprint: str) -> bool:
        """Whether a run's partition of this step was made from what it would be made from now."""
        sidecar = self._lake.sidecar(step, run_id)
        return sidecar is not None and sidecar.inputs_digest == self.digest(step, run_id, fingerprint)

    def was_fresh(self, sidecar: Sidecar, standing: Set[str]) -> bool:
        """Whether a partition is fresh, or was before an erasure that was killed before it came to this partition:
        tombstones of what is `standing` in it did not count then, and the step before stood as it did."""
        step, run_id, fingerprint = sidecar.asset, sidecar.run_id, sidecar.source_fingerprint
        purged = self._purged(run_id)
        if step == GRADED:
            wanted = {self._graded(fingerprint, stones) for stones in (purged, purged - standing)}
        else:
            before = self._lake.sidecar(BEFORE[step], run_id)
            contents = (before.content_digest, before.facts.get(ERASED_FROM)) if before else (None,)
            wanted = {self._digest(step, content, run_id, fingerprint) for content in contents}
        return sidecar.inputs_digest in wanted

    def all_fresh(self, run_id: str, fingerprint: str) -> bool:
        """`is_fresh` of all steps; every sidecar is read once, and none after the first that is out of date."""
        content: str | None = None
        for step in STEPS:
            sidecar = self._lake.sidecar(step, run_id)
            if sidecar is None or sidecar.inputs_digest != self._digest(step, content, run_id, fingerprint):
                return False
            content = sidecar.content_digest
        return True

    def state(self, run_id: str, fingerprint: str) -> str:
        """Digest of all that a run's partitions are made from, whatever of them is made already."""
        return content_id([self._digest(step, None, run_id, fingerprint) for step in STEPS])

    def _purged(self, run_id: str) -> Set[str]:
        """Addresses of a run that were erased."""
        return self._tombs.by_run.get(run_id, {}).keys()

    def _graded(self, fingerprint: str, purged: Set[str]) -> str:
        kept = True if self._settings.lake.keep_raw else "digests"
        made_from = [FORMAT, CODE[GRADED], fingerprint, self._reading, kept]
        return content_id([*made_from, sorted(purged)] if purged else made_from)

    def _digest(self, step: str, content: str | None, run_id: str, fingerprint: str) -> str:
        """`content`: digest of what the step before made."""
        if step == GRADED:
            return self._graded(fingerprint, self._purged(run_id))
        if step == REDACTED:
            corrections = [msgspec.to_builtins(c) for _, c in sorted(self._inputs.corrections_of(run_id).items())]
            return content_id([FORMAT, CODE[step], content, self._rules, corrections])
        placeholders = self._settings.redaction.supervise_placeholders
        return content_id([FORMAT, CODE[step], content, self._inputs.goldens_digest, placeholders])
