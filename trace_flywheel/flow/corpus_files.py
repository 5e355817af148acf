"""Corpora that are files: JSON Lines. What a file was is known by its bytes, and by size and times where those hold."""

import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from trace_flywheel.flow.corpus_rows import MAX_LINE_BYTES, Mark, Placed, read_again
from trace_flywheel.flow.corpus_shapes import Conversation, conversation_of
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources.jsonl import BLOCK_BYTES, Fault, read_lines
from trace_flywheel.sources.regular_file import open_regular


class File:
    """What files of rows share."""

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.address = path, path.name, str(path.absolute())

    def stamp(self) -> tuple[int, int, int, int]:
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError as error:
            raise self.unreadable(error.strerror or "unreadable_file") from None
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino

    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        stamp, digest, begins = self.stamp(), hashlib.sha256(), False
        limit, size, lines, last = before.size if before else -1, 0, 0, b""
        try:
            with open_regular(self.path, self.path.parent) as file:
                while block := file.read(BLOCK_BYTES):
                    if before is not None and size < limit <= size + len(block):
                        digest.update(block[: limit - size])
                        begins = digest.hexdigest() == before.sha256
                        digest.update(block[limit - size :])
                    else:
                        digest.update(block)
                    size, lines, last = size + len(block), lines + block.count(b"\n"), block[-1:]
        except OSError:
            raise self.unreadable("unreadable_file") from None
        if stamp != self.stamp():
            raise FlywheelError(f"{self.path}: changed while it was read; run it again")
        return Mark(digest.hexdigest(), size, lines, last == b"\n", stamp), begins

    def identity(self, mark: Mark) -> str:
        return f"{self.name}@{mark.sha256}"

    def unreadable(self, reason: str) -> FlywheelError:
        return FlywheelError(
            f"{self.path}: the corpus cannot be read ({reason}); correct --dedup-against or the setting `corpora`"
        )


class JsonLines(File):
    def mark(self, before: Mark | None = None) -> tuple[Mark, bool]:
        mark, begins = super().mark(before)
        return mark, begins and before is not None and before.ended

    def rows(self, after: Mark | None = None) -> Iterator[Placed]:
        start = (after.size, after.lines + 1) if after else (0, 1)
        lines = read_lines(self.path, self.path.parent, MAX_LINE_BYTES, start=start)
        for line in lines:
            if isinstance(line, Fault):
                yield Placed(line.line or 0, 0, None)
            else:
                yield Placed(line.number, lines.offset, conversation_of(line.value))

    def again(self, places: Sequence[int]) -> Iterator[Conversation]:
        with io.BufferedReader(open_regular(self.path, self.path.parent)) as file:
            for place in places:
                file.seek(place)
                yield read_again(file.readline(), self.name)
