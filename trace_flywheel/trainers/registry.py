"""The layouts, found by themselves: every module of this package that defines `LAYOUT`. A new trainer is a new file."""

import importlib
import pkgutil
from functools import cache

from trace_flywheel import trainers
from trace_flywheel.trainers.layout import Layout


@cache
def layouts() -> dict[str, Layout]:
    """All layouts by name, sorted."""
    found = {}
    for info in pkgutil.iter_modules(trainers.__path__):
        module = importlib.import_module(f"{trainers.__name__}.{info.name}")
        if isinstance(value := getattr(module, "LAYOUT", None), Layout):
            found[value.NAME] = value
    return dict(sorted(found.items()))


def layout(name: str) -> Layout:
    """The layout of that name; `KeyError` with the known names otherwise."""
    try:
        return layouts()[name]
    except KeyError:
        raise KeyError(f"no layout {name!r}; known: {', '.join(layouts())}") from None
