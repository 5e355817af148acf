"""`os.walk` for folders of others: Python 3.11's, and `rglob`, call themselves at each level, a thousand at most."""

import os
from collections.abc import Iterator
from pathlib import Path


def walked(top: str | Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`: top-down, links to folders named but not entered, the list of folders may be cut by the caller.
    What cannot be listed, or has a path too long for the system, is passed over."""
    waiting = [os.fspath(top)]
    while waiting:
        path = waiting.pop()
        folders, files, linked = list[str](), list[str](), set[str]()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        is_folder = entry.is_dir()
                    except OSError:
                        is_folder = False
                    (folders if is_folder else files).append(entry.name)
                    if is_folder and entry.is_symlink():
                        linked.add(entry.name)
        except OSError:
            continue
        yield path, folders, files
        waiting += [os.path.join(path, name) for name in reversed(folders) if name not in linked]  # noqa: PTH118
