"""JSON inside a string, taken apart into its string and number literals and put together again.

Only the literals that change are written anew; every other byte (white space, number spelling, key order, duplicate
keys) stays as recorded, and the result is JSON whenever the text was. A string that holds JSON is taken apart too.
"""

import json
import re
from collections.abc import Callable, Iterator

import msgspec
import orjson

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[{}\[\],:]', re.DOTALL)
LONG_NUMBER = 9
"""Digits from which an integer can be an account or identity number."""
DEPTH = 6
"""JSON in JSON in JSON … is looked into this deep; deeper text is treated as text."""


class Leaf(msgspec.Struct, eq=False):
    """A decoded string value, or a long integer's digits, under its key."""

    text: str
    key: str = ""
    number: bool = False


class Node(msgspec.Struct):
    """A text: a leaf, or JSON with the places of its literals."""

    text: str
    leaf: Leaf | None = None
    pieces: list[tuple[int, int, "Node"]] = []

    def leaves(self) -> Iterator[Leaf]:
        """In document order."""
        if self.leaf is not None:
            yield self.leaf
        for _, _, node in self.pieces:
            yield from node.leaves()

    def render(self, change: Callable[[Leaf], str]) -> str:
        """The text with every leaf's text replaced by `change(leaf)`."""
        if self.leaf is not None:
            return change(self.leaf)
        out, last = [], 0
        for start, end, node in self.pieces:
            if node.leaf is not None and node.leaf.number:
                continue
            text = node.render(change)
            if text != node.text:
                literal = json.dumps(text, ensure_ascii=self.text.isascii())
                out += [self.text[last:start], literal]
                last = end
        return "".join([*out, self.text[last:]]) if out else self.text


def node_of(text: str, key: str = "", depth: int = DEPTH) -> Node:
    """The text taken apart where it is a JSON object, array or string, else a leaf."""
    if not depth or not holds_json(text):
        return Node(text, Leaf(text, key))
    pieces: list[tuple[int, int, Node]] = []
    keys = [key]
    name, previous = key, ""
    tokens = list(_TOKEN.finditer(text))
    for i, match in enumerate(tokens):
        token = match[0]
        if token in "{[":
            keys.append(name)
        elif token in "}]":
            name = keys.pop()
        elif token == ",":
            name = keys[-1]
        elif token[0] == '"':
            if i + 1 < len(tokens) and tokens[i + 1][0] == ":":
                name = json.loads(token)
            else:
                pieces.append((match.start(), match.end(), node_of(_decoded(token), name, depth - 1)))
        elif token.lstrip("-").isdigit() and len(token) >= LONG_NUMBER and previous != '"':
            pieces.append((match.start(), match.end(), Node(token, Leaf(token.lstrip("-"), name, number=True))))
        previous = token
    return Node(text, None, pieces)


def _decoded(literal: str) -> str:
    text: str = json.loads(literal)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not text.isascii() else text


def holds_json(text: str) -> bool:
    """Whether the whole text is one JSON object, array or string."""
    start = text.lstrip()[:1]
    if start not in ("{", "[", '"') or not start:
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
