"""A file that is there whole or not at all: written beside its place, synced, renamed over it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from trace_flywheel.records.errors import FlywheelError


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A binary file that takes `path`'s place when the block ends well and vanishes when it does not.

    Missing parent folders are made. Raises `FlywheelError` where `path` is a folder.
    """
    if path.is_dir():
        raise FlywheelError(f"{path}: is a folder; give the name of a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
