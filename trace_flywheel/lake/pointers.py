"""What of a home changes in place: small files, most of which name the folder that counts.

Everything else below `lake/` and `datasets/` is named by its content and never changes.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from trace_flywheel.lake.files import OPEN_FILE, PRIVATE_FILE, TEMPORARY
from trace_flywheel.lake.index import GATHERED, LINES

RAW, TEXTS = "graded_traces", frozenset({"graded_traces", "redacted_rollouts"})
"""Assets whose partitions are fetched when they are read."""
GOLDENS, PURGED, PURGED_KEY = "lake/goldens.json", "lake/purged.jsonl", "lake/purged_key.json"
LOGS = frozenset({"lake/withdrawn.jsonl", PURGED, GOLDENS, PURGED_KEY})
"""What grows by what people do: two homes that both changed one are never merged in silence."""


class _Place(msgspec.Struct, frozen=True):
    generation: str


def pointers(home: Path) -> Iterator[tuple[str, bytes]]:
    """(path below the home, bytes) of everything in lake and datasets that changes in place."""
    lake = home / "lake"
    for path in sorted(lake.iterdir()) if lake.is_dir() else ():
        if path.name.startswith(TEMPORARY) or path.name == GATHERED or path.name.endswith(LINES):
            continue
        if path.is_file():
            if path.name != "format" and path.suffix not in (".json", ".jsonl"):
                continue
            yield f"lake/{path.name}", path.read_bytes()
        elif (path / "current").is_file():
            yield f"lake/{path.name}/current", (path / "current").read_bytes()
        else:
            inside = path.glob("*.json") if path.name == "quarantine" else path.glob("*/sidecar.json")
            for one in sorted(p for p in inside if not p.name.startswith(TEMPORARY)):
                yield one.relative_to(home).as_posix(), one.read_bytes()
    for path in sorted((home / "datasets").glob("*/latest")):
        yield path.relative_to(home).as_posix(), path.read_bytes()


def folder_of(path: str, text: bytes) -> str | None:
    """The folder that a pointer names, below the home; None for a file that stands for itself."""
    place = PurePosixPath(path)
    if place.name == "sidecar.json":
        return str(place.parent / msgspec.json.decode(text, type=_Place).generation)
    return str(place.parent / text.decode().strip()) if place.name in ("current", "latest") else None


def is_text(folder: str) -> bool:
    return PurePosixPath(folder).parts[1] in TEXTS


def ordered(paths: Iterable[str]) -> Iterator[list[str]]:
    ranks = ("lake/", "/sidecar.json", "/current", "/latest")
    groups: list[list[str]] = [[] for _ in ranks]
    for path in paths:
        groups[next((n for n in (1, 2, 3) if path.endswith(ranks[n])), 0)].append(path)
    yield from filter(None, groups)


def mode_of(path: str) -> int:
    return PRIVATE_FILE if path.startswith(f"lake/{RAW}/") or path in (GOLDENS, PURGED_KEY) else OPEN_FILE
