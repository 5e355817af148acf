"""Rows as lines of JSON that were looked through, and what need not be looked through twice.

The verdict on a row is that of its texts, each under its own key, and of its keys: `Redactor.scan` takes it apart into
them, and `scan_line` is `scan` of what the line holds. So a message that was clean in one line of a row is clean in the
next lines, which repeat it as a part of their prompts: there it is neither scanned nor encoded again. Nor is a text
scanned that a message has in another layout of the row too, nor one of messages that a row of another dataset had in
this process, byte for byte: what stands beside them is scanned in every row. A second gate sees texts side by side:
with one, every line is scanned whole.

Files written from lines found clean are remembered by digest, in the process that publishes them. Its audit scans what
it reads in other files, and in these where they are not what was written, byte for byte.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import orjson

from trace_flywheel.records.message import Message
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import Redactor

Objects = dict[int, tuple[dict[str, Any], bytes]]
"""Objects by their identity, which is theirs as long as they stand here, and as they are encoded."""
MOST_SAID = 50_000
"""Conversations that are remembered, in 100 bytes each. The first ones stay: the next dataset begins with them too."""
MOST_FILES = 10_000
"""Files that are remembered, the last ones: those of many publications, of which one's are asked for."""
_files: dict[tuple[Policy, str], None] = {}


def remember(policy: Policy, sha256: str) -> None:
    """A file of these bytes was written from lines that are clean under a policy."""
    _files[policy, sha256] = None
    if len(_files) > MOST_FILES:
        del _files[next(iter(_files))]


def is_known(policy: Policy, sha256: str) -> bool:
    """Whether a file of these bytes needs no scan."""
    return (policy, sha256) in _files


@cache
def _said_by(redactor: Redactor) -> set[bytes]:
    """Digests of the messages (`records.rows.named`) whose contents this redactor found clean in this process."""
    return set()


class Texts:
    """What the messages of one row said that was clean: their contents by identity, which layouts share."""

    def __init__(self, clean: Sequence[Message] = ()) -> None:
        self._kept: list[Any] = [clean]  # keeps the texts, and so their identities, alive
        self._texts = {id(message.content) for message in clean}
        self._complete = bool(clean)

    def add(self, row: Mapping[str, Any]) -> None:
        """The contents in a row that was found clean."""
        if self._complete:
            return
        self._kept.append(row)
        for value in row.values():
            if type(value) is list:
                self._texts.update([id(m["content"]) for m in value if type(m) is dict and "content" in m])

    def hold(self, messages: Sequence[Message]) -> bool:
        """Whether all contents of messages are here."""
        return {id(message.content) for message in messages if message.content} <= self._texts

    def without(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row without contents that were seen. No rule looks from a content to what stands beside it."""
        if not self._texts:
            return row
        return {key: list(self._rests(value)) if type(value) is list else value for key, value in row.items()}

    def _rests(self, values: list[Any]) -> Iterator[Any]:
        for value in values:
            if type(value) is dict and type(text := value.get("content")) is str and id(text) in self._texts:
                value = value.copy()
                del value["content"]
            yield value


class Cleared:
    """One redactor's verdicts on rows."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._said = redactor, _said_by(redactor)

    def texts(self, said: bytes | None, messages: Sequence[Message]) -> Texts:
        """For the layouts of a row with these messages: their contents, where a row that said the same was clean."""
        return Texts(messages if said in self._said else ())

    def remember(self, said: bytes | None, texts: Texts, messages: Sequence[Message]) -> None:
        """A row with these messages was clean, of which `said` is the digest."""
        if said is None or said in self._said or len(self._said) >= MOST_SAID:
            return
        if texts.hold(messages):
            self._said.add(said)

    def line(
        self, row: Mapping[str, Any], known: Objects | None = None, texts: Texts | None = None
    ) -> tuple[bytes, dict[str, int]]:
        """The row as a line, byte for byte as orjson writes it, and the findings in it by rule.

        `known` are objects of lines before that were clean, `texts` the contents that were in other layouts of the
        row; those of this line join them if it is clean.
        """
        new: Objects = {}
        if known is not None:
            line, unseen, new = _encoded(row, known)
        else:
            line = orjson.dumps(row)
            rest = row if texts is None else texts.without(row)
            unseen = line if rest is row else orjson.dumps(rest)
        found = self._redactor.scan_line(unseen if self._redactor.judges_texts_apart else line)
        if not found:
            if known is not None:
                known |= new
            if texts is not None:
                texts.add(row)
        return line, found


def _encoded(row: Mapping[str, Any], known: Objects) -> tuple[bytes, bytes, Objects]:
    """The row as a line, the same without the objects in its lists that are known, and those that are not."""
    whole, unseen = [], []
    new: Objects = {}
    for key, value in row.items():
        name = orjson.dumps(key) + b":"
        if type(value) is list and all(type(each) is dict for each in value):
            left = {id(each): (each, orjson.dumps(each)) for each in value if id(each) not in known}
            pieces = [(left if id(each) in left else known)[id(each)][1] for each in value]
            whole.append(name + b"[" + b",".join(pieces) + b"]")
            unseen.append(name + b"[" + b",".join([left[id(each)][1] for each in value if id(each) in left]) + b"]")
            new |= left
        else:
            whole.append(name + orjson.dumps(value))
            unseen.append(whole[-1])
    return b"{" + b",".join(whole) + b"}", b"{" + b",".join(unseen) + b"}", new
