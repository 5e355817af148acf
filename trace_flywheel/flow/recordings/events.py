"""Correction events: each corrects the recorded turn that it quotes, or else is a conversation of its own.

An event quotes a prompt and an answer. The answer of a recording is its turn's text or, in the recorder's protocol,
what stands under `answer`; then the corrected text goes back into the protocol. An event that no recording holds
becomes a rollout of two messages with its correction. One without a prompt is counted: nobody knows what it is about.
"""

from collections.abc import Hashable, Sequence

import msgspec
import orjson

from trace_flywheel.records.canonical import folded, sha256_hex
from trace_flywheel.records.message import Message, text_of
from trace_flywheel.records.rollout import Correction, Rollout, Source
from trace_flywheel.sources.corrections import CorrectionEvent
from trace_flywheel.trainers.atraj_sft import parsed_turn


class Matched(msgspec.Struct):
    """`of`: by trace id what corrects a recording, with its line (each event once); `events`: which were found."""

    of: dict[str, list[tuple[int, Correction]]] = msgspec.field(default_factory=dict)
    events: set[int] = msgspec.field(default_factory=set)


class Events(msgspec.Struct, frozen=True):
    """The events of one file."""

    events: tuple[CorrectionEvent, ...] = ()
    path: str = ""
    sha256: str = ""

    def matched(self, rollouts: Sequence[Rollout]) -> Matched:
        """The recordings whose turns the events quote."""
        found = Matched()
        quoted: dict[tuple[str, str], list[CorrectionEvent]] = {}
        for event in self.events:
            if event.input is not None:
                quoted.setdefault((folded(event.input), folded(event.original)), []).append(event)
        for rollout in rollouts if quoted else ():
            asked, turn = "", -1
            for message in rollout.messages:
                text = text_of(message.content)
                if message.role == "user":
                    asked = text
                if message.role != "assistant":
                    continue
                turn += 1
                answer = _answer(text)
                for event in quoted.get((folded(asked), folded(text if answer is None else answer)), ()):
                    found.events.add(event.line)
                    right = event.corrected if answer is None else orjson.dumps({"answer": event.corrected}).decode()
                    given = found.of.setdefault(rollout.trace_id, [])
                    if event.line not in (line for line, _ in given):
                        given.append((event.line, Correction(right, event.source, turn)))
        return found

    def alone(self, run_id: str, matched: Matched) -> tuple[list[Rollout], list[tuple[CorrectionEvent, int]]]:
        """A rollout for each event with a prompt that no recording holds; and the events that a later one replaces,
        which has their id or corrects the same answer to the same prompt, with its line."""
        source = Source("correction", self.path, self.sha256)
        left: list[CorrectionEvent] = []
        replaced: list[tuple[CorrectionEvent, int]] = []
        later: dict[Hashable, int] = {}
        for event in reversed(self.events):
            if event.input is None or event.line in matched.events:
                continue
            names: tuple[Hashable, ...] = (event.id, (folded(event.input), folded(event.original)))
            by = next((later[name] for name in names if name in later), None)
            if by is None:
                left.append(event)
            else:
                replaced.append((event, by))
            for name in names:
                later.setdefault(name, event.line if by is None else by)
        made = [
            Rollout(
                run_id,
                event.id,
                f"correction/{sha256_hex(folded(event.input).encode())[:12]}",
                source,
                (Message("user", event.input), Message("assistant", event.original)),
                grader="ungraded",
                correction=Correction(event.corrected, event.source, 0),
            )
            for event in reversed(left)
            if event.input is not None
        ]
        return made, replaced


def _answer(text: str) -> str | None:
    """What a turn in the recorder's protocol answers."""
    spoken = parsed_turn(text)
    answer = spoken.get("answer") if spoken is not None else None
    return answer if isinstance(answer, str) else None
