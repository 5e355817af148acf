"""The elements of a JSON array, one at a time: for a document that is too large, or too broken, to be decoded whole.

The array stands at the top or under `results`. A row that is not UTF-8 is a fault of its own, and the next one is read.
What precedes a break in the JSON is read; the break is one fault with the number of its row, and ends the file, because
nothing says where the next row begins.
"""

import codecs
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from trace_flywheel.sources.crowded import MOST, nested_beyond
from trace_flywheel.sources.jsonl import BLOCK_BYTES, BOM, Fault, Line, decode_json
from trace_flywheel.sources.regular_file import open_regular

_START = re.compile(r'\ufeff?\s*(?:\{\s*"results"\s*:\s*)?\[')
_BETWEEN = re.compile(r"[\s,]*")
_EDGE = 16
"""Characters from the end of what was read so far within which an error may only mean that the rest is missing."""


def opens_array(head: bytes) -> bool:
    """Whether a file that begins so is one that `read_elements` reads."""
    return _START.match(head.removeprefix(BOM).decode(errors="replace")) is not None


def read_elements(path: Path, root: Path, max_bytes: int) -> Iterator[Line | Fault]:
    """The elements with their numbers, from 1. One above `max_bytes` is `line_too_long`."""
    try:
        with open_regular(path, root) as file:
            decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
            blocks = iter(lambda: file.read(BLOCK_BYTES), b"")
            yield from _elements((decoder.decode(block) for block in blocks), max_bytes)
    except OSError as error:
        yield Fault("unreadable_file", error.strerror or type(error).__name__)


def _elements(blocks: Iterator[str], max_bytes: int) -> Iterator[Line | Fault]:
    text = next(blocks, "")
    while (start := _START.match(text)) is None:
        block = next(blocks, None)
        if block is None:
            yield Fault("unknown_shape", "no array of rows")
            return
        text += block
    position, number, wanted = start.end(), 1, 1
    scan = json.JSONDecoder().raw_decode
    while True:
        position = _end_of_blanks(text, position)
        if text.startswith("]", position):
            return
        try:
            _, end = scan(text, position)
            # A number may go on behind what was read so far: `0.` is scanned as `0`.
            whole = text[end - 1] in '}]"' or text[end : end + 1] in tuple(",] \t\r\n")
        except RecursionError:
            yield Fault("bad_json", f"row {number}: nested too deeply")
            return
        except json.JSONDecodeError as error:
            if error.pos < len(text) - _EDGE and not error.msg.startswith("Unterminated string"):
                yield Fault("bad_json", f"row {number}: {error.msg}")
                return
            whole = False
        if whole:
            decoded = decode_json(text[position:end].encode(errors="surrogateescape"))
            if isinstance(decoded, Fault):
                yield Fault(decoded.reason, f"row {number}: {decoded.text}")
            else:
                yield Line(number, *decoded)
            position, number, wanted = end, number + 1, 1
            continue
        if len(text) - position > max_bytes:
            yield Fault("line_too_long", f"row {number} is above {max_bytes} bytes (ingest.max_line_mb)")
            return
        # Twice as much each time, so that a long row is not scanned from its start for every block.
        more = list(itertools.islice(blocks, wanted))
        if not more:
            yield Fault("bad_json", f"row {number}: the file ends in it", torn=True)
            return
        text, position, wanted = text[position:] + "".join(more), 0, wanted * 2
        if nested := nested_beyond(text.encode(errors="surrogateescape")):  # before it is scanned
            yield Fault("line_too_long", f"row {number} has about {nested} lists and objects; the limit is {MOST}")
            return


def _end_of_blanks(text: str, position: int) -> int:
    found = _BETWEEN.match(text, position)
    return found.end() if found else position
