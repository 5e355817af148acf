"""Whether a dataset version was made against the goldens that are in force now.

A version pins the fingerprints of its golden files.
"""

from trace_flywheel.flow.inputs import golden_files
from trace_flywheel.flow.roots import roots_in_force
from trace_flywheel.lake.dataset import Version
from trace_flywheel.lake.goldens import known_goldens
from trace_flywheel.settings import Settings
from trace_flywheel.sources.discover import discover


def golden_files_now(settings: Settings) -> dict[str, str] | None:
    """Fingerprints of the golden files in force; None where there are no roots to find them above."""
    roots = [root for root in roots_in_force(settings) if root.exists()]
    if not roots and not settings.goldens.paths:
        return None
    return golden_files(discover(roots).runs, settings, known_goldens(settings.home))


def is_stale(version: Version, goldens: dict[str, str] | None) -> bool | None:
    """None where nobody can say: no roots now, or a version that pins nothing."""
    pinned = version.manifest["inputs"].get("golden_files")
    return None if goldens is None or pinned is None else bool(pinned != goldens)
