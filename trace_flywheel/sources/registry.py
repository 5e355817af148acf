"""The readers, found by themselves: every module of this package that defines `READER`, smallest precedence first.

A new format is one new file. Readers are plain stateless objects and import neither this module nor `discover`.
"""

import importlib
import pkgutil

import trace_flywheel.sources
from trace_flywheel.sources.reader import Folder, Reader

_ABOVE_READERS = {"registry", "claims", "discover", "unvisited"}


def _found() -> tuple[Reader, ...]:
    names = sorted(
        m.name for m in pkgutil.iter_modules(trace_flywheel.sources.__path__) if m.name not in _ABOVE_READERS
    )
    modules = [importlib.import_module(f"trace_flywheel.sources.{name}") for name in names]
    readers = [module.READER for module in modules if hasattr(module, "READER")]
    return tuple(sorted(readers, key=lambda reader: reader.precedence))


READERS = _found()


def claimed_by(folder: Folder) -> Reader | None:
    """The first reader that claims a folder."""
    return next((candidate for candidate in READERS if candidate.claims(folder)), None)


def reader(format: str) -> Reader:
    """The reader of a format by its name; KeyError for a name nobody has."""
    for candidate in READERS:
        if candidate.format == format:
            return candidate
    raise KeyError(format)
