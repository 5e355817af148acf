"""How partitions become readable, many of them together: what is written first waits until a few turns of the disk.

Of each partition a generation and its new pointer are written under temporary names. They land in three movements: all
of it is made durable, the generations take their names, and when those names are durable the pointers change. So at any
moment, for a kill as for a loss of power, each pointer names a whole generation, its old one or its new one.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from trace_flywheel.lake.files import keep_only, move, new_file, sync, whole
from trace_flywheel.lake.sidecar import Sidecar, file_mode, pretty

POINTER = "sidecar.json"


class Staged(msgspec.Struct, frozen=True):
    """A generation that is written and not yet the partition: its temporary folder and what its pointer will say."""

    base: Path
    folder: Path
    sidecar: Sidecar

    @property
    def final(self) -> Path:
        return self.base / self.sidecar.generation


def pointer_beside(folder: Path) -> Path:
    """Where the pointer to a temporary generation waits."""
    return folder.with_name(f"{folder.name}.json")


def stage(base: Path, folder: Path, sidecar: Sidecar) -> Staged:
    with new_file(pointer_beside(folder), file_mode(sidecar.asset)) as file:
        file.write(pretty(sidecar).encode())
    return Staged(base, folder, sidecar)


def land(staged: Sequence[Staged]) -> None:
    """Make generations their partitions."""
    new = [one for one in staged if not one.final.exists()]  # names are content: one that exists is the same
    pointers = [pointer_beside(one.folder) for one in staged]
    sync([*pointers, *(path for one in new for path in whole(one.folder))])
    for one in new:
        move(one.folder, one.final)
    bases = [one.base for one in staged]
    above = {folder for base in bases for folder in (base.parent, base.parent.parent)}
    sync([*bases, *sorted(above)])
    for one, pointer in zip(staged, pointers, strict=True):
        pointer.replace(one.base / POINTER)
    sync(bases)
    for one in staged:
        keep_only(one.base, one.sidecar.generation)
