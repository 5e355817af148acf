"""Lake and datasets in an S3-compatible object store: what stands there is the truth, a home is a working copy of it.

    <prefix>/lake/<asset>/<run>/<generation>/…   lake/<asset>/<digest>/…   datasets/<name>/<version>/…   written once
    <prefix>/pointers/lake/<asset>/<run>/sidecar.json   …/<asset>/current   pointers/datasets/<name>/latest   and so on

The folders of a home are named by their content, so their objects are only created (`If-None-Match: *`), but for the
fates of versions that an erasure takes names out of. A pointer
is put last and only over the one that this home saw last (`If-Match`): a reader sees the old state or the new one, a
killed writer leaves the old one, and of two writers one is told to look again. `<home>/remote.json` remembers the
pointers as they were seen. Text of run partitions is fetched when it is read, everything else by `pull`.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from trace_flywheel.lake.files import (
    OPEN_FILE,
    OPEN_FOLDER,
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    TEMPORARY,
    keep_only,
    make_folder,
    new_file,
    replace_text,
    settle,
    workplace,
)
from trace_flywheel.lake.objects import Objects, RemoteError
from trace_flywheel.lake.pointers import GOLDENS, LOGS, PURGED, RAW, folder_of, is_text, mode_of, ordered, pointers
from trace_flywheel.records.canonical import sha256_hex

Value = TypeVar("Value")

STATE = "remote.json"
POINTERS = "pointers/"
TRANSFERS = 16
"""Requests under way at once: a small object takes a round trip, not bandwidth."""
TRIES = 3
"""Looks at a pointer whose folder another writer replaced meanwhile."""


class Seen(msgspec.Struct, frozen=True):
    """A pointer as this home last read or wrote it: the store's tag, the digest of its bytes, the folder it names."""

    tag: str
    sha256: str
    folder: str | None = None


class _State(msgspec.Struct):
    url: str
    pointers: dict[str, Seen] = {}
    versions: list[str] = []
    """Dataset versions that stand both here and there."""


