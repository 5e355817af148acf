"""Settings from flags, environment and toml file, or one error that names the field, the fault and the place."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import SettingsError as UnreadableVariable

from trace_flywheel.settings.section import SettingsError
from trace_flywheel.settings.toml import TomlSource, config_file
from trace_flywheel.settings.tree import ENV, SECTIONS, Settings

RECIPE_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")

DEFAULT_RECIPE_NAMES = frozenset({"sft", "dpo", "kto", "rl", "balanced"})


def _check_environment() -> None:
    """Refuse `FLYWHEEL_SECTION__FIELD` of no section. Names without `__` may be another program's."""
    for name in sorted(os.environ):
        section, nested, _ = name.removeprefix(ENV).lower().partition("__")
        if name.startswith(ENV) and nested and section not in Settings.model_fields:
            raise SettingsError(f"environment: {name}: unknown section {section!r}; known: {', '.join(SECTIONS)}")


def _place(file: Path | None, field: list[str], values: Mapping[str, Any]) -> str:
    """Where the value of a field was given: the source that wins among those that give it."""
    tree: Any = values
    for part in field:
        if isinstance(tree, Mapping):
            tree = tree.get(part)
    if tree is not None and field:
        return "launchpad or flags"
    named = {name.upper() for name in os.environ}
    if file is None or any(f"{ENV}{'__'.join(field[:n])}".upper() in named for n in range(1, len(field) + 1)):
        return "environment or flags"
    return str(file)


def _too_wide(tree: Any, *path: str) -> tuple[str, ...]:
    """Where a whole number stands that JSON and Parquet cannot hold; TOML has them of any length."""
    if isinstance(tree, int) and not -(2**63) <= tree < 2**63:
        return path
    inner = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, tuple | list) else ()
    return next((wide for name, value in inner if (wide := _too_wide(value, *path, str(name)))), ())


def load_settings(config: Path | None = None, **values: Any) -> Settings:
    """The settings in force. `values` (nested plain data) win over everything.

    Raises `SettingsError` with the field, the fault and the place for an unreadable file or an invalid value.
    """
    file = config_file(config)
    _check_environment()
    TomlSource.file = file
    try:
        settings = Settings(**values)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from None
    except UnreadableVariable as error:  # a list or a table that is no JSON; the text names the field
        raise SettingsError(f"environment: {str(error).split(' from source')[0]}: must be JSON") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        where = _place(file, [str(part) for part in first["loc"]], values)
        raise SettingsError(f"{where}: {field}: {first['msg']} (got {first.get('input')!r:.80})") from None
    finally:
        TomlSource.file = None
    if wide := _too_wide(settings.model_dump()):
        raise SettingsError(
            f"{_place(file, list(wide), values)}: {'.'.join(wide)}: beyond 64 bits, which nothing holds"
        )
    for name in settings.datasets:
        if not RECIPE_NAME.fullmatch(name) or name in DEFAULT_RECIPE_NAMES:
            raise SettingsError(
                f"datasets.{name}: a recipe's name is lower-case letters, digits and _, and not one of "
                f"{', '.join(sorted(DEFAULT_RECIPE_NAMES))}"
            )
    return settings
