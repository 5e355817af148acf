"""One switch for compiled loops: numba where it is installed, plain Python with the same results where it is not.

Numba takes 70 MB before a loop runs, so it is imported when the first loop runs, not where one is declared.
"""

from collections.abc import Callable
from functools import update_wrapper
from importlib.util import find_spec
from typing import Any, TypeVar, cast

COMPILED = find_spec("numba") is not None
"""Whether loops are compiled. Callers with a vectorised numpy twin use it where they are not."""

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F) -> _F:
    """Compile a loop over numpy arrays; without the interpreter lock, cached on disk where a folder can be written."""
    return cast(_F, _Declared(function)) if COMPILED else function


class _Declared:
    """A loop that nobody has called yet."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._loop: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.loop()(*arguments)

    def loop(self) -> Callable[..., Any]:
        if self._loop is None:
            self._loop = _made(self._function)
            # The compiler finds the loops that this one calls by their names, and knows nothing of declarations.
            names = self._function.__globals__
            for name, value in list(names.items()):
                if isinstance(value, _Declared):
                    names[name] = value.loop()
        return self._loop


def _made(function: Callable[..., Any]) -> Callable[..., Any]:
    from numba import njit

    try:
        return cast(Callable[..., Any], njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no writable cache folder: compile anew in each process
        return cast(Callable[..., Any], njit(nogil=True)(function))
