"""What other settings would keep: rows of an SFT set over keep fractions and near-duplicate thresholds.

Decisions alone, on the index: nothing is published, and statistics, goldens and corpora are those of the set itself.
The values in force are always among those tried, so that their number can be compared with the published one.
"""

import msgspec

from trace_flywheel.flow import curate, funnel
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.manifest import recipe_settings
from trace_flywheel.flow.names import every, name_of
from trace_flywheel.records.errors import FlywheelError

FRACTIONS = (0.1, 0.25, 0.5, 0.75, 1.0)
THRESHOLDS = (0.7, 0.8, 0.85, 0.9, 1.0)


class Swept(msgspec.Struct, frozen=True):
    keep_fraction: float
    threshold: float
    rows: int
    in_force: bool


def sweep(curation: Curation, name: str = "sft_dataset") -> tuple[Swept, ...]:
    """Rows for every pair of values, sorted. `FlywheelError` for a dataset that is no SFT set."""
    recipes = {name_of(kind, recipe): recipe for kind, recipe in every(curation.settings) if kind == "sft"}
    if name not in recipes:
        raise FlywheelError(f"{name}: a sweep is of an SFT set; there are: {', '.join(recipes)}")
    settings, chosen = recipe_settings(curation.settings, recipes[name])
    index, common = curation.index, curation.attempts
    if recipes[name] is not None:
        index, common = funnel.of_recipe(index, common, chosen)
    corpora, holdout = curation.corpora(name), curation.holdout
    now = settings.selection.keep_fraction, settings.dedup.threshold
    found = []
    for fraction in sorted({*FRACTIONS, now[0]}):
        for threshold in sorted({*THRESHOLDS, now[1]}):
            other = settings.model_copy(
                update={
                    "selection": settings.selection.model_copy(update={"keep_fraction": fraction}),
                    "dedup": settings.dedup.model_copy(update={"threshold": threshold}),
                }
            )
            rows = len(curate.sft(index, common, holdout, corpora, other, curation.meanings).kept)
            found.append(Swept(fraction, threshold, rows, (fraction, threshold) == now))
    return tuple(found)
