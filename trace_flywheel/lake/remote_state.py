"""What a home remembers of its object store: `<home>/remote.json`."""

from pathlib import Path

import msgspec

from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.objects import RemoteError

FILE = "remote.json"


class Seen(msgspec.Struct, frozen=True):
    """A pointer as this home last read or wrote it: the store's tag, the digest of its bytes, the folder it names."""

    tag: str
    sha256: str
    folder: str | None = None


class State(msgspec.Struct):
    url: str
    pointers: dict[str, Seen] = {}
    versions: list[str] = []
    """Dataset versions that stand both here and there."""
    leaving: list[str] = []
    """Folders that this home made needless: they go from the store unless a pointer names them again."""


def recalled(home: Path, url: str) -> State:
    """The state as it was remembered; an empty one where that was of another store. Raises `RemoteError`."""
    try:
        state = msgspec.json.decode((home / FILE).read_bytes(), type=State)
    except FileNotFoundError:
        return State(url)
    except msgspec.DecodeError as error:
        raise RemoteError(f"{home / FILE}: damaged ({error}); remove it and refresh") from None
    return state if state.url == url else State(url)


def remember(home: Path, state: State) -> None:
    replace_text(home / FILE, msgspec.json.encode(state, order="sorted").decode() + "\n")
