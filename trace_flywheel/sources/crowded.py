"""How many lists and objects JSON text holds, found before it is decoded.

The limit of a line is one of bytes, and an empty list has two of them: decoded it takes thirty times as many, an object
more. So text that holds more of both than any recording does is refused by their number, like text that is too long.
Numbers and texts are not counted: they take a few times their bytes, and tokens with their log-probabilities are many.
What stands inside a string counts by itself: arguments of calls and what tools gave are decoded later. Nearly all text
is too short to hold so many, and costs nothing.
"""

import re

MOST = 1_500_000
"""Outside of strings, or in one string: 35,000 tokens of an answer, each with its twenty likeliest and their bytes."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def nested_beyond(data: bytes) -> int:
    """How many lists and objects there are where they are more than `MOST`, else 0."""
    if len(data) <= MOST or (outside := _nested(data)) <= MOST:
        return 0
    most = 0
    for string in _STRING.finditer(data):
        inside = _nested(string[0])
        outside -= inside
        most = max(most, inside)
    found = max(outside, most)
    return found if found > MOST else 0


def _nested(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")
