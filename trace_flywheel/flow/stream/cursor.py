"""Where a stream stands: which results were printed, and as what content.

A cursor is stateless: it holds a short hash of each printed trial's path and of its result, so that another process,
on another machine, goes on without repeating or missing a trial and sees which results changed since. Modification
times cannot do that, because results do not appear in their order. A trial costs twelve characters.
"""

import base64
import binascii
import hashlib

from trace_flywheel.records.errors import FlywheelError

VERSION = "1."
NO_CURSOR = "--after: is no cursor; give the `cursor` of a printed line"
JOB_BYTES, PATH_BYTES, CONTENT_BYTES = 4, 5, 4
"""Among 10,000 trials two share a path hash with probability 5e-5; a change goes unseen with 2e-10."""


class Cursor:
    """The printed trials of one job."""

    def __init__(self, job: str) -> None:
        self._job = _hash(job.encode(), JOB_BYTES)
        self._printed: dict[bytes, bytes] = {}

    @classmethod
    def parse(cls, text: str, job: str) -> "Cursor":
        """A cursor from `--after`. Raises `FlywheelError` for another job's, or what is none."""
        cursor = cls(job)
        try:
            data = base64.b64decode(
                text.removeprefix(VERSION) + "=" * (-len(text.removeprefix(VERSION)) % 4), b"-_", True
            )
        except (binascii.Error, ValueError):
            data = b""
        size = PATH_BYTES + CONTENT_BYTES
        if not text.startswith(VERSION) or len(data) < JOB_BYTES or (len(data) - JOB_BYTES) % size:
            raise FlywheelError(NO_CURSOR)
        if data[:JOB_BYTES] != cursor._job:
            raise FlywheelError(f"--after: this cursor is of another job than {job}")
        for start in range(JOB_BYTES, len(data), size):
            cursor._printed[data[start : start + PATH_BYTES]] = data[start + PATH_BYTES : start + size]
        if str(cursor) != text:  # its base64 has bits to spare, which another spelling fills
            raise FlywheelError(NO_CURSOR)
        return cursor

    def __str__(self) -> str:
        data = self._job + b"".join(path + content for path, content in self._printed.items())
        return VERSION + base64.urlsafe_b64encode(data).decode().rstrip("=")

    def add(self, relative: str, sha256: str) -> None:
        """The trial was printed with this result."""
        self._printed[_hash(relative.encode(), PATH_BYTES)] = bytes.fromhex(sha256)[:CONTENT_BYTES]

    def printed(self, relative: str) -> bool:
        """Whether the trial was printed, as whatever."""
        return _hash(relative.encode(), PATH_BYTES) in self._printed

    def holds(self, relative: str, sha256: str) -> bool:
        """Whether the trial was printed with this very result."""
        return self._printed.get(_hash(relative.encode(), PATH_BYTES)) == bytes.fromhex(sha256)[:CONTENT_BYTES]


def _hash(data: bytes, size: int) -> bytes:
    return hashlib.sha256(data).digest()[:size]
