"""Lake and datasets in an S3-compatible object store: what stands there is the truth, a home is a working copy of it.

    <prefix>/lake/<asset>/<run>/<generation>/…   lake/<asset>/<digest>/…   datasets/<name>/<version>/…   written once
    <prefix>/pointers/lake/<asset>/<run>/sidecar.json   …/<asset>/current   pointers/datasets/<name>/latest   and so on

The folders of a home are named by their content, so their objects are only created (`If-None-Match: *`), but for the
fates of versions that an erasure takes names out of. A pointer
is put last and only over the one that this home saw last (`If-Match`): a reader sees the old state or the new one, a
killed writer leaves the old one, and of two writers one is told to look again. `<home>/remote.json` remembers the
pointers as they were seen, and what is to go once no pointer names it: a push that was killed is ended by the next.
Text of run partitions is fetched when it is read, everything else by `pull`.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from trace_flywheel.lake.files import PRIVATE_FOLDER, TEMPORARY, keep_only, make_folder, replace_text
from trace_flywheel.lake.objects import MissingError, Objects, RemoteError
from trace_flywheel.lake.pointers import GOLDENS, LOGS, PURGED, RAW, folder_of, is_text, mode_of, ordered, pointers
from trace_flywheel.lake.remote_folders import Folders
from trace_flywheel.lake.remote_state import Seen, State, recalled, remember
from trace_flywheel.records.canonical import sha256_hex

Value = TypeVar("Value")

POINTERS = "pointers/"
TRANSFERS = 16
"""Requests under way at once: a small object takes a round trip, not bandwidth."""
TRIES = 3
"""Looks at a pointer whose folder another writer replaced meanwhile."""


class Remote:
    """The object store at `url` (`s3://bucket/prefix`) and the home that mirrors it."""

    def __init__(self, url: str, home: Path) -> None:
        self.url, self._home, self._objects = url, home, Objects(url)
        self._folders = Folders(self._objects, home)

    # from the store

    def pull(self) -> int:
        """Bring the home up to what the store says; how many pointers changed. Raises `RemoteError` for a conflict."""
        with self._alone():
            return self._pull()

    def _pull(self) -> int:
        state, there = recalled(self._home, self.url), self._objects.listed(POINTERS)
        if self._local_change(PURGED, state):  # of an erasure that the store does not know: its versions go there too
            self._let_go(state, set(state.versions) - set(self._versions_here()))
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
            if seen is not None:
                state.pointers[path] = seen
        for path in sorted(state.pointers.keys() - there.keys()):
            self._forget(path, state.pointers.pop(path))
        named = {seen.folder for seen in state.pointers.values()}
        state.versions = [v for v in self._versions_here() if v in state.versions or v in named]
        remember(self._home, state)
        return len(changed)

    def fetch_versions(self) -> None:
        """Bring every dataset version here, not the newest ones alone."""
        with self._alone():
            state, there = recalled(self._home, self.url), sorted(self.versions())
            fetched = [folder for folder, whole in zip(there, self._parallel(self.fetch, there), strict=True) if whole]
            state.versions = sorted({*state.versions, *fetched})
            remember(self._home, state)

    def versions(self) -> set[str]:
        """Folders of all versions in the store, below the home."""
        return self._folders.versions()

    def fetch(self, folder: str) -> bool:
        """Bring one folder here, whole; False where the store has none of this name."""
        return self._folders.fetch(folder)

    def need(self, folder: str) -> None:
        """Bring one folder that a pointer of this home names. Raises `RemoteError` where it stands nowhere any more."""
        if not self.fetch(folder):
            raise RemoteError(f"{self.url}: another writer replaced {folder} since this command began; run it again")

    def _adopt(self, path: str) -> Seen | None:
        """Take a pointer over, its folder first; None where it was removed meanwhile."""
        for _ in range(TRIES):
            try:
                text, tag = self._objects.read(POINTERS + path)
            except MissingError:
                return None
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

    def end_push(self) -> None:
        """Push again where a push was killed, or an erasure before it."""
        with self._alone():
            state = recalled(self._home, self.url)
            if state.leaving or (state.pointers and self._local_change(PURGED, state)):
                self._push()

    def _push(self) -> int:
        state, here, versions = recalled(self._home, self.url), dict(pointers(self._home)), self._versions_here()
        self._let_go(state, set(state.versions) - set(versions))
        for folder in sorted(set(versions) - set(state.versions)):
            self._folders.create(folder)
        state.versions = versions
        changed = [path for path, text in here.items() if self._differs(path, text, state)]
        if PURGED in changed:  # an erasure takes names out of versions that stay
            for folder in versions:
                self._put_again(f"{folder}/", "fates.parquet")
            self._folders.sweep({seen.folder for seen in state.pointers.values() if seen.folder is not None})
        # What says that something must go comes first, what people read comes last.
        for group in ordered(changed):
            before = {path: state.pointers[path] for path in group if path in state.pointers}
            self._let_go(state, {seen.folder for path, seen in before.items() if path.startswith("lake/")})
            done = self._parallel(lambda path: self._replace(path, here[path], state.pointers.get(path)), group)
            state.pointers |= dict(zip(group, done, strict=True))
            remember(self._home, state)
        gone = state.pointers.keys() - here.keys()
        self._let_go(state, {state.pointers[path].folder for path in gone})
        self._objects.delete(POINTERS + path for path in sorted(gone))
        state.pointers = {path: seen for path, seen in state.pointers.items() if path not in gone}
        self._remove_leaving(state)
        return len(changed)

    def _let_go(self, state: State, folders: set[str | None] | set[str]) -> None:
        """Note that these folders are to go, before anything is done that makes them needless."""
        more = {folder for folder in folders if folder is not None} - set(state.leaving)
        if more:
            state.leaving = sorted({*state.leaving, *more})
            remember(self._home, state)

    def _remove_leaving(self, state: State) -> None:
        """Remove what is to go, but for what is named again, here or by another home."""
        needed = {seen.folder for seen in state.pointers.values()} | set(self._versions_here())
        self._parallel(self._folders.delete, [folder for folder in state.leaving if folder not in needed])
        state.leaving = []
        remember(self._home, state)

    def _replace(self, path: str, text: bytes, before: Seen | None) -> Seen:
        folder = folder_of(path, text)
        if folder is not None:
            self._folders.create(folder)
        tag = self._objects.replace(POINTERS + path, text, None if before is None else before.tag)
        if tag is None:
            raise RemoteError(f"{path}: another writer changed it in {self.url}; refresh again")
        return Seen(tag, sha256_hex(text), folder)

    def _put_again(self, folder: str, name: str) -> None:
        """Replace one object of a folder by the file that stands here now; a reader sees the one or the other."""
        path, tag = self._home / folder / name, self._objects.listed(folder).get(name)
        if tag and path.is_file() and self._objects.replace(folder + name, path.read_bytes(), tag) is None:
            raise RemoteError(f"{folder}{name}: another writer changed it in {self.url}; refresh again")

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

    def _differs(self, path: str, text: bytes, state: State) -> bool:
        return path not in state.pointers or state.pointers[path].sha256 != sha256_hex(text)

    def _local_change(self, path: str, state: State) -> bool:
        local = self._home / path
        if not local.is_file():
            return False
        return self._differs(path, local.read_bytes(), state)

    def _versions_here(self) -> list[str]:
        found = (self._home / "datasets").glob("*/*/manifest.json")
        return sorted(
            p.parent.relative_to(self._home).as_posix() for p in found if not p.parent.name.startswith(TEMPORARY)
        )
