"""docs/settings.md names every setting with its default and its meaning, as the model has them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from trace_flywheel.settings import Recipe, Settings
from trace_flywheel.settings.meaning import meanings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def rows(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The page's table rows of a model."""
    for name, field in model.model_fields.items():
        kind, default = field.annotation, field.get_default(call_default_factory=True)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from rows(kind, f"{prefix}{name}.")
        else:
            described = meanings(model)
            assert described.get(name), f"{prefix}{name} has no docstring"
            yield f"| `{prefix}{name}` | `{spelt(default)}` | {' '.join(described[name].split())} |"


def spelt(value: object) -> str:
    if isinstance(value, Path):
        value = str(value)
    return json.dumps(list(value) if isinstance(value, tuple) else value)


ROWS = [*rows(Settings), *rows(Recipe, "datasets.NAME.")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("`")[1])
def test_each_setting_is_on_the_page(row: str) -> None:
    assert row in PAGE.read_text("utf-8").splitlines()


def test_the_page_names_no_setting_that_does_not_exist() -> None:
    listed = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(ROWS)
