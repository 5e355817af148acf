"""`lake/withdrawn.jsonl`: what was withdrawn and why, one line each, only ever added to.

A line with `"undo": true` ends the withdrawal of the same thing, however often it was withdrawn. The history stays;
`in_force` is what is left, each thing once, as it was withdrawn first.
"""

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
    path = lake.root / FILE
    found: dict[str, Withdrawal] = {}
    for number, line in enumerate(path.read_bytes().split(b"\n") if path.is_file() else [], 1):
        if not line:
            continue
        try:
            entry = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:
            raise LakeError(f"{path}:{number}: damaged ({error}); restore the file from a copy") from None
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
