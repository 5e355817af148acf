"""One switch for compiled loops: numba where it is installed, plain Python with the same results where it is not.

Numba takes 115 MB and a second before a loop runs, and several where it has to be compiled first. So it is imported
when the first loop runs that no process has kept as machine code (`machine_code`), not where one is declared, and
callers with a twin that needs no compiler ask first whether a loop `pays`: a small job is done before a loop would be
there.
"""

import fcntl
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, update_wrapper
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from trace_flywheel.curation import machine_code

COMPILED = find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "0").strip() in ("", "0")
"""Whether loops can be compiled; False inside a loop that runs as plain Python, and where numba is switched off."""
PATIENCE = 1.0
"""Seconds that a process spends on the twins of one kind of loop before it takes the compiler: what that costs."""
KEPT, LOADED = 1 / 10, 1 / 100
"""Of the patience, where loops are kept as machine code, and once this process has loaded one."""

_ARRAY = np.ndarray
_F = TypeVar("_F", bound=Callable[..., Any])
_spent: dict[str, float] = {}


def pays(kind: str, seconds: float) -> bool:
    """Whether work of a kind, named by the module whose loops do it, should go through them. `seconds`: what their
    twins would take for it, on a slow machine. Both give the same numbers, so what a process did before never shows in
    a result."""
    if not COMPILED:
        return False
    spent = _spent[kind] = _spent.get(kind, 0.0) + seconds
    return spent > PATIENCE * _share(kind)


def _share(kind: str) -> float:
    """Of the patience: what this process has still to do before a loop of a kind runs."""
    if _kept_before(kind):
        return LOADED if _Declared.loaded else KEPT
    return 1 / 4 if "numba" in sys.modules else 1.0  # most of the cost is its import


@cache
def _kept_before(kind: str) -> bool:
    """Of others nothing follows: what was never compiled here takes the compiler, with its memory."""
    folder = _folder(__file__)
    return folder is not None and any(folder.glob(f"{__package__}.{kind}.*{machine_code.SUFFIX}"))


def compiled(function: _F) -> _F:
    """Compile a loop over numpy arrays; without the interpreter lock, cached on disk where a folder can be written."""
    return cast(_F, _Declared(cast(FunctionType, function))) if COMPILED else function


def plain(function: _F) -> _F:
    """A compiled loop as the Python it was written in, with the loops that it calls."""
    return cast(_F, function.plain()) if isinstance(function, _Declared) else function


class _Declared:
    """A loop that nobody has called yet. Those that it calls are found by their names, as what each of them became."""

    loaded = False
    """Whether this process has loaded the machine code of any loop."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._kept: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._loop: Any = None
        self._plain: FunctionType | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        if self._loop is not None:
            return self._loop(*arguments)
        looks = tuple([(a.dtype, a.ndim, a.flags.num) if type(a) is _ARRAY else type(a) for a in arguments])
        kept = self._kept.get(looks) or self._found(looks, arguments)
        return kept(*arguments)

    def _found(self, looks: tuple[Any, ...], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """What an earlier process kept, or numba's loop, which is kept for later ones."""
        kinds = [kind for kind in map(machine_code.kind_of, arguments) if kind is not None]
        folder, file = _folder(self._function.__code__.co_filename), None
        if folder is not None and len(kinds) == len(arguments):
            stem = f"{self._function.__module__}.{self._function.__qualname__}"
            file = folder / machine_code.name_of(stem, kinds, self._sources())
        with _alone(folder):
            if file is not None and (kept := machine_code.load(file, kinds)) is not None:
                self._kept[looks] = kept
                _Declared.loaded = True
                return kept
            loop = self.loop()
            from numba import typeof

            if not hasattr(loop, "compile"):  # switched off in numba's own file of settings
                self._loop = self.plain()
                return cast(Callable[..., Any], self._loop)

            types = tuple(map(typeof, arguments))
            loop.compile(types)
            if file is not None:
                # What cannot be kept, by whatever llvmlite there is, stays numba's.
                with suppress(OSError, AttributeError, RuntimeError):
                    machine_code.keep(file, loop, kinds, types)
        self._loop = loop
        return cast(Callable[..., Any], loop)

    def _sources(self) -> tuple[Any, ...]:
        """What the loop is made of, with the loops that it calls."""
        seen = self._seen().items()
        told = tuple((name, v.tobytes() if isinstance(v, np.ndarray) else v) for name, v in seen if _is_constant(v))
        file = self._function.__code__.co_filename
        return (_digest(file), told, *(v._sources() for _, v in seen if isinstance(v, _Declared)))

    def _is_of_one_file(self) -> bool:
        """Whether the loop and all that it is made of stand in one file."""
        file = self._function.__code__.co_filename
        text = Path(file).read_text("utf-8")
        return all(
            value._function.__code__.co_filename == file and value._is_of_one_file()
            if isinstance(value, _Declared)
            else not _is_constant(value) or re.search(rf"^{name}\b[^(\n]*=", text, re.MULTILINE) is not None
            for name, value in self._seen().items()
        )

    def loop(self) -> Any:
        if self._loop is None:
            names = {name: v.loop() if isinstance(v, _Declared) else v for name, v in self._seen().items()}
            self._loop = _made(self._over(names), self._is_of_one_file())
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


def _is_constant(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.generic | np.ndarray)


@cache
def _digest(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _folder(file: str) -> Path | None:
    """Where what is made of a module is kept, as numba does; None where nothing can be."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(file).parent / "__pycache__")
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder if folder.is_dir() else None


def _made(function: Callable[..., Any], cached: bool) -> Any:
    """`cached`: by numba too, which looks at one file to see whether what it kept is old."""
    _load_without_blas()
    from numba import config, njit

    settings: Any = config
    settings.CPU_FEATURES = settings.CPU_FEATURES or machine_code.features()
    # Kept code raises nothing, so a division by nothing gives what numpy gives, and no loop divides by nothing.
    try:
        return njit(cache=cached, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # numba found no writable cache folder: compile anew in each process
        return njit(nogil=True, error_model="numpy")(function)


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
def _alone(folder: Path | None) -> Iterator[None]:
    """Where compiled loops are cached: one process compiles, those that come meanwhile wait and load what it made."""
    handle = None
    if folder is not None:
        try:
            handle = os.open(folder / "compiling.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # the cache is a convenience, and so is its lock
            pass
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
