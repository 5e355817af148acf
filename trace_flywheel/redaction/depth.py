"""How deep data may be nested: what is deeper cannot be looked through by every serialiser on its way."""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.fields import DATA

LIMIT = 200
"""Levels of objects and arrays. orjson ends at 254, and a row wraps what it holds in some more."""


class DeepDataError(Exception):
    """Data nested deeper than `LIMIT`."""


def brackets(line: bytes) -> int:
    """How many opening brackets a text has: as many levels at most. Two counts of bytes would take three times as
    long."""
    import numpy as np  # only where lines are scanned, and there it is loaded

    return int(np.count_nonzero((np.frombuffer(line, dtype=np.uint8) | 0x20) == ord("{")))


def deeper_than(value: Any, limit: int) -> bool:
    """Whether plain data has more than `limit` levels of objects and arrays."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return bool(level)


def deep_field(rollout: Rollout) -> str:
    """Name of the first field that is too deep."""
    return next((name for name, value in _fields(rollout) if deeper_than(value, LIMIT)), "rollout")


def _fields(rollout: Rollout) -> Iterator[tuple[str, Any]]:
    for name in DATA:
        yield name, getattr(rollout, name)
    for i, message in enumerate(rollout.messages):
        yield f"messages[{i}].content", message.content
        yield f"messages[{i}].extra", message.extra
    for i, tool in enumerate(rollout.tools):
        yield f"tools[{i}].parameters", tool.parameters
        yield f"tools[{i}].extra", tool.extra
    for exchange in rollout.exchanges:
        yield f"exchanges[{exchange.index}]", [exchange.usage, exchange.token_capture]
        yield f"exchanges[{exchange.index}].messages", [[m.content, m.extra] for m in exchange.messages]
        yield f"exchanges[{exchange.index}].tools", [[t.parameters, t.extra] for t in exchange.tools or ()]
