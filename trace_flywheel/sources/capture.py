"""A BenchFlow capture (`llm_trajectory.jsonl`): recorded model calls, decoded as far as they are needed.

A line is parsed once for its outline; conversations, tools and answers stay raw JSON until someone asks, because a
long run repeats its whole history in every call. A call succeeded when its status is 200.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import orjson

from trace_flywheel.sources.capture_record import ABSENT, DECODER, PASSED_THROUGH, Body
from trace_flywheel.sources.jsonl import Fault, decode_json, read_lines
from trace_flywheel.sources.repeated import GoesOn, Recorded, Repeating
from trace_flywheel.sources.whole_lines import read_whole
from trace_flywheel.sources.wires import gemini


class Call(msgspec.Struct, eq=False):
    """One recorded call with a request body."""

    index: int
    """Position among the capture's records, failed ones counted."""
    line: int
    body: Body
    response: msgspec.Raw
    status: int | None
    purpose: str | None
    tools: bytes = b"[]"
    """The tool declarations' raw JSON, `[]` where none are offered."""
    token_capture: msgspec.Raw = ABSENT
    goes_on: GoesOn | None = None
    """The earlier call that this one's conversation was seen to begin with, by its line."""

    @property
    def chat(self) -> bool:
        """Whether the conversation stands under `messages`."""
        return bool(memoryview(self.body.messages))

    @property
    def items(self) -> bytes:
        """The conversation's raw JSON, a list or a string."""
        return bytes(self.body.messages if self.chat else self.body.input) or b"[]"

    def repeats(self, other: "Call") -> bool:
        """Whether this call asks the same as another one."""
        mine, its = self.body, other.body
        pairs = ((mine.messages, its.messages), (mine.input, its.input), (mine.tools, its.tools))
        # Sizes first: a long run's requests hardly ever have the same one, and comparing means copying.
        same_size = all(memoryview(a).nbytes == memoryview(b).nbytes for a, b in pairs)
        return same_size and all(bytes(a) == bytes(b) for a, b in pairs)


class Failure(msgspec.Struct):
    """A recorded call that did not succeed."""

    index: int
    purpose: str | None
    retried_by: int | None = None
    """Index of the successful call that asked the same again."""


class Capture(msgspec.Struct):
    """A capture that could be read: its successful calls in order, and what else was in it."""

    calls: list[Call]
    records: int
    sha256: str
    failed: int = 0
    retried: int = 0
    """Failed calls that a later successful one repeats."""
    torn: Fault | None = None
    """A last line that was cut: its call is lost, those before it are whole."""
    bom: bool = False
    surrogates: int = 0
    """Lone surrogate escapes in the file that were read as U+FFFD; a history repeats its own."""
    failures: list[Failure] = []


class RawFaultError(ValueError):
    """Raw JSON that turns out to be unreadable when it is asked for."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


def read_capture(path: Path, root: Path, max_line_bytes: int) -> Capture | Fault:
    """The capture's calls; a Fault for damage anywhere but in a cut last line."""
    lines = read_whole(path, root, max_line_bytes, Repeating()) or read_lines(path, root, max_line_bytes, _decode)
    capture = Capture([], 0, "")
    failed: list[tuple[Call, Failure]] = []
    for line in lines:
        if isinstance(line, Fault):
            if not _cut(line):
                return line
            capture.torn = line
            continue
        recorded: Recorded = line.value
        try:
            call = _call(recorded, capture.records, line.number)
        except RawFaultError as error:
            return error.fault
        capture.records += 1
        if call is None or call.status != 200:
            capture.failed += 1
            failure = Failure(capture.records - 1, call.purpose if call is not None else None)
            capture.failures.append(failure)
            if call is not None:
                failed.append((call, failure))
            continue
        for other, failure in [pair for pair in failed if call.repeats(pair[0])] if failed else ():
            failed.remove((other, failure))
            failure.retried_by = call.index
            capture.retried += 1
        capture.calls.append(call)
    capture.sha256, capture.bom, capture.surrogates = lines.sha256, lines.bom, lines.surrogates
    return capture


def _cut(fault: Fault) -> bool:
    """Whether a write stopped in the middle of the last line, be it inside a character."""
    ending = fault.reason == "bad_encoding" and "unexpected end" in fault.text
    return fault.torn and (fault.reason == "bad_json" or ending)


def _call(recorded: Recorded, index: int, line: int) -> Call | None:
    record, goes_on = recorded
    response, request = record.response, record.request
    if request is None or request.body is None:
        return None
    status = response.status_code if response is not None else None
    metadata = record.metadata
    if metadata is not None and metadata.call_type == PASSED_THROUGH:
        _unwrap(request.body, line)
    purpose = metadata.call_purpose if metadata is not None else None
    return Call(
        index=index,
        line=line,
        body=request.body,
        response=response.body if response is not None else ABSENT,
        status=status if isinstance(status, int) else None,
        purpose=purpose if isinstance(purpose, str) else None,
        tools=_tools(request.body),
        token_capture=metadata.token_capture if metadata is not None else ABSENT,
        goes_on=goes_on,
    )


def _tools(body: Body) -> bytes:
    raw = bytes(body.tools) or bytes(body.tool_defs)
    return raw if raw and raw != b"null" else b"[]"


def _unwrap(body: Body, line: int) -> None:
    """A native request inside one message becomes the conversation that it holds."""
    chat = gemini.unwrapped(parsed(body.messages, line))
    if chat is not None:
        body.messages, body.tools = (msgspec.Raw(orjson.dumps(chat[name])) for name in ("messages", "tools"))


def _decode(data: bytes) -> Recorded:
    if not data.isascii():
        data.decode()  # raw fields are not checked by the parser; bad UTF-8 is the line's fault
    try:
        return DECODER.decode(data), None
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"NaN" not in data and b"Infinity" not in data:
            raise
        return DECODER.decode(_finite(data)), None


def _finite(data: bytes) -> bytes:
    """The line with NaN and infinities as null; a NaN inside a string is text and stays."""

    try:
        return orjson.dumps(json.loads(data))
    except TypeError as error:
        raise ValueError(str(error)) from error


def parsed(raw: msgspec.Raw | bytes, line: int) -> Any:
    """The value of raw JSON, None where it is absent. Raises `RawFaultError` with the line."""
    data = bytes(raw)
    if not data:
        return None
    decoded = decode_json(data)
    if isinstance(decoded, Fault):
        raise RawFaultError(msgspec.structs.replace(decoded, line=line))
    return decoded[0]


@lru_cache(maxsize=64)
def parsed_tools(raw: bytes) -> Any:
    """The value of tool declarations, which repeat from call to call; None where they are unreadable."""
    decoded = decode_json(raw)
    return None if isinstance(decoded, Fault) else decoded[0]
