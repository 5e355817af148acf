"""Options that several commands share, and how they become settings."""

import math
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from trace_flywheel.records.errors import FlywheelError

Home = Annotated[Path | None, typer.Option("--home", help="Where lake, datasets and Dagster's storage rest.")]
Config = Annotated[Path | None, typer.Option("--config", help="Settings file instead of flywheel.toml.")]
Roots = Annotated[
    list[Path] | None, typer.Option("--root", help="Folder that holds job folders, at any depth. May be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def finite(value: float | None) -> float | None:
    """Callback of options that take a float: NaN and infinities pass every bound, and every comparison wrongly."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("must be a finite number")
    return value


def positive(value: float) -> float:
    """Callback of options where 0 means nothing either."""
    if not (math.isfinite(value) and value > 0):
        raise typer.BadParameter("must be a finite number above 0")
    return value


def inner_share(value: float) -> float:
    """A share that leaves something on both sides, as an option's callback."""
    if not 0 < value < 1:
        raise typer.BadParameter("must be above 0 and below 1")
    return value


def settings_of(home: Path | None, config: Path | None, roots: list[Path] | None = None) -> Any:
    """The settings in force: flags first, then environment, then the toml file."""
    from trace_flywheel.settings import load_settings

    given: dict[str, Any] = {}
    if home is not None:
        given["home"] = home
    if roots:
        given["roots"] = tuple(roots)
    settings = load_settings(config, **given)
    if settings.home.exists() and not settings.home.is_dir():
        raise FlywheelError(f"{settings.home}: the home is a file; give a folder with --home")
    try:
        str(settings.home.absolute()).encode()
    except UnicodeEncodeError:  # Dagster's files and what is published name it
        raise FlywheelError(
            f"{settings.home}: the home's path is not UTF-8; give another with --home, or a locale with UTF-8"
        ) from None
    return settings


def tell_refused(home: Path, name: str | None = None) -> None:
    """Say on stderr which datasets, or whether this one, were refused since, and why."""
    from trace_flywheel.flow.standing import refused_now

    for refused, reason in refused_now(home).items():
        if name is None or name == refused:
            print(f"warning: {refused}: {reason}", file=sys.stderr)


def group_keys(text: str) -> tuple[str, ...]:
    """The names of `--group-by`; wrong usage for an unknown or repeated one."""
    from trace_flywheel.flow.conversion.rollout import GROUP_KEYS

    keys = tuple(part.strip() for part in text.split(","))
    if len(set(keys)) != len(keys) or not set(keys) <= set(GROUP_KEYS):
        raise typer.BadParameter(f"distinct names of {', '.join(GROUP_KEYS)}", param_hint="--group-by")
    return keys


def program() -> str:
    """How to call this program again: its name where the shell finds it, else its path."""
    path = Path(sys.argv[0])
    if path.name != "flywheel":
        return "flywheel"
    found = shutil.which("flywheel")
    if found is not None and path.exists() and Path(found).samefile(path):
        return "flywheel"
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
