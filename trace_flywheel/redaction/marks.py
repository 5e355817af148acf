"""Placeholders of one record: typed, numbered per rule by first appearance, one per value."""

import json
import re
from collections.abc import Iterable
from typing import Any

PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9_]+):(\d+)\]")


OPENS = b"[REDACTED:"
"""How every placeholder begins."""
DETECTOR = r"\[REDACTED:"
"""Whether there is one, seen by the pass that looks for findings."""


class Marks:
    """Gives every value its placeholder; numbers go on after the marks that the record already holds."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._last: dict[str, int] = {}
        self._of: dict[str, str] = {}
        for value in values:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            if "[REDACTED:" in text:
                for rule, number in PLACEHOLDER.findall(text):
                    self._last[rule] = max(self._last.get(rule, 0), int(number))

    def of(self, value: str, rule: str) -> str:
        if value not in self._of:
            self._last[rule] = number = self._last.get(rule, 0) + 1
            self._of[value] = f"[REDACTED:{rule}:{number}]"
        return self._of[value]
