"""The one way to read JSON files: whole documents, and lines as a stream.

Lines end at the byte `\\n` and nowhere else (U+2028 or U+0085 inside a string tear nothing), a line above the limit is
refused without being held, and a file that cannot be used is an answer (`Fault`), not an exception. What is tolerated
is noted: a byte-order mark, lone surrogate escapes (read as U+FFFD), the tokens NaN and Infinity. The digest comes from
the same pass.
"""

import errno
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from trace_flywheel.sources.crowded import MOST, nested_beyond
from trace_flywheel.sources.regular_file import open_regular

BLOCK_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"
# Escaped backslashes and true pairs are matched first, so that what is left of the alternatives is a lone half.
_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)")

Decode = Callable[[bytes], Any]


class Fault(msgspec.Struct, frozen=True):
    """Why a file or line cannot be used. `reason` is one of stage `read`."""

    reason: str
    text: str
    line: int | None = None
    torn: bool = False
    """The last line, without its newline: it may still be in the middle of being written."""

    def evidence(self) -> dict[str, Any]:
        """What a Drop says about it."""
        place = {} if self.line is None else {"line": self.line}
        return {**place, "text": self.text, **({"torn": True} if self.torn else {})}


class Line(msgspec.Struct, frozen=True):
    """One decoded line; `number` counts from 1 and counts blank lines."""

    number: int
    value: Any
    surrogates: int = 0


class Document(msgspec.Struct, frozen=True):
    """A decoded file, with the digest of its bytes and what was tolerated."""

    value: Any
    sha256: str
    size: int
    bom: bool = False
    surrogates: int = 0


class Lines:
    """Iterate once for `Line | Fault`; `sha256`, `size`, `bom` and `surrogates` are complete when the iterator is.

    `offset` is where the line that was given last begins, in bytes.
    With a `start` (bytes, number of the line there) the lines before it are passed over, unread.
    """

    def __init__(
        self,
        path: Path,
        root: Path,
        max_line_bytes: int,
        decode: Decode | None = None,
        start: tuple[int, int] = (0, 1),
    ) -> None:
        self._path = path
        self._root = root
        self._start = start
        self._limit = max_line_bytes
        self._decode = decode
        self._digest = hashlib.sha256()
        self.size = 0
        self.bom = False
        self.surrogates = 0
        self.offset = 0

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes read so far."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[Line | Fault]:
        try:
            with open_regular(self._path, self._root) as file:
                for number, offset, data, ended in self._split(file):
                    self.offset = offset
                    if isinstance(data, int):
                        text = f"line of {data} bytes; the limit is {self._limit} (ingest.max_line_mb)"
                        yield Fault("line_too_long", text, number)
                    elif data and not data.isspace():
                        yield self._line(number, data, ended)
        except OSError as error:
            yield Fault("unreadable_file", _os_text(error))

    def _line(self, number: int, data: bytes, ended: bool) -> Line | Fault:
        decoded = decode_json(data, self._decode)
        if isinstance(decoded, Fault):
            return msgspec.structs.replace(decoded, line=number, torn=not ended)
        value, surrogates = decoded
        self.surrogates += surrogates
        return Line(number, value, surrogates)

    def _split(self, file: io.FileIO) -> Iterator[tuple[int, int, bytes | int, bool]]:
        """(number, offset, bytes without the newline, ended by one); of a line above the limit only its size."""
        offset, number = self._start
        file.seek(offset)
        held, held_bytes = list[bytes](), 0
        while block := file.read(BLOCK_BYTES):
            self._digest.update(block)
            if offset == self.size == 0 and block.startswith(BOM):
                self.bom = True
                self.size = offset = len(BOM)
                block = block[len(BOM) :]
            self.size += len(block)
            start = 0
            while (end := block.find(b"\n", start)) >= 0:
                held_bytes += end - start
                if held_bytes > self._limit:
                    yield number, offset, held_bytes, True
                elif held:
                    yield number, offset, b"".join((*held, block[start:end])), True
                else:
                    yield number, offset, block[start:end], True
                offset += held_bytes + 1
                number, held, held_bytes, start = number + 1, [], 0, end + 1
            held_bytes += len(block) - start
            if held_bytes > self._limit:
                held = []
            else:
                held.append(block[start:])
        if held_bytes:
            yield number, offset, held_bytes if held_bytes > self._limit else b"".join(held), False


