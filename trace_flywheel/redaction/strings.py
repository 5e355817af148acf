"""The strings of a record made for other programs, wherever they stand in it; lists of numbers are passed by."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

SEALED = frozenset({"cursor", "sha256", "digest"})
"""Fields that are encoded hashes: no secret can stand in them, and a changed one would be another."""


def strings_of(value: Any) -> Iterator[str]:
    """Every string value and key, in the record's order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name not in SEALED:
                yield from strings_of(getattr(value, name))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in SEALED:
                yield from strings_of(key)
                yield from strings_of(item)
    elif isinstance(value, list | tuple) and not _numbers(value):
        for item in value:
            yield from strings_of(item)


def with_strings(value: Any, changed: Mapping[str, str]) -> Any:
    """The record with the strings that are keys of `changed` replaced."""
    if isinstance(value, str):
        return changed.get(value, value)
    if isinstance(value, msgspec.Struct):
        fields = {n: with_strings(getattr(value, n), changed) for n in value.__struct_fields__ if n not in SEALED}
        return msgspec.structs.replace(value, **fields)
    if isinstance(value, dict):
        return {
            with_strings(key, changed): item if key in SEALED else with_strings(item, changed)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple) and not _numbers(value):
        return type(value)(with_strings(item, changed) for item in value)
    return value


def _numbers(items: list[Any] | tuple[Any, ...]) -> bool:
    return bool(items) and isinstance(items[0], int | float)
