"""The toml file as a source of settings: which file is in force, and its relative paths made absolute."""

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic_settings import PydanticBaseSettingsSource

from trace_flywheel.settings.section import SettingsError

INPUT_FILES = ("corrections", "judge_scores")
"""Paths of files that are inputs: their content counts, not where they stand."""

DATASET_CORPUS = "dataset:"
"""How a corpus that is a published dataset version begins."""

SECTION_PATHS = (
    ("goldens", "paths"),
    ("goldens", "forget"),
    ("grading", "verdicts"),
    ("redaction", "rules"),
    ("depth", "labels"),
    ("depth", "held_out"),
)
"""Fields inside sections that hold paths."""


class TomlSource(PydanticBaseSettingsSource):
    """Reads the toml file named by `load_settings`; relative paths become absolute against its folder."""

    file: Path | None = None

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError  # pragma: no cover - pydantic-settings calls __call__ only

    def __call__(self) -> dict[str, Any]:
        if self.file is None:
            return {}
        tree = tomllib.loads(self.file.read_text("utf-8"))
        known = self.settings_cls.model_fields
        unknown = sorted(set(tree) - set(known))
        if unknown:
            raise SettingsError(f"{self.file}: unknown setting {unknown[0]!r}; known: {', '.join(known)}")
        base = self.file.resolve().parent
        recipes = tree.get("datasets")
        for part in (tree, *(recipes.values() if isinstance(recipes, dict) else ())):
            for section, name in SECTION_PATHS:
                if isinstance(part, dict) and isinstance(part.get(section), dict) and name in part[section]:
                    part[section][name] = _absolute(part[section][name], base)
        for name in ("roots", "corpora", "home", *INPUT_FILES):
            if name in tree:
                tree[name] = _absolute(tree[name], base)
        return tree


def _absolute(value: Any, base: Path) -> Any:
    if isinstance(value, list):
        return [_absolute(v, base) for v in value]
    if isinstance(value, str) and value.startswith(DATASET_CORPUS):
        return value
    return str(base / value) if isinstance(value, str) else value


def config_file(explicit: Path | None = None) -> Path | None:
    """The toml file in force: the explicit one, `FLYWHEEL_CONFIG`, else `flywheel.toml` here if it exists."""
    if explicit is None and (named := os.environ.get("FLYWHEEL_CONFIG")):
        explicit = Path(named)
    if explicit is not None:
        if not explicit.is_file():
            raise SettingsError(f"{explicit}: no such settings file; give another with --config or FLYWHEEL_CONFIG")
        return explicit
    here = Path("flywheel.toml")
    return here if here.is_file() else None
