"""Placeholders of one record: typed, numbered per rule by first appearance, one per value."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9_]+):(\d+)\]")


class Marks:
    """Gives every value its placeholder; numbers go on after the marks that the record already holds."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._last: Counter[str] = Counter()
        self._of: dict[str, str] = {}
        for value in values:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            if "[REDACTED:" in text:
                for rule, number in PLACEHOLDER.findall(text):
                    self._last[rule] = max(self._last[rule], int(number))

    def of(self, value: str, rule: str) -> str:
        if value not in self._of:
            self._last[rule] += 1
            self._of[value] = f"[REDACTED:{rule}:{self._last[rule]}]"
        return self._of[value]
