"""The assets over all runs by name: those of the default recipe, and the same for each `[datasets.NAME]`.

grouped_advantages, depth_classifier                                          unpartitioned, in the lake
sft_dataset, dpo_dataset, kto_dataset, rl_dataset, rl_prompts, balanced_mix   dataset versions
NAME_sft, NAME_dpo, NAME_kto, NAME_rl, NAME_prompts, NAME_mix                 those of a recipe
"""

from collections.abc import Iterator
from typing import Literal

from trace_flywheel.settings import Depth, Settings

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
SUFFIX = {"sft": "sft", "pair": "dpo", "kto": "kto", "rl": "rl", "prompt": "prompts", "mix": "mix"}
Kind = Literal["sft", "pair", "kto", "rl", "prompt", "mix"]
KINDS: tuple[Kind, ...] = ("sft", "pair", "kto", "rl", "prompt", "mix")
"""A mix stands after the SFT set that it is made from."""
IN_TURN: tuple[Kind, ...] = ("pair", "sft", "prompt", "mix", "rl", "kto")
"""Kinds as a pass makes them: first what is soon decided, so that the others are while its rows are made, then what a
mix is made from, and what has few rows while the many of others are made. The last has two layouts: its files are
written and read again by two processes, when nothing else is left to do."""


def name_of(kind: Kind, recipe: str | None = None) -> str:
    """The dataset's name: of the default recipe, or `RECIPE_sft` and so on."""
    return NAMES[kind] if recipe is None else f"{recipe}_{SUFFIX[kind]}"


def classifier_of(settings: Settings, recipe: str | None) -> tuple[str, Depth]:
    """The classifier that a recipe's mix uses, and what it learns from: its own, else the common one."""
    own = settings.datasets[recipe].depth if recipe is not None else None
    return (CLASSIFIER, settings.depth) if own is None else (f"{recipe}_{CLASSIFIER}", own)


def classifiers(settings: Settings) -> tuple[str, ...]:
    """The names of all classifiers."""
    return tuple(dict.fromkeys(classifier_of(settings, recipe)[0] for recipe in (None, *sorted(settings.datasets))))


REFUSED = "_refused"


def refusals_of(name: str) -> str:
    """Where the lake keeps why a dataset was not published."""
    return name + REFUSED


DOUBTED = "_doubted"


def doubts_of(name: str) -> str:
    """Where the lake keeps that the newest version of a dataset does not keep what it promises."""
    return name + DOUBTED


def every(settings: Settings) -> Iterator[tuple[Kind, str | None]]:
    """(kind, recipe) of all datasets, those of the default recipe first."""
    yield from ((kind, recipe) for recipe in (None, *sorted(settings.datasets)) for kind in KINDS)
