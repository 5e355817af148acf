"""Which correction a recording takes. Of several that fit it, the last line of the file counts; the others are told.

A correction fits where its turn exists. A recording whose corrections all name turns that it does not have keeps one of
them, so that it gives no row: a human said that something in it is wrong.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from trace_flywheel.flow.recordings.events import Events
from trace_flywheel.records.canonical import sha256_hex
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.golden import CorrectionEntry
from trace_flywheel.records.rollout import Correction, Rollout
from trace_flywheel.sources.corrections import CorrectionEvent, read_corrections_and_events


class Unused(msgspec.Struct, frozen=True):
    """A line of a file of corrections that corrects nothing."""

    line: int
    of: str
    """The trace, or the event's id."""
    reason: Literal["superseded", "no_such_turn", "without_input"]
    text: str


class Corrections(msgspec.Struct, frozen=True):
    """By trace id, in the order of the file; and events, which name none."""

    by_trace: dict[str, tuple[CorrectionEntry, ...]] = {}
    events: Events = Events()

    def joined(self, rollouts: Sequence[Rollout], run_id: str, alone: bool) -> tuple[list[Rollout], list[Unused]]:
        """The rollouts with their corrections, after them (if `alone`) the events that no recording holds; and the
        lines that correct nothing, in their order."""
        matched = self.events.matched(rollouts)
        unused = [
            Unused(event.line, event.id, "without_input", "no input: nobody knows what was asked")
            for event in self.events.events
            if event.input is None
        ]
        kept = []
        for rollout in rollouts:
            named = [(entry.line, entry.correction) for entry in self.by_trace.get(rollout.trace_id, ())]
            given = sorted([*named, *matched.of.get(rollout.trace_id, ())], key=lambda one: one[0])
            kept.append(msgspec.structs.replace(rollout, correction=_last(rollout, given, unused)))
        if alone:
            made, earlier = self.events.alone(run_id, matched)
            kept += made
            unused += [_superseded(event.line, event.id, by) for event, by in earlier]
        return kept, sorted(unused, key=lambda one: (one.line, one.of))


def _last(rollout: Rollout, given: list[tuple[int, Correction]], unused: list[Unused]) -> Correction | None:
    turns = sum(message.role == "assistant" for message in rollout.messages)
    fits = [(line, one) for line, one in given if (one.turn or 0) < turns]
    for line, one in given:
        if (line, one) not in fits:
            names = "corrects the last turn" if one.turn is None else f"names turn {one.turn}"
            text = f"{names}, the recording has {turns} assistant turns"
            unused.append(Unused(line, rollout.trace_id, "no_such_turn", text))
    unused += [_superseded(line, rollout.trace_id, fits[-1][0]) for line, _ in fits[:-1]]
    return (fits or given)[-1][1] if given else None


def _superseded(line: int, of: str, by: int) -> Unused:
    return Unused(line, of, "superseded", f"line {by} corrects the same recording")


def corrections_of(path: Path | None) -> Corrections:
    """Raises `FlywheelError` for a line that is no correction."""
    if path is None:
        return Corrections()
    found: dict[str, list[CorrectionEntry]] = {}
    events = []
    for entry in read_corrections_and_events(path):
        if isinstance(entry, Drop):
            line = f":{entry.evidence['line']}" if "line" in entry.evidence else ""
            raise FlywheelError(f"{path}{line}: {entry.reason}: {entry.evidence.get('text')}")
        if isinstance(entry, CorrectionEvent):
            events.append(entry)
        else:
            found.setdefault(entry.trace_id, []).append(entry)
    by_trace = {trace_id: tuple(entries) for trace_id, entries in found.items()}
    return Corrections(by_trace, Events(tuple(events), path.name, sha256_hex(path.read_bytes())))
