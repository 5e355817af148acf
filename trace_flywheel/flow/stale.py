"""Whether a dataset version was made against the goldens that are in force now.

A version pins the fingerprints of its golden files and the digest of what they say. Files that say the same as before
(moved, a line repeated, in another order) make no version stale, as a refresh makes no new one.
"""

from collections.abc import Sequence
from functools import cached_property

from trace_flywheel.flow.inputs import golden_files, side_inputs
from trace_flywheel.flow.roots import roots_in_force
from trace_flywheel.lake.dataset import Version
from trace_flywheel.lake.goldens import known_goldens
from trace_flywheel.settings import Settings
from trace_flywheel.sources.discover import discover
from trace_flywheel.sources.reader import Run


class Goldens:
    """Those in force; what they say is read where their files are other ones alone."""

    def __init__(self, runs: Sequence[Run], settings: Settings) -> None:
        self._runs, self._settings = runs, settings
        self._known = known_goldens(settings.home)
        self.files = golden_files(runs, settings, self._known)

    @cached_property
    def digest(self) -> str:
        return side_inputs(self._runs, self._settings, self._known).goldens_digest


def goldens_now(settings: Settings) -> Goldens | None:
    """None where there are no roots to find them above."""
    roots = [root for root in roots_in_force(settings) if root.exists()]
    if not roots and not settings.goldens.paths:
        return None
    return Goldens(discover(roots).runs, settings)


def is_stale(version: Version, goldens: Goldens | None) -> bool | None:
    """None where nobody can say: no roots now, or a version that pins nothing."""
    inputs = version.manifest["inputs"]
    if goldens is None or inputs.get("golden_files") is None:
        return None
    return bool(inputs["golden_files"] != goldens.files and inputs["goldens"] != goldens.digest)
