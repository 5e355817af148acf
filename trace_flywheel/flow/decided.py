"""What a dataset would hold, by kind and recipe: each decided with what the pass has worked out."""

from trace_flywheel.flow import curate, funnel
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.manifest import recipe_settings
from trace_flywheel.flow.names import name_of


def decided(curation: Curation, kind: funnel.Kind, recipe: str | None) -> Curated:
    """What a dataset would hold: every decision before publication."""
    settings, chosen = recipe_settings(curation.settings, recipe)
    index, common = curation.index, curation.attempts
    if recipe is not None:
        index, common = funnel.of_recipe(index, common, chosen)
    if kind == "sft":
        corpora = curation.corpora(name_of(kind, recipe))
        return curate.sft(index, common, curation.holdout, corpora, settings, curation.meanings)
    if kind == "kto":
        if recipe not in curation.paired:
            decided(curation, "pair", recipe)
        return curate.kto(index, common, curation.holdout, settings, curation.paired[recipe])
    decide = {"pair": curate.pairs, "rl": curate.rl, "prompt": curate.prompts}[kind]
    made = decide(index, common, curation.holdout, settings)
    if kind == "pair":
        curation.paired[recipe] = made.kept
    return made
