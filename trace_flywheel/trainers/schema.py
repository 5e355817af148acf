"""The JSON Schemas of rows: enforced on every row by the fast validator, explained by the slow one.

Schemas are open: keys that they do not name are allowed, so that a later version may add some. Fault texts name the
place and the rule and never repeat a value, which may be what must not be shown.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson


def schema(name: str) -> dict[str, Any]:
    """The schema `name` (`prime-sft-row.v1`), from the installed package or the checkout's `schemas/`."""
    file = f"{name}.schema.json"
    package = Path(str(files("trace_flywheel")))
    for folder in (package / "schemas", package.parent / "schemas"):
        if (folder / file).is_file():
            value: dict[str, Any] = orjson.loads((folder / file).read_bytes())
            return value
    raise FileNotFoundError(f"no schema {file} in the package or beside it")


@cache
def _fast(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema(name))


def shape_faults(name: str, row: Any) -> Iterator[str]:
    """Where a row breaks its schema, in the order of the row."""
    if _fast(name).is_valid(row):
        return
    # the explaining validator costs a tenth of a second to import and only bad rows need it
    import jsonschema

    errors = jsonschema.Draft202012Validator(schema(name)).iter_errors(row)
    for error in sorted(errors, key=lambda e: [f"{p:09}" if isinstance(p, int) else p for p in e.absolute_path]):
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".")
        yield f"{place or 'row'}: {_words(error.validator, error.validator_value, error.message)}"


def _words(rule: object, value: Any, message: str) -> str:
    if rule == "type":
        return f"must be {' or '.join(value) if isinstance(value, list) else value}"
    if rule in {"enum", "const"}:
        return f"must be one of {value}" if rule == "enum" else f"must be {value!r}"
    if rule in {"minLength", "minItems"}:
        return "must not be empty"
    if rule == "maxItems":
        return f"must have at most {value} item(s)"
    if rule == "required":
        return message
    if rule == "not":
        return "is not allowed in this layout"
    if rule == "anyOf":
        needed = [key for option in value for key in option.get("required", ())]
        return f"needs {' or '.join(needed)}" if needed else "fits none of the types allowed here"
    return f"breaks the rule {rule!r}"
