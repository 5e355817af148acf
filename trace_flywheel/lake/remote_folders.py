"""Folders of a home in an object store: whole or not there, although a store knows single objects only.

One object of each folder (`LAST`) is put last and removed first. Where it stands all stand, and who has read it after
the others has read them whole. Folders are named by their content, so their objects are only ever created.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

from trace_flywheel.lake.files import (
    OPEN_FILE,
    OPEN_FOLDER,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    STALE_SECONDS,
    TEMPORARY,
    new_file,
    settle,
    workplace,
)
from trace_flywheel.lake.objects import MissingError, Objects
from trace_flywheel.lake.pointers import RAW

LAST = frozenset({"drops.parquet", "sidecar.json", "manifest.json"})
"""Of a run's partition, of a table, of a dataset version."""
DEPTHS = {"lake": (4, 3), "datasets": (3,)}
"""Parts of the path of a folder: `lake/ASSET/RUN/GENERATION` or `lake/ASSET/DIGEST`, `datasets/NAME/VERSION`."""


class Folders:
    """The folders of the home at `home` in the store."""

    def __init__(self, objects: Objects, home: Path) -> None:
        self._objects, self._home = objects, home

    def fetch(self, folder: str) -> bool:
        """Bring one folder here, whole; False where the store has none of this name."""
        final = self._home / folder
        if final.is_dir():
            return True
        names = list(self._objects.listed(f"{folder}/"))
        if not LAST.intersection(names):
            return False
        private = PurePosixPath(folder).parts[1] == RAW
        with workplace(final.parent, PRIVATE_FOLDER if private else OPEN_FOLDER) as place:
            try:
                for name in sorted(names, key=lambda name: (name in LAST, name)):
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    with new_file(place / name, PRIVATE_FILE if private else OPEN_FILE) as file:
                        for block in self._objects.blocks(f"{folder}/{name}"):
                            file.write(block)
            except MissingError:
                return False
            settle(place, final)
        return True

    def create(self, folder: str) -> None:
        """Put the objects of a folder that do not stand there yet."""
        top = self._home / folder
        paths = [p for p in top.rglob("*") if p.is_file() and not p.name.startswith(TEMPORARY)]
        names = [path.relative_to(top).as_posix() for path in paths]
        for name in sorted(names, key=lambda name: (name in LAST, name)):
            self._objects.create(f"{folder}/{name}", top / name)

    def delete(self, folder: str) -> None:
        names = list(self._objects.listed(f"{folder}/"))
        for some in (LAST.intersection(names), set(names) - LAST):
            self._objects.delete(f"{folder}/{name}" for name in sorted(some))

    def versions(self) -> set[str]:
        """Folders of all dataset versions that stand whole."""
        found = (PurePosixPath(f"datasets/{name}") for name in self._objects.listed("datasets/"))
        return {str(path.parent) for path in found if len(path.parts) == 4 and path.name in LAST}

    def sweep(self, named: Collection[str]) -> None:
        """Remove what killed writers left a day ago or longer: objects of folders that nothing names."""
        before = datetime.now(UTC) - timedelta(seconds=STALE_SECONDS)
        known = {*named, *self.versions()}
        for top, depths in DEPTHS.items():
            old = [f"{top}/{name}" for name in self._objects.older(f"{top}/", before)]
            self._objects.delete(
                name for name in old if not any("/".join(name.split("/")[:depth]) in known for depth in depths)
            )
