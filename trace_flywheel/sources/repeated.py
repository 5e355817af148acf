"""Captures whose requests repeat the conversation so far: each call's history is that of one before it, and more.

What a line repeats byte for byte was parsed when it was read first. It is compared, put aside, and the line is parsed
with a mark in its place: what comes of it is what the whole line says. Wherever that is not certain (another place,
another shape, a fault) the line is parsed whole. Short histories cost as much either way, one of 100 kB a third; and
whose conversation a call goes on with need not be looked for again.
"""

import os
from typing import NamedTuple

import msgspec

from trace_flywheel.sources.capture_record import DECODER, PASSED_THROUGH, Body, Record

HEAD_BYTES = 4_096
"""Of a line, in which the conversation begins."""
STEMS = 4
"""Conversations that calls may go on with: the agent's, and those of helpers between its calls."""
_KEY = b'"messages"'
# Nothing that was recorded before this process began holds it, so that it stands only where it was put.
_MARK = b'["%b"' % os.urandom(16).hex().encode()
_MARKED = _KEY + b":" + _MARK


class GoesOn(NamedTuple):
    """A request that begins with all of the conversation of one before it."""

    line: int
    """That of the other one."""
    added: bytes
    """What follows in this one, a JSON list."""


Recorded = tuple[Record, GoesOn | None]
"""A line of a capture, and what it was seen to repeat."""
_Stem = tuple[memoryview, int, int]
"""A conversation from its key to before the bracket that closes it; where in it the list begins; its line."""


class Repeating:
    """Decodes the lines of one capture."""

    def __init__(self) -> None:
        self._stems: list[_Stem] = []
        """The one that was met last is the first."""

    def decode_lines(self, data: bytes) -> list[Recorded]:
        """The record on every line. Raises what `DECODER` does of a line that is none."""
        found: list[Recorded] = []
        view, start, size, line = memoryview(data), 0, len(data), 1
        while start < size:
            end = data.find(b"\n", start)
            if end < 0:
                end = size
            at = data.find(_KEY, start, min(end, start + HEAD_BYTES))
            known = None
            for stem in self._stems if at >= 0 else ():
                if data.startswith(stem[0], at) and (known := self._going_on(stem, view, start, at, end, line)):
                    break
            found.append(known or (self._whole(data, view, start, at, end, line), None))
            start, line = end + 1, line + 1
        return found

    def _going_on(self, stem: _Stem, view: memoryview, start: int, at: int, end: int, line: int) -> Recorded | None:
        """The line without what it repeats; None where the conversation is not what follows."""
        text, opens, before = stem
        behind = at + len(text)
        try:
            record = DECODER.decode(b"".join((view[start:at], _MARKED, view[behind:end])))
        except msgspec.DecodeError:
            return None
        body = _body(record)
        if body is None or not (marked := bytes(body.messages)).startswith(_MARK):
            return None
        close = behind + len(marked) - len(_MARK)
        body.messages = msgspec.Raw(view[at + opens : close])
        self._stems.remove(stem)
        self._stems.insert(0, (view[at : close - 1], opens, line))
        return record, GoesOn(before, b"[" + marked[len(_MARK) :].lstrip(b" \t\r\n,"))

    def _whole(self, data: bytes, view: memoryview, start: int, at: int, end: int, line: int) -> Record:
        """A line by itself. Its conversation is noted where it is the list behind the key at `at`."""
        record = DECODER.decode(view[start:end])
        if at >= 0 and (body := _body(record)) is not None:
            raw, opens = memoryview(body.messages), data.find(b"[", at, end)
            if raw.nbytes > 2 and data[at + len(_KEY) : opens].strip() == b":" and data.startswith(raw, opens):
                self._stems.insert(0, (view[at : opens + raw.nbytes - 1], opens - at, line))
                del self._stems[STEMS:]
        return record


def _body(record: Record) -> Body | None:
    """Of a request that is told as it was made: a native one inside a message becomes another."""
    if record.request is None or (record.metadata is not None and record.metadata.call_type == PASSED_THROUGH):
        return None
    return record.request.body
