"""Tool results bound to their calls: every id unique in a conversation, results in call order behind their turn.

Order counts: a result belongs to a call that was made before it. Ids that drifted between call and result are repaired
as BenchFlow does (the oldest open call takes the result's id), except that a call whose own result is still to come in
the turn is never given away. Ids used again in a later turn are renamed (`c1`, `c1-2`), stably by order. A result that
fits no open call is an orphan. Calls that nobody answered stay open.
"""

from collections.abc import Sequence

import msgspec

from trace_flywheel.records.message import Content, Message, ToolCall, text_of


class Paired(msgspec.Struct, frozen=True):
    """The conversation after pairing, and what it took."""

    messages: tuple[Message, ...]
    orphans: tuple[int, ...] = ()
    """Positions, in the input, of results without a call."""
    renamed: int = 0
    """Calls that carry another id than recorded."""
    merged: int = 0
    """Results that continued the one before them."""


class _Open(msgspec.Struct):
    turn: "_Turn"
    position: int
    recorded: str


class _Turn(msgspec.Struct):
    """An assistant message with its results by call position, and what else stands before the next one."""

    message: Message | None
    calls: list[ToolCall]
    results: dict[int, Message] = msgspec.field(default_factory=dict)
    others: list[tuple[Message, "_Open | None"]] = msgspec.field(default_factory=list)


def pair(messages: Sequence[Message], repair: bool = True) -> Paired:
    """Bind results to calls. The order of assistant messages never changes and none is lost.

    Without `repair` a result under an id that no open call has is an orphan.
    """
    if _is_paired(messages):
        return Paired(tuple(messages))
    pairing = _Pairing(messages, repair)
    for index, message in enumerate(messages):
        if message.role == "assistant":
            pairing.turn(message)
        elif message.role == "tool":
            pairing.result(index, message)
        else:
            pairing.turns[-1].others.append((message, None))
    return pairing.done()


def _is_paired(messages: Sequence[Message]) -> bool:
    """Whether every id is used once and every result stands right behind its turn, in call order: most conversations
    are recorded so, and come back as they are."""
    used: set[str] = set()
    due: list[str] = []
    for message in messages:
        if message.role == "tool":
            if not due or due.pop() != message.tool_call_id:
                return False
            continue
        due = [call.id for call in reversed(message.tool_calls)] if message.role == "assistant" else []
        before = len(used)
        used.update(due)
        if len(used) - before < len(due):
            return False
    return True


class _Pairing:
    def __init__(self, messages: Sequence[Message], repair: bool) -> None:
        self.messages = messages
        self.repair = repair
        self.turns = [_Turn(None, [])]
        self.open: list[_Open] = []
        self.used: set[str] = set()
        self.last: tuple[str, _Open] | None = None
        self.orphans: list[int] = []
        self.renamed = self.merged = 0

    def turn(self, message: Message) -> None:
        turn = _Turn(message, list(message.tool_calls))
        for position, call in enumerate(message.tool_calls):
            self._name(turn, position, call.id)
            self.open.append(_Open(turn, position, call.id))
        self.turns.append(turn)
        self.last = None

    def _name(self, turn: _Turn, position: int, wanted: str) -> None:
        name, count = wanted, 1
        while name in self.used:
            count += 1
            name = f"{wanted}-{count}"
        self.used.add(name)
        call = turn.calls[position]
        if name != call.id:
            self.renamed += 1
            turn.calls[position] = msgspec.structs.replace(call, id=name)

    def result(self, index: int, message: Message) -> None:
        recorded = message.tool_call_id
        found = self._matching(message)
        if found is None and self.last is not None and recorded == self.last[0] and self._follows_result(index):
            self._merge(self.last[1], message)
            return
        if found is None and recorded and self.repair and (drifted := self._drifted(index)) is not None:
            found = drifted
            self._name(found.turn, found.position, recorded)
        if found is None:
            self.orphans.append(index)
            self.turns[-1].others.append((message, None))
            return
        self.open.remove(found)
        self.last = (recorded, found) if recorded else None
        if found.turn is self.turns[-1]:
            found.turn.results[found.position] = message
        else:
            self.turns[-1].others.append((message, found))

    def _matching(self, message: Message) -> _Open | None:
        """The call of the latest turn that has this id (or, for a result without one, this function's name)."""
        best: _Open | None = None
        for call in self.open:
            if message.tool_call_id is None:
                fits = message.name is not None and call.turn.calls[call.position].name == message.name
            else:
                fits = call.recorded == message.tool_call_id
            if fits and (best is None or call.turn is not best.turn):
                best = call
        return best

    def _follows_result(self, index: int) -> bool:
        return index > 0 and self.messages[index - 1].role == "tool"

    def _drifted(self, index: int) -> _Open | None:
        """The oldest open call that no later result of this turn names."""
        named = set()
        for later in self.messages[index + 1 :]:
            if later.role == "assistant":
                break
            named.add(later.tool_call_id)
        return next((call for call in self.open if call.recorded not in named), None)

    def _merge(self, found: _Open, message: Message) -> None:
        self.merged += 1
        turn, position = found.turn, found.position
        if position in turn.results:
            turn.results[position] = _joined(turn.results[position], message)
            return
        others = self.turns[-1].others
        at = max(i for i, (_, owner) in enumerate(others) if owner is found)
        others[at] = (_joined(others[at][0], message), found)

    def done(self) -> Paired:
        out: list[Message] = []
        for turn in self.turns:
            if (message := turn.message) is not None:
                calls = tuple(turn.calls)
                out.append(
                    message if message.tool_calls == calls else msgspec.structs.replace(message, tool_calls=calls)
                )
            out += [_answering(turn, position, turn.results[position]) for position in sorted(turn.results)]
            for other, found in turn.others:
                out.append(other if found is None else _answering(found.turn, found.position, other))
        return Paired(tuple(out), tuple(self.orphans), self.renamed, self.merged)


def _answering(turn: _Turn, position: int, message: Message) -> Message:
    call_id = turn.calls[position].id
    return message if message.tool_call_id == call_id else msgspec.structs.replace(message, tool_call_id=call_id)


def _joined(first: Message, second: Message) -> Message:
    content: Content
    if isinstance(first.content, list) or isinstance(second.content, list):
        content = [*_parts(first.content), *_parts(second.content)]
    else:
        content = "\n".join((text_of(first.content), text_of(second.content)))
    return msgspec.structs.replace(first, content=content, is_error=first.is_error or second.is_error)


def _parts(content: Content) -> list[dict[str, object]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
