"""Who claims a folder, remembered for as long as nothing in it was touched: an unchanged run is not opened again.

What is remembered is this process's: of ten thousand known folders a sensor opens none. A folder is known by names,
kinds, inodes, sizes and times of all that it holds (`RunState.identity`), as they were before its reader looked. One
that holds a link, or was touched a moment ago, when a second change could bear the same time, is looked at again.
"""

import time
from typing import NamedTuple

from trace_flywheel.sources import registry
from trace_flywheel.sources.reader import Folder, Reader
from trace_flywheel.sources.run_state import RunState, state_of

SETTLED_SECONDS = 2.0
"""Age of the latest touch from which on two changes cannot bear one time: the coarsest clock of a file system."""
FEW_FILES = 64
"""A folder of so many files may turn out to be no run, and still be looked through first."""
MOST = 50_000
"""Folders that are remembered, 0.5 kB each."""


class Claim(NamedTuple):
    """The reader of a folder, and what the folder looked like, where that was found out."""

    reader: Reader
    finished: bool
    state: RunState | None


class _Known(NamedTuple):
    readers: tuple[Reader, ...]
    """Those that were asked."""
    identity: str
    """Empty where the folder has yet to be looked at before it is claimed."""
    reader: Reader
    finished: bool

    def is_still(self, state: RunState) -> bool:
        return self.identity == state.identity != "" and self.readers is registry.READERS


_known: dict[str, _Known] = {}


def claim_of(folder: Folder) -> Claim | None:
    """The claim of the first reader that claims a folder; None where none does."""
    path = str(folder.path)
    known = _known.get(path)
    now = time.time()
    # What lies below a folder that nobody claims is not looked through for it.
    small = not folder.folders and len(folder.files) <= FEW_FILES
    state = state_of(folder.path) if known is not None or small else None
    if known is not None and state is not None and known.is_still(state):
        return Claim(known.reader, known.finished, state)
    reader = registry.claimed_by(folder)
    if reader is None:
        _known.pop(path, None)
        return None
    claim = Claim(reader, reader.finished(folder), state)
    settled = state is not None and now - state.newest_touch > SETTLED_SECONDS
    # A reader takes what it cannot read just now for unfinished: it is asked again.
    identity = state.identity if state is not None and settled and claim.finished else ""
    if len(_known) >= MOST:
        _known.clear()
    _known[path] = _Known(registry.READERS, identity, reader, claim.finished)
    return claim
