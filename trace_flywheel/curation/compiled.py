"""One switch for compiled loops: numba where it is installed, plain Python with the same results where it is not.

Numba takes 115 MB and a second before a loop runs, and several where it has to be compiled first. So it is imported
when the first loop runs, not where one is declared, and callers with a twin that needs no compiler ask first whether a
loop `pays`: a small job is done before the compiler would be there.
"""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

COMPILED = find_spec("numba") is not None
"""Whether loops can be compiled; False inside a loop that runs as plain Python."""
PATIENCE = 1.0
"""Seconds that a process spends on the twins of one kind of loop before it takes the compiler: what that costs."""

_F = TypeVar("_F", bound=Callable[..., Any])
_spent: dict[str, float] = {}


def pays(kind: str, seconds: float) -> bool:
    """Whether work of a kind should go through its compiled loops. `seconds`: what their twins would take for it, on a
    slow machine. Both give the same numbers, so what a process did before never shows in a result."""
    if not COMPILED:
        return False
    spent = _spent[kind] = _spent.get(kind, 0.0) + seconds
    return spent > (PATIENCE / 4 if "numba" in sys.modules else PATIENCE)  # most of the cost is its import


def compiled(function: _F) -> _F:
    """Compile a loop over numpy arrays; without the interpreter lock, cached on disk where a folder can be written."""
    return cast(_F, _Declared(cast(FunctionType, function))) if COMPILED else function


def plain(function: _F) -> _F:
    """A compiled loop as the Python it was written in, with the loops that it calls."""
    return cast(_F, function.plain()) if isinstance(function, _Declared) else function


class _Declared:
    """A loop that nobody has called yet. Those that it calls are found by their names, as what each of them became."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._loop: Any = None
        self._plain: FunctionType | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        if self._loop is None:
            loop = self.loop()
            with _alone(loop.stats.cache_path):
                from numba import typeof

                loop.compile(tuple(map(typeof, arguments)))
        return self._loop(*arguments)

    def loop(self) -> Any:
        if self._loop is None:
            names = {name: v.loop() if isinstance(v, _Declared) else v for name, v in self._seen().items()}
            self._loop = _made(self._over(names))
        return self._loop

    def plain(self) -> FunctionType:
        if self._plain is None:
            names = {name: v.plain() if isinstance(v, _Declared) else v for name, v in self._seen().items()}
            self._plain = self._over({**names, "COMPILED": False})
        return self._plain

    def _seen(self) -> dict[str, Any]:
        everything = self._function.__globals__
        return {name: everything[name] for name in self._function.__code__.co_names if name in everything}

    def _over(self, names: dict[str, Any]) -> FunctionType:
        """The function with other things behind its names."""
        about = {name: self._function.__globals__[name] for name in ("__name__", "__builtins__")}
        made = FunctionType(self._function.__code__, {**about, **names}, self._function.__name__)
        return cast(FunctionType, update_wrapper(made, self._function))


def _made(function: Callable[..., Any]) -> Any:
    _load_without_blas()
    from numba import njit

    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no writable cache folder: compile anew in each process
        return njit(nogil=True)(function)


def _load_without_blas() -> None:
    """Numba looks whether scipy's linear algebra is there: 17 MB and a quarter of a second that no loop here uses."""
    name = "scipy.linalg.cython_blas"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment] # what the import system takes for "not there"
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules[name]


@contextmanager
def _alone(folder: str | None) -> Iterator[None]:
    """Where compiled loops are cached: one process compiles, those that come meanwhile wait and load what it made."""
    handle = None
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            handle = os.open(Path(folder) / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # the cache is a convenience, and so is its lock
            pass
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
