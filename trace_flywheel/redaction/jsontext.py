"""JSON inside a string, taken apart into its string and number literals and put together again.

Only the literals that change are written anew; every other byte (white space, number spelling, key order, duplicate
keys) stays as recorded, and the result is JSON whenever the text was. A string that holds JSON is taken apart too.
Keys are listed apart: they are looked at and never changed. A value in a pair (`{"name": "DB_PASSWORD", "value": …}`)
goes by the name that the pair gives it.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import orjson

_TOKEN = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:)?|-?\d[\d.eE+-]*|[{}\[\],]', re.DOTALL)
LONG_NUMBER = 9
"""Digits from which an integer can be an account or identity number."""
NAMING = frozenset({"name", "key", "variable", "parameter"})
"""Keys of pairs whose string names what stands under `value`."""
_OPTION = re.compile(r"--?((?!secrets?$)[A-Za-z][\w-]{2,40})")
"""An option in a list of arguments (`["--api-key", …]`): it names what follows. `--secret` names a mount."""
DEPTH = 6
"""JSON in JSON in JSON … is looked into this deep; deeper text is treated as text."""


class Leaf(msgspec.Struct, eq=False):
    """A decoded string value, or a long integer's digits, under its key."""

    text: str
    key: str = ""
    number: bool = False
    is_key: bool = False
    """The text is itself a key."""
    encoded: bytes | None = None

    def data(self) -> bytes:
        """The text as detectors and patterns see it, encoded once."""
        if self.encoded is None:
            self.encoded = self.text.encode("utf-8", "replace")
        return self.encoded


class Node(msgspec.Struct):
    """A text: a leaf, or JSON with the places of its literals."""

    text: str
    leaf: Leaf | None = None
    pieces: list[tuple[int, int, "Node"]] = []
    own_keys: frozenset[str] = frozenset()

    def key_texts(self) -> set[str]:
        """The object keys at every depth, decoded."""
        return {*self.own_keys, *(key for _, _, node in self.pieces for key in node.key_texts())}

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
    around: list[str] = []
    called = [""]
    keys: set[str] = set()
    option: re.Match[str] | None = None
    name = key
    for match in _TOKEN.finditer(text):
        inside, is_key = match.groups()
        if inside is not None:
            string = inside if "\\" not in inside else _decoded(match[0].rstrip(" \t\r\n:"))
            if is_key:
                name = string
                option = None
                keys.add(string)
            else:
                kind = name.lower()
                own = called[-1] or name if kind == "value" else option[1] if option else name
                pieces.append((match.start(), match.end(), node_of(string, own, depth - 1)))
                if kind in NAMING:
                    called[-1] = string
                option = _OPTION.fullmatch(string) if string.startswith("-") else None
            continue
        token = match[0]
        if token != ",":
            option = None
        if token in "{[":
            around.append(name)
            called.append("")
        elif token in "}]":
            name = around.pop()
            called.pop()
        elif token == ",":
            name = around[-1]
        elif len(token) >= LONG_NUMBER and (digits := token.lstrip("-")).isdigit():
            pieces.append((match.start(), match.end(), Node(token, Leaf(digits, name, number=True))))
    return Node(text, None, pieces, frozenset(keys))


def leaves_of(line: bytes) -> tuple[list[Leaf], set[str]]:
    """Leaves and keys of the `node_of` a line of JSON, without their places: in a tenth of the time where orjson wrote
    it."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = None
    leaves: list[Leaf] = []
    keys: set[str] = set()
    if isinstance(value, dict | list) and orjson.dumps(value) == line:
        _gather(value, "", leaves, keys)
        return leaves, keys
    node = node_of(line.decode())
    return list(node.leaves()), node.key_texts()


def _gather(value: Any, name: str, leaves: list[Leaf], keys: set[str]) -> None:
    """As `node_of` goes through the literals of an object or array that stands under a name."""
    called, option = "", None
    is_object = isinstance(value, dict)
    for key, item in value.items() if is_object else ((name, item) for item in value):
        if is_object:
            option = None
            keys.add(key)
        if isinstance(item, str):
            kind = key.lower()
            node = node_of(item, called or key if kind == "value" else option[1] if option else key, DEPTH - 1)
            if node.leaf is not None:
                leaves.append(node.leaf)
            else:
                leaves += node.leaves()
                keys |= node.key_texts()
            if kind in NAMING:
                called = item
            option = _OPTION.fullmatch(item) if item.startswith("-") else None
        elif isinstance(item, dict | list):
            _gather(item, key, leaves, keys)
            option = None
        elif isinstance(item, int | float) and not isinstance(item, bool):
            option = None
            if isinstance(item, int) and len(token := str(item)) >= LONG_NUMBER:
                leaves.append(Leaf(token.lstrip("-"), key, number=True))


def _decoded(literal: str) -> str:
    """A string literal's text; half a surrogate pair becomes U+FFFD."""
    try:
        text: str = orjson.loads(literal)
    except orjson.JSONDecodeError:
        text = json.loads(literal).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def holds_json(text: str) -> bool:
    """Whether the whole text is one JSON object, array or string."""
    if not text.startswith(("{", "[", '"')) and not text[:64].lstrip().startswith(("{", "[", '"')):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return _is_lenient_json(text)
    return True


def _is_lenient_json(text: str) -> bool:
    """JSON with NaN, infinities or half surrogate pairs, which recordings hold and strict parsers refuse."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
