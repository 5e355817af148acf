"""What this home ever held out: golden files by path, so that an eval set out of sight is still held out.

Rollouts stay in the lake when their root is no longer read, and so must the goldens that stood beside them: a file is
read again while it is there, and its last known goldens (redacted, as the search wants them) count when it is gone.
"""

import errno
from collections.abc import Mapping
from pathlib import Path

import msgspec

from trace_flywheel.lake.files import PRIVATE_FILE, replace_text
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.golden import Golden


class KnownFile(msgspec.Struct, frozen=True):
    """A golden file as it was read last."""

    fingerprint: str
    goldens: tuple[Golden, ...]


def _place(home: Path) -> Path:
    return home / "lake" / "goldens.json"


def known_goldens(home: Path) -> dict[str, KnownFile]:
    """By absolute path; empty for a new home. A damaged file raises `FlywheelError`: what it held out would leak."""
    path = _place(home)
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, KnownFile])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except msgspec.DecodeError as error:
        raise FlywheelError(f"{path}: damaged ({error}); restore it, or remove it to forget its goldens") from None


def remember_goldens(home: Path, known: Mapping[str, KnownFile]) -> None:
    """Make this what the home knows; writes only where something changed."""
    if known == known_goldens(home):
        return
    try:
        replace_text(_place(home), msgspec.json.encode(known, order="sorted").decode() + "\n", PRIVATE_FILE)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise FlywheelError(
            f"{home}: there are other goldens than it knows, and it cannot be written ({error.strerror}); mend it or "
            "give another --home"
        ) from None
