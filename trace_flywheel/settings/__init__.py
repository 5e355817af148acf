"""Floor 1: one typed settings tree; the same fields come from `flywheel.toml`, the environment, code and Dagster.

Order, first wins: values given in code (the CLI's flags, Dagster's launchpad), `FLYWHEEL_SECTION__FIELD` in the
environment, the toml file (`--config`, `FLYWHEEL_CONFIG`, else `flywheel.toml` in the working folder), the default.
Relative paths are relative to the toml file's folder, else to the working folder. An unknown key is an error: a
misspelt setting never passes silently. Each field says its unit and, where it is a number, why that number.

Only what changes bytes enters `Settings.hashed()`; workers, ports and paths never do.
"""

from trace_flywheel.settings.decisions import Dedup as Dedup
from trace_flywheel.settings.decisions import Goldens as Goldens
from trace_flywheel.settings.decisions import Groups as Groups
from trace_flywheel.settings.decisions import Pairs as Pairs
from trace_flywheel.settings.decisions import Selection as Selection
from trace_flywheel.settings.decisions import Splits as Splits
from trace_flywheel.settings.load import load_settings as load_settings
from trace_flywheel.settings.recipe import Depth as Depth
from trace_flywheel.settings.recipe import Mix as Mix
from trace_flywheel.settings.recipe import Recipe as Recipe
from trace_flywheel.settings.section import SettingsError as SettingsError
from trace_flywheel.settings.toml import DATASET_CORPUS as DATASET_CORPUS
from trace_flywheel.settings.tree import Settings as Settings
