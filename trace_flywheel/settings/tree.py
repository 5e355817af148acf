"""The tree of all settings, and what of it changes bytes."""

from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from trace_flywheel.settings.decisions import Dedup, Goldens, Grading, Groups, Pairs, Selection, Splits
from trace_flywheel.settings.recipe import LAYOUTS, Depth, Mix, Recipe
from trace_flywheel.settings.section import Section
from trace_flywheel.settings.toml import INPUT_FILES, TomlSource
from trace_flywheel.settings.upkeep import Automation, Card, Ingest, Lake, Redaction, Versions

ENV = "FLYWHEEL_"


class Settings(BaseSettings):
    """The tree. Build it with `load_settings`, which turns faults into `SettingsError`."""

    model_config = SettingsConfigDict(env_prefix="FLYWHEEL_", env_nested_delimiter="__", extra="ignore", frozen=True)

    roots: tuple[Path, ...] = ()
    """Folders that hold job folders, at any depth."""
    home: Path = Path(".flywheel")
    """Where lake, datasets and Dagster's own storage rest."""
    ingest: Ingest = Ingest()
    grading: Grading = Grading()
    goldens: Goldens = Goldens()
    corpora: tuple[Path, ...] = ()
    """Training data that exists already, JSONL, Parquet or `dataset:NAME@VERSION`: rows near one of it are dropped."""
    corrections: tuple[Path, ...] = ()
    """Files of corrections, one JSON object a line: `{trace_id, run_id?, content, corrected_by, turn?}`."""
    judge_scores: tuple[Path, ...] = ()
    """Files of judge scores, one JSON object a line: `{trace_id, run_id?, name?, value, scale?: [lo, hi], judge?}`."""
    groups: Groups = Groups()
    selection: Selection = Selection()
    pairs: Pairs = Pairs()
    dedup: Dedup = Dedup()
    redaction: Redaction = Redaction()
    depth: Depth = Depth()
    mix: Mix = Mix()
    splits: Splits = Splits()
    layouts: tuple[LAYOUTS, ...] = ("messages", "prime-sft", "trl-sft", "trl-dpo", "kto")
    """Layouts that every dataset is published in, where they fit its rows."""
    card: Card = Card()
    versions: Versions = Versions()
    lake: Lake = Lake()
    automation: Automation = Automation()
    datasets: dict[str, Recipe] = Field(default_factory=dict)
    """More datasets from the same index: `[datasets.NAME]` gives `NAME_sft`, `NAME_dpo` and the other kinds."""
    seed: int = 42
    """Breaks ties and orders the mix, together with content hashes."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlSource(settings_cls)

    def hashed(self) -> dict[str, Any]:
        """The settings that change bytes, as plain data: what a dataset version's id and its card hold."""
        tree = self.model_dump(mode="json")
        for name in ("roots", "home", "ingest", "versions", "automation", "lake", "datasets", "corpora", *INPUT_FILES):
            tree.pop(name)
        for name in ("paths", "forget"):
            tree["goldens"].pop(name)
        tree["grading"].pop("verdicts")
        for name in ("index", "ray_address"):
            tree["dedup"].pop(name)
        if tree["dedup"]["embedding_threshold"] is None:
            tree["dedup"].pop("embedding_threshold")
        tree.pop("depth")  # the classifier's digest holds what its files say
        tree["redaction"].pop("rules")  # their content is in the rule set's digest
        return tree


SECTIONS = tuple(
    name
    for name, field in Settings.model_fields.items()
    if name == "datasets" or (isinstance(field.annotation, type) and issubclass(field.annotation, Section))
)
"""Fields that have fields."""