class Remote:
    """The object store at `url` (`s3://bucket/prefix`) and the home that mirrors it."""

    def __init__(self, url: str, home: Path) -> None:
        self.url, self._home, self._objects = url, home, Objects(url)

    # from the store

    def pull(self) -> int:
        """Bring the home up to what the store says; how many pointers changed. Raises `RemoteError` for a conflict."""
        with self._alone():
            return self._pull()

    def _pull(self) -> int:
        state, there = self._state(), self._objects.listed(POINTERS)
        # One that is away here was lost with its home's files, not removed: what is removed goes from the store too.
        changed = [
            path
            for path, tag in there.items()
            if path not in state.pointers or state.pointers[path].tag != tag or not (self._home / path).is_file()
        ]
        ours = {path for path in LOGS & set(changed) if self._local_change(path, state)}
        for path in sorted(ours):
            state.pointers[path] = self._join(path)
        changed = [path for path in changed if path not in ours]
        for path, seen in zip(changed, self._parallel(self._adopt, changed), strict=True):
            state.pointers[path] = seen
        for path in sorted(state.pointers.keys() - there.keys()):
            self._forget(path, state.pointers.pop(path))
        state.versions = self._versions_here()
        self._remember(state)
        return len(changed)

    def fetch_versions(self) -> None:
        """Bring every dataset version here, not the newest ones alone."""
        self._parallel(self.fetch, sorted(self.versions()))

    def versions(self) -> set[str]:
        """Folders of all versions in the store, below the home."""
        return {"/".join(["datasets", *name.split("/")[:2]]) for name in self._objects.listed("datasets/")}

    def fetch(self, folder: str) -> bool:
        """Bring one folder here, whole; False where the store has none of this name."""
        final = self._home / folder
        if final.is_dir():
            return True
        names = [name for name in self._objects.listed(f"{folder}/") if name]
        if not names:
            return False
        private = PurePosixPath(folder).parts[1] == RAW
        with workplace(final.parent, PRIVATE_FOLDER if private else OPEN_FOLDER) as place:
            for name in names:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                with new_file(place / name, PRIVATE_FILE if private else OPEN_FILE) as file:
                    for block in self._objects.blocks(f"{folder}/{name}"):
                        file.write(block)
            settle(place, final)
        return True

    def _adopt(self, path: str) -> Seen:
        """Take a pointer over, its folder first."""
        for _ in range(TRIES):
            text, tag = self._objects.read(POINTERS + path)
            folder = folder_of(path, text)
            if path.startswith(f"lake/{RAW}/"):
                make_folder(self._home / "lake" / RAW, PRIVATE_FOLDER)
            if folder is None or is_text(folder) or self.fetch(folder):
                replace_text(self._home / path, text.decode(), mode_of(path))
                if folder is not None and folder.startswith("lake/"):
                    keep_only((self._home / folder).parent, PurePosixPath(folder).name)
                return Seen(tag, sha256_hex(text), folder)
        raise RemoteError(f"{self.url}/{path}: names a folder that is not there; refresh again")

    def _join(self, path: str) -> Seen:
        """A log that changed here and there. Only golden files can be put together: each has a place of its own."""
        theirs, tag = self._objects.read(POINTERS + path)
        mine = (self._home / path).read_bytes()
        if path == GOLDENS:
            both = {**msgspec.json.decode(theirs), **msgspec.json.decode(mine)}
            replace_text(self._home / path, msgspec.json.encode(both, order="sorted").decode() + "\n", mode_of(path))
        elif theirs != mine:
            raise RemoteError(f"{path}: changed here and in {self.url}; move the one of this home away and refresh")
        return Seen(tag, sha256_hex(theirs))

    def _forget(self, path: str, seen: Seen) -> None:
        (self._home / path).unlink(missing_ok=True)
        if seen.folder is not None:
            shutil.rmtree(self._home / seen.folder, ignore_errors=True)

    # to the store

    def push(self) -> int:
        """Make what stands in the home the store's state; how many pointers changed. `RemoteError` for a conflict."""
        with self._alone():
            return self._push()

    def _push(self) -> int:
        state, here = self._state(), dict(pointers(self._home))
        for folder in sorted(set(self._versions_here()) - set(state.versions)):
            self._create(folder)
        changed = [path for path, text in here.items() if self._differs(path, text, state)]
        for folder in state.versions if PURGED in changed else ():  # an erasure takes names out of versions that stay
            self._put_again(f"{folder}/", "fates.parquet")
        # What says that something must go comes first, what people read comes last.
        for group in ordered(changed):
            done = self._parallel(lambda path: self._replace(path, here[path], state.pointers.get(path)), group)
            for path, seen in zip(group, done, strict=True):
                before, state.pointers[path] = state.pointers.get(path), seen
                if before is not None and before.folder not in (None, seen.folder) and path.startswith("lake/"):
                    self._objects.delete_below(f"{before.folder}/")
            self._remember(state)
        for path in sorted(state.pointers.keys() - here.keys()):
            gone = state.pointers.pop(path)
            self._objects.delete(POINTERS + path)
            if gone.folder is not None:
                self._objects.delete_below(f"{gone.folder}/")
        versions = self._versions_here()
        for folder in sorted(set(state.versions) - set(versions)):
            self._objects.delete_below(f"{folder}/")
        state.versions = versions
        self._remember(state)
        return len(changed)

    def _replace(self, path: str, text: bytes, before: Seen | None) -> Seen:
        folder = folder_of(path, text)
        if folder is not None:
            self._create(folder)
        tag = self._objects.replace(POINTERS + path, text, None if before is None else before.tag)
        if tag is None:
            now, tag = self._objects.read(POINTERS + path)
            if now != text:
                raise RemoteError(f"{path}: another writer changed it in {self.url}; refresh again")
        return Seen(tag, sha256_hex(text), folder)

    def _put_again(self, folder: str, name: str) -> None:
        """Replace one object of a folder by the file that stands here now; a reader sees the one or the other."""
        path, tag = self._home / folder / name, self._objects.listed(folder).get(name)
        if tag and path.is_file() and self._objects.replace(folder + name, path.read_bytes(), tag) is None:
            raise RemoteError(f"{folder}{name}: another writer changed it in {self.url}; refresh again")

    def _create(self, folder: str) -> None:
        """Put the objects of a folder that do not stand there yet. Their names are their content."""
        top = self._home / folder
        for path in sorted(p for p in top.rglob("*") if p.is_file() and not p.name.startswith(TEMPORARY)):
            self._objects.create(f"{folder}/{path.relative_to(top).as_posix()}", path)

    # both

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process of a home at a time compares it with the store."""
        self._home.mkdir(parents=True, exist_ok=True)
        with (self._home / "remote.lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _parallel(self, work: Callable[[str], Value], paths: list[str]) -> list[Value]:
        with ThreadPoolExecutor(TRANSFERS) as pool:
            return list(pool.map(work, paths))

    def _differs(self, path: str, text: bytes, state: _State) -> bool:
        return path not in state.pointers or state.pointers[path].sha256 != sha256_hex(text)

    def _local_change(self, path: str, state: _State) -> bool:
        local = self._home / path
        if not local.is_file():
            return False
        return self._differs(path, local.read_bytes(), state)

    def _versions_here(self) -> list[str]:
        found = (self._home / "datasets").glob("*/*/manifest.json")
        return sorted(
            p.parent.relative_to(self._home).as_posix() for p in found if not p.parent.name.startswith(TEMPORARY)
        )

    def _state(self) -> _State:
        try:
            state = msgspec.json.decode((self._home / STATE).read_bytes(), type=_State)
        except FileNotFoundError:
            return _State(self.url)
        except msgspec.DecodeError as error:
            raise RemoteError(f"{self._home / STATE}: damaged ({error}); remove it and refresh") from None
        return state if state.url == self.url else _State(self.url)

    def _remember(self, state: _State) -> None:
        replace_text(self._home / STATE, msgspec.json.encode(state, order="sorted").decode() + "\n")
