"""`lake/withdrawn.jsonl`: what was withdrawn and why, one line for each time.

Lines are only ever added, but for the names of what was erased (`forget`). A line with `"undo": true` ends the
withdrawal of the same thing, however often it was withdrawn. The history stays; `in_force` is what is left, each thing
once, as it was withdrawn first.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.grading import Withdrawal

FILE = "withdrawn.jsonl"


class _Line(Withdrawal, frozen=True, omit_defaults=True):
    undo: bool = False


def in_force(lake: Lake) -> tuple[Withdrawal, ...]:
    """Withdrawals that count now, in the order they were made. A damaged file raises `LakeError`."""
    found: dict[str, Withdrawal] = {}
    for entry in _lines(lake.root / FILE):
        if entry.undo:
            found.pop(entry.what, None)
        else:
            found.setdefault(entry.what, Withdrawal(*(getattr(entry, name) for name in Withdrawal.__struct_fields__)))
    return tuple(found.values())


def note(lake: Lake, entry: Withdrawal, undo: bool = False) -> None:
    """Add a line. An undo of what is not in force raises `LakeError`."""
    if undo and entry.what not in {one.what for one in in_force(lake)}:
        raise LakeError(f"{entry.what} is not withdrawn; {FILE} in {lake.root} says what is")
    path = lake.root / FILE
    before = path.read_text("utf-8") if path.is_file() else ""
    values = {name: getattr(entry, name) for name in Withdrawal.__struct_fields__}
    replace_text(path, before + msgspec.json.encode(_Line(**values, undo=undo)).decode() + "\n")


def forget(lake: Lake, erased: Callable[[Withdrawal], bool], shown: Callable[[str], str]) -> None:
    """Take out the lines that `erased` says name what was erased; `shown` gives the reasons that the others keep."""
    path = lake.root / FILE
    before = list(_lines(path))
    left = [msgspec.structs.replace(line, reason=shown(line.reason)) for line in before if not erased(line)]
    if left != before:
        replace_text(path, "".join(msgspec.json.encode(line).decode() + "\n" for line in left))


def _lines(path: Path) -> list[_Line]:
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n") if path.is_file() else [], 1):
        try:
            found += [msgspec.json.decode(line, type=_Line)] if line else []
        except msgspec.DecodeError as error:
            raise LakeError(f"{path}:{number}: damaged ({error}); restore the file from a copy") from None
    return found
