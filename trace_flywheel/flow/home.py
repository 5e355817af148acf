"""The home that settings name: its lake, and the object store that it is a working copy of, where there is one."""

from collections.abc import Iterator
from contextlib import contextmanager

from trace_flywheel.lake.purged import FILE as TOMBSTONES
from trace_flywheel.lake.remote import Remote
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings


def remote_of(settings: Settings) -> Remote | None:
    """The object store of `lake.remote`; None where the home stands for itself. Raises `FlywheelError`."""
    return Remote(settings.lake.remote, settings.home) if settings.lake.remote else None


def lake_of(settings: Settings) -> Lake:
    """The lake of the home. Text that only the object store holds is fetched when it is read."""
    return Lake(settings.home, remote_of(settings))


def bring_up_to_date(settings: Settings) -> None:
    """Take over what other machines put into the object store, and took out of it."""
    if (remote := remote_of(settings)) is not None:
        remote.pull()
        if (settings.home / "lake" / TOMBSTONES).is_file():
            # tables are imported where something was ever erased
            from trace_flywheel.flow.erased_elsewhere import obey

            obey(lake_of(settings), remote)


@contextmanager
def shared(settings: Settings) -> Iterator[None]:
    """A block that begins with what the object store has, and whose changes stand there when it ends well."""
    bring_up_to_date(settings)
    if (remote := remote_of(settings)) is not None:
        remote.end_push()
    yield
    if (remote := remote_of(settings)) is not None:
        remote.push()
