"""Plain Python values as Arrow arrays, built from their buffers.

`pa.array` imports pandas to see whether it was given one of its objects: 50 MB and most of a second in every worker,
which holds no table of pandas at all. The arrays are the same, byte for byte of a Parquet file.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_WIDTHS = {pa.string(): np.int32, pa.large_string(): np.int64}
_NUMBERS = {pa.int32(): np.int32, pa.int64(): np.int64, pa.float64(): np.float64, pa.uint32(): np.uint32}


def table_in(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """A Parquet file, or some of its columns. (`pq.read_table` loads Arrow's datasets: 50 MB, a fifth of a second.)"""
    with pq.ParquetFile(path) as file:
        return file.read(columns=columns and list(columns), use_threads=False)


def table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """A table of rows; what a row lacks is null."""
    if not rows:
        # Of any type: a column of a table that was never told one has type null. (`schema.empty_table` imports pandas.)
        return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    return pa.Table.from_arrays([column([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of values or Nones: texts, numbers, flags, bytes of a fixed size, lists of texts or numbers,
    dictionaries."""
    if pa.types.is_dictionary(kind):
        places = {value: place for place, value in enumerate(dict.fromkeys(v for v in values if v is not None))}
        indices = column([None if value is None else places[value] for value in values], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, column(list(places), kind.value_type))
    valid, nulls = _validity(values)
    size = len(values)
    if kind in _WIDTHS:
        data = [b"" if value is None else value.encode() for value in values]
        return pa.Array.from_buffers(
            kind, size, [valid, _offsets(map(len, data), size, _WIDTHS[kind]), pa.py_buffer(b"".join(data))], nulls
        )
    if kind == pa.bool_():
        bits = np.packbits(np.fromiter(map(bool, values), bool, size), bitorder="little")
        return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(bits)], nulls)
    if kind in _NUMBERS:
        filled = np.array([0 if value is None else value for value in values], dtype=_NUMBERS[kind])
        return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(filled)], nulls)
    if pa.types.is_fixed_size_binary(kind):
        return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(b"".join(values))], nulls)
    if pa.types.is_list(kind):
        held = [() if value is None else value for value in values] if nulls else values
        offsets = _offsets(map(len, held), size, np.int32)
        return pa.Array.from_buffers(kind, size, [valid, offsets], nulls, children=[_items(held, kind.value_type)])
    raise TypeError(f"no column of {kind}")


def _items(lists: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """What the lists of a column hold, in one array."""
    if not pa.types.is_integer(kind):
        return column(list(chain.from_iterable(lists)), kind)
    whole = _NUMBERS[kind]  # long lists, often arrays already, and never a null among them
    flat = np.concatenate([np.asarray(value, dtype=whole) for value in lists] or [np.empty(0, dtype=whole)])
    return pa.Array.from_buffers(kind, len(flat), [None, pa.py_buffer(flat)])


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    present = np.fromiter((value is not None for value in values), bool, len(values))
    nulls = len(values) - int(present.sum())
    return (pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None), nulls


def _offsets(lengths: Any, size: int, width: Any) -> pa.Buffer:
    offsets = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.fromiter(lengths, np.int64, size), out=offsets[1:])
    if offsets[-1] > np.iinfo(width).max:
        raise OverflowError(f"{offsets[-1]} bytes or items in one column")
    return pa.py_buffer(offsets.astype(width))
