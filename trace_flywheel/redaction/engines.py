"""Stage 1: which detectors match, and where. Hyperscan, or RE2 sets where it has no wheel; verdicts are the same."""

from collections.abc import Sequence
from threading import Lock
from typing import Any, Protocol

import re2


class Engine(Protocol):
    """Stage 1. `hits` gives (expression index, match end); an end of -1 means "somewhere"."""

    def hits(self, data: bytes) -> list[tuple[int, int]]: ...


class HyperscanEngine:
    """A database per kind of detector. One scratch, so scans take turns."""

    def __init__(self, expressions: Sequence[tuple[str, str]]) -> None:
        from trace_flywheel.redaction.databases import database_of  # where Hyperscan is installed

        self._lock = Lock()
        self._databases: list[Any] = [
            database_of([(i, expression) for i, (kind, expression) in enumerate(expressions) if kind == name])
            for name in dict.fromkeys(name for name, _ in expressions)
        ]

    def hits(self, data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []

        def on_match(rule: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((rule, end))

        with self._lock:
            for database in self._databases:
                database.scan(data, match_event_handler=on_match)
        return found


class Re2Engine:
    """The same expressions in RE2 sets: tells which rules match, not where."""

    def __init__(self, expressions: Sequence[tuple[str, str]]) -> None:
        options = re2.Options()
        options.max_mem = 256 << 20
        self._set = re2.Set.SearchSet(options)
        for _, expression in expressions:
            self._set.Add(expression)
        self._set.Compile()

    def hits(self, data: bytes) -> list[tuple[int, int]]:
        return [(rule, -1) for rule in self._set.Match(data) or ()]


def best_engine() -> type[HyperscanEngine] | type[Re2Engine]:
    """Hyperscan where it has a wheel."""
    try:
        import hyperscan  # noqa: F401 - only whether it is there
    except ImportError:
        return Re2Engine
    return HyperscanEngine
