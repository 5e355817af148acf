"""Floor 5: Dagster's view of the flow. Thin: assets call `flow` and say what came of it."""

import warnings

from dagster import BetaWarning

# `backfill_policy` is beta in 1.13; the pin in pyproject.toml is what keeps it as it was measured.
warnings.filterwarnings("ignore", category=BetaWarning)
