"""Compiled loops kept as machine code, which llvmlite alone loads: 0.07 s, where numba takes 0.8 s and 115 MB.

Numba compiles a loop once; what comes out is written as an object file beside numba's own cache. It is named by all
that it depends on (the sources of the loop and of those it calls, the kinds of its arguments, versions, the processor),
so one that is found fits. Kept are loops that take arrays and numbers, give a number, make no array and raise nothing:
their code calls nobody. The others stay numba's.

Kept code is called with the array objects themselves and reads where their data lie and how many there are from numpy's
public struct: a call costs 5 microseconds, where ctypes alone would need 25 to hand over what four arrays hold.
"""

import ctypes
import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

SUFFIX = ".loop"
FORMAT = "2"
"""Of the files; those of another are made anew."""
Kind = tuple[str, int, bool]
"""Of an argument: numpy's name of its type, dimensions, whether it may be written."""
_NUMBERS: dict[type, tuple[str, Any]] = {
    int: ("<i8", ctypes.c_int64),
    float: ("<f8", ctypes.c_double),
    bool: ("|b1", ctypes.c_bool),
}
_GIVEN = {
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float64": ctypes.c_double,
    "bool": ctypes.c_bool,
    "none": None,
}
_TAKEN = dict(_NUMBERS.values())
_WORD = ctypes.sizeof(ctypes.c_void_p)
_DATA, _SHAPE = object.__basicsize__ // _WORD, object.__basicsize__ // _WORD + 2
"""Words of a `PyArrayObject` that point to its data and its shape; between them stands the number of dimensions."""
_DIGEST = 32


def kind_of(argument: Any) -> Kind | None:
    """None for what kept code does not take."""
    if type(argument) is not np.ndarray:
        number = _NUMBERS.get(type(argument))
        return number and (number[0], 0, False)
    flags = argument.flags
    whole = flags.c_contiguous and flags.aligned and argument.ndim and argument.dtype.isnative
    return (argument.dtype.str, argument.ndim, flags.writeable) if whole else None


def name_of(stem: str, kinds: Sequence[Kind], sources: Sequence[Any]) -> str:
    """Of the file of a loop; `sources`: what it is made of."""
    about = hashlib.sha256(repr((_machine(), tuple(kinds), sources)).encode()).hexdigest()
    return f"{stem}-{about[:32]}{SUFFIX}"


@cache
def _machine() -> tuple[str, ...]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    versions = FORMAT, version("numba"), version("llvmlite"), np.__version__
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), features(), *versions


@cache
def features() -> str:
    """Of the processor, as LLVM calls them. Where registers of 512 bits cost no clock (from Ice Lake on) they are used
    whole: by itself LLVM takes half of each."""
    import llvmlite.binding as llvm

    found: str = llvm.get_host_cpu_features().flatten()
    return f"{found},-prefer-256-bit" if "+avx512vbmi2" in found else found


def ready() -> None:
    """Load what loading a loop takes."""
    _machine()


def _target() -> Any:
    import llvmlite.binding as llvm

    triple, name, features, *_ = _machine()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=name, features=features, opt=3, jit=True)


@cache
def _lies_as_told() -> bool:
    """Whether numpy's arrays look here as its header says."""
    array = np.zeros((3, 5), dtype=np.uint8)
    words = (ctypes.c_void_p * (_SHAPE + 1)).from_address(id(array))
    if words[_DATA] != array.ctypes.data or (ctypes.c_int.from_address(id(array) + (_DATA + 1) * _WORD)).value != 2:
        return False
    return (ctypes.c_ssize_t * 2).from_address(words[_SHAPE] or 0)[:] == [3, 5]


def load(file: Path, kinds: Sequence[Kind]) -> Callable[..., Any] | None:
    """The loop that a file holds, called with arguments of these kinds; None where there is none, or it is torn."""
    try:
        data = file.read_bytes() if file.is_file() else b""  # a pipe would never end
    except OSError:
        return None
    given, _, code = data[_DIGEST:].partition(b"\n")
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST] or not _lies_as_told():
        return None
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    taken = [ctypes.py_object if dimensions else _TAKEN[name] for name, dimensions, _ in kinds]
    function = ctypes.CFUNCTYPE(_GIVEN[given.decode()], *taken)(engine.get_function_address("loop"))
    function.engine = engine  # type: ignore[attr-defined] # the code lies in its memory
    return function


def keep(file: Path, loop: Any, kinds: Sequence[Kind], types: Sequence[Any]) -> None:
    """Write a loop that numba compiled for arguments of these `types`, where it is of those that can be kept."""
    given = loop.overloads[tuple(types)].signature.return_type
    if str(given) not in _GIVEN:
        return
    import llvmlite.binding as llvm

    machine = _target()
    module = llvm.parse_assembly(_assembly(loop, given, kinds, types))
    for function in module.functions:
        if function.name.startswith("cfunc."):
            function.name = "loop"
        elif not function.is_declaration:
            function.linkage = "internal"  # goes, where nobody calls it: above all what would raise
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(module, passes)
    if any(function.is_declaration and not function.name.startswith("llvm.") for function in module.functions):
        return
    data = str(given).encode() + b"\n" + machine.emit_object(module)
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    draft.write_bytes(hashlib.sha256(data).digest() + data)
    draft.replace(file)


def _assembly(loop: Any, given: Any, kinds: Sequence[Kind], types: Sequence[Any]) -> str:
    """LLVM's text of a function that takes array objects, finds what they hold and calls the loop."""
    numba: Any = import_module("numba")
    of = numba.types
    names = [f"a{place}" for place in range(len(kinds))]
    space: dict[str, Any] = {"carray": numba.carray, "loop": loop, "shape": _pointer(of.CPointer(of.intp))}
    passed, signature = names.copy(), list(types)
    for place, ((_, dimensions, _), kind) in enumerate(zip(kinds, types, strict=True)):
        if dimensions:
            name = names[place]
            space[f"data_{name}"] = _pointer(of.CPointer(kind.dtype))
            sizes = ", ".join(f"shape({name}[{_SHAPE}])[{k}]" for k in range(dimensions))
            passed[place] = f"carray(data_{name}({name}[{_DATA}]), ({sizes},))"
            signature[place] = of.CPointer(of.intp)
    exec(f"def held({', '.join(names)}):\n    return loop({', '.join(passed)})", space)
    assembly: str = numba.cfunc(given(*signature), error_model="numpy")(space["held"]).inspect_llvm()
    return assembly


def _pointer(kind: Any) -> Any:
    """A function of compiled code: an address as a pointer of this kind."""
    numba: Any = import_module("numba")

    def pointer(_: Any, __: Any) -> Any:
        def cast(context: Any, builder: Any, ___: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(kind))

        return kind(numba.types.intp), cast

    return numba.extending.intrinsic(pointer)