def read_lines(
    path: Path, root: Path, max_line_bytes: int, decode: Decode | None = None, start: tuple[int, int] = (0, 1)
) -> Lines:
    """The lines of a JSONL file, streamed. `decode` takes a line's bytes (a typed msgspec decoder, say)."""
    return Lines(path, root, max_line_bytes, decode, start)


def read_document(
    path: Path, root: Path, max_bytes: int, decode: Decode | None = None, sha256: str = ""
) -> Document | Fault:
    """A file that is one JSON document, and its digest unless the caller has it. Above `max_bytes` it is
    `line_too_long` and stays unread."""
    try:
        with open_regular(path, root) as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                return Fault(
                    "line_too_long", f"document of {size} bytes; the limit is {max_bytes} (ingest.max_line_mb)"
                )
            data = file.read(size + 1)
            if len(data) != size:  # it is being written, or its system does not say
                data += file.readall()
    except OSError as error:
        return Fault("unreadable_file", _os_text(error))
    decoded = decode_json(data[len(BOM) :] if (bom := data.startswith(BOM)) else data, decode)
    if isinstance(decoded, Fault):
        return decoded
    value, surrogates = decoded
    return Document(value, sha256 or hashlib.sha256(data).hexdigest(), len(data), bom, surrogates)


def digest_of(path: Path, root: Path) -> str | Fault:
    """Sha256 of a file's bytes, for rollouts that are yielded before the file has been read to its end."""
    try:
        with open_regular(path, root) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return Fault("unreadable_file", _os_text(error))


def peek(path: Path, root: Path, size: int) -> bytes:
    """The first bytes of a file without its byte-order mark; empty where it cannot be opened."""
    try:
        with open_regular(path, root) as file:
            return file.read(size).removeprefix(BOM)
    except OSError:
        return b""


def decode_json(data: bytes, decode: Decode | None = None) -> tuple[Any, int] | Fault:
    """The value and the number of lone surrogates replaced, or what is wrong with the bytes."""
    if nested := nested_beyond(data):
        return Fault("line_too_long", f"{nested} lists and objects in one line or document; the limit is {MOST}")
    try:
        return (decode or orjson.loads)(data), 0
    except (ValueError, RecursionError) as error:
        first = error
    if (nul := data.count(0)) > 0:
        return Fault("bad_json", f"{nul} NUL bytes")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return Fault("bad_encoding", f"not UTF-8: {error.reason} at byte {error.start}")
    repaired, surrogates = _without_lone_surrogates(data)
    try:
        return (decode or _lenient)(repaired), surrogates
    except (msgspec.ValidationError, TypeError) as error:
        return Fault("unknown_shape", str(error))
    except (ValueError, RecursionError):
        return Fault("bad_json", "nested too deeply" if isinstance(first, RecursionError) else str(first))


def _lenient(data: bytes) -> Any:
    """The standard parser, for what the strict one refuses: NaN, Infinity and numbers beyond a double's range."""
    return json.loads(data, parse_int=_integer)


def _integer(text: str) -> int | float:
    # Beyond 64 bits a number is a float, as the strict parser reads it: writers know no wider integers.
    value = float(text)
    return int(text) if abs(value) < 2**63 else value


def _without_lone_surrogates(data: bytes) -> tuple[bytes, int]:
    found = 0

    def replace(match: re.Match[bytes]) -> bytes:
        nonlocal found
        if match[1] is None:
            return match[0]
        found += 1
        return b"\\ufffd"

    return _SURROGATES.sub(replace, data), found


def _os_text(error: OSError) -> str:
    """An operating system's message without the absolute path, which would carry a machine's names into data."""
    if error.errno == errno.ELOOP:
        return "is a link, which is not followed"
    return error.strerror or type(error).__name__
