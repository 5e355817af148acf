"""Which roots are in force: those of the settings, else those that this home was last fed from.

`<home>/roots.json` maps a root's label to its folder. So a run that was read once can be read again from Dagster's
pages, and `flywheel ui` after `flywheel refresh --root DIR` watches the same folders without a settings file.
"""

import json
from pathlib import Path

from trace_flywheel.lake.files import replace_text
from trace_flywheel.settings import Settings
from trace_flywheel.sources.discover import place_of


def remembered(home: Path) -> dict[str, Path]:
    """Label to folder of every root that was read into this home; folders that are away are left out."""
    return {label: folder for label, folder in _known(home).items() if folder.exists()}


def away(settings: Settings) -> tuple[Path, ...]:
    """Roots that this home was fed from and that are not there now: of them nothing is read, and that must be told."""
    return () if settings.roots else tuple(folder for folder in _known(settings.home).values() if not folder.exists())


def _known(home: Path) -> dict[str, Path]:
    path = home / "roots.json"
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return {label: Path(folder) for label, folder in found.items()}


def remember(home: Path, roots: tuple[Path, ...]) -> None:
    """Note the roots of a refresh; a label's newest folder wins. One that is away stays known: it may come back."""
    known = {label: str(folder) for label, folder in _known(home).items()}
    now = {**known, **{place.name: str(place) for place in map(place_of, roots)}}
    if now != known:
        replace_text(home / "roots.json", json.dumps(now, indent=1, sort_keys=True) + "\n")


def roots_in_force(settings: Settings) -> tuple[Path, ...]:
    return settings.roots or tuple(remembered(settings.home).values())
