"""The settings tree in the launchpad: the same fields as `flywheel.toml`, generated from the same model.

A field left empty follows toml file and environment at the moment of the run; a field set there wins for that run
alone. `home`, `automation` and `datasets` shape the code location itself and cannot be set for one run.
"""

import enum
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, Field, create_model

from trace_flywheel.settings import Settings, load_settings
from trace_flywheel.settings.meaning import meanings

SHAPE_OF_LOCATION = frozenset({"home", "automation", "datasets"})


def _config_type(name: str, annotation: Any) -> Any:
    """The launchpad's type of a settings field: choices are enums, which Dagster refuses at launch when misspelt."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _config_of(annotation)
    if origin is Literal:
        return enum.Enum(f"{name}_choice", {value: value for value in arguments}, type=str)
    if origin is tuple:
        return list[_config_type(name, arguments[0])]  # type: ignore[misc]  # a type made at run time
    if origin is dict:
        return dict[str, float] if arguments[1] is float else dict[str, str]
    if origin in (Union, types.UnionType) or annotation is Path:
        return str
    return annotation


def _config_of(model: type[BaseModel], base: type[dg.Config] = dg.Config, skip: frozenset[str] = frozenset()) -> Any:
    fields: dict[str, Any] = {}
    described = meanings(model)
    for name, field in model.model_fields.items():
        if name in skip:
            continue
        kind = _config_type(name, field.annotation)
        if isinstance(kind, type) and issubclass(kind, dg.Config):
            fields[name] = (kind, Field(default_factory=kind))
        else:
            fields[name] = (kind | None, Field(None, description=described.get(name)))
    return create_model(f"{model.__name__}Config", __base__=base, **fields)


class Overridable(dg.ConfigurableResource[None]):
    """What the generated resource inherits: how its fields become settings."""

    def load(self) -> Settings:
        """The settings in force for this run. Raises `SettingsError`."""
        return load_settings(**_given(self))


def _given(value: BaseModel) -> dict[str, Any]:
    """Fields that somebody filled in, as nested plain data."""
    tree: dict[str, Any] = {}
    for name in type(value).model_fields:
        inner = getattr(value, name)
        if isinstance(inner, BaseModel):
            if nested := _given(inner):
                tree[name] = nested
        elif inner is not None:
            tree[name] = inner.value if isinstance(inner, enum.Enum) else inner
    return tree


if TYPE_CHECKING:

    class SettingsResource(Overridable):
        """The generated resource, for the type checker."""
else:
    SettingsResource = _config_of(Settings, Overridable, SHAPE_OF_LOCATION)
