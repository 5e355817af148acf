"""How many values JSON text holds, found before it is decoded.

The limit of a line is one of bytes, and a value may have as few as two of them: decoded, an empty list takes thirty
times as many. So text that holds more values than any conversation does is refused by their number, like text that is
too long. The values of text inside a string count by themselves: arguments of calls and what tools gave are decoded
later. Nearly all text is too short to hold so many, and costs nothing.
"""

import re

MOST_VALUES = 2_000_000
"""Outside of strings, or in one string. A context of four million tokens has fewer; decoded, they take 300 MB."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def values_beyond(data: bytes) -> int:
    """About how many values there are (commas and opening brackets) where they are more than `MOST_VALUES`, else 0."""
    if len(data) <= MOST_VALUES or (outside := _values(data)) <= MOST_VALUES:
        return 0
    most = 0
    for string in _STRING.finditer(data):
        inside = _values(string[0])
        outside -= inside
        most = max(most, inside)
    found = max(outside, most)
    return found if found > MOST_VALUES else 0


def _values(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")
