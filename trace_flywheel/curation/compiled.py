"""One switch for compiled loops: numba where it is installed, plain Python with the same results where it is not."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

COMPILED = find_spec("numba") is not None
"""Whether loops are compiled. Callers with a vectorised numpy twin use it where they are not."""

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F) -> _F:
    """Compile a loop over numpy arrays; without the interpreter lock, cached on disk where a folder can be written."""
    if not COMPILED:
        return function
    from numba import njit

    try:
        return cast(_F, njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no writable cache folder: compile anew in each process
        return cast(_F, njit(nogil=True)(function))
