"""RL lines whose text stands and whose numbers are others: a new rollout of a task moves the advantages of all its
attempts, and one that finished later than all others makes every policy older.

Such a line is the old one with another end. Nothing in it is scanned again: what changes are numbers and flags.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import orjson

from trace_flywheel.flow.dataset_rows import told_of
from trace_flywheel.lake.dataset import CANONICAL
from trace_flywheel.lake.spool import Place, Spools, spooled

TASK_BYTES = 8_000_000
"""Of lines from which on they are a task."""
_END = b',"advantage":'
"""Where numbers begin. In a text of the line its quotes are escaped, and what comes after has no such key."""


class Renumbering(msgspec.Struct, frozen=True):
    """Lines of a draft, and by line what is said of its group now."""

    folder: Path
    places: tuple[Place, ...]
    groups: tuple[Mapping[str, Any], ...]


def renumbered(_: Any, task: Renumbering) -> list[Place]:
    """Spools the lines with the numbers of now."""
    with Spools(task.folder) as spools:
        lines = spooled(task.folder, CANONICAL, task.places)
        return [spools.add(CANONICAL, [_line(*pair)]) for pair in zip(lines, task.groups, strict=True)]


def _line(line: bytes, group: Mapping[str, Any]) -> bytes:
    head, _, end = line.rstrip(b"\n").rpartition(_END)
    before = orjson.loads(b"{" + _END[1:] + end)
    advantage, about, policy = told_of(group, before["policy"]["version"])
    now = orjson.dumps({"advantage": advantage, "group": about, "policy": policy})
    return head + b"," + now[1:]


def cut(folder: Path, places: Iterator[Place], groups: Iterator[Mapping[str, Any]]) -> Iterator[Renumbering]:
    """Lines in tasks of about one size."""
    task: list[tuple[Place, Mapping[str, Any]]] = []
    size = 0
    for pair in zip(places, groups, strict=True):
        task.append(pair)
        size += pair[0].size
        if size >= TASK_BYTES:
            yield Renumbering(folder, *map(tuple, zip(*task, strict=True)))
            task, size = [], 0
    if task:
        yield Renumbering(folder, *map(tuple, zip(*task, strict=True)))
