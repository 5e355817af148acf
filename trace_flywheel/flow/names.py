"""The assets over all runs by name: those of the default recipe, and the same for each `[datasets.NAME]`.

grouped_advantages, depth_classifier   unpartitioned, in the lake
sft_dataset, dpo_dataset, kto_dataset, rl_dataset, rl_prompts, balanced_mix   dataset versions
"""

from collections.abc import Iterator
from typing import Literal

from trace_flywheel.settings import Settings

ADVANTAGES, CLASSIFIER = "grouped_advantages", "depth_classifier"
NAMES = {
    "sft": "sft_dataset",
    "pair": "dpo_dataset",
    "kto": "kto_dataset",
    "rl": "rl_dataset",
    "prompt": "rl_prompts",
    "mix": "balanced_mix",
}
"""Datasets of the default recipe by kind."""
SUFFIX = {"sft": "sft", "pair": "dpo", "mix": "mix"}
Kind = Literal["sft", "pair", "kto", "rl", "prompt", "mix"]
OF_RECIPES: tuple[Kind, ...] = ("sft", "pair", "mix")
"""Kinds that a recipe gives; the others exist once."""


def name_of(kind: Kind, recipe: str | None = None) -> str:
    """The dataset's name: of the default recipe, or `RECIPE_sft`, `RECIPE_dpo`, `RECIPE_mix`."""
    return NAMES[kind] if recipe is None else f"{recipe}_{SUFFIX[kind]}"


def every(settings: Settings) -> Iterator[tuple[Kind, str | None]]:
    """(kind, recipe) of all datasets, a mix after the SFT set that it is made from."""
    kinds: tuple[Kind, ...] = ("sft", "pair", "kto", "rl", "prompt", "mix")
    yield from ((kind, None) for kind in kinds)
    yield from ((kind, recipe) for recipe in sorted(settings.datasets) for kind in OF_RECIPES)
