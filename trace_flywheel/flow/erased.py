"""What must not be read again: by its address, by what it said wherever it stands, and whatever holds an erased value.

Every text of a rollout is looked at in one form: decoded, NFC, with the texts inside of JSON texts beside them. So a
copy in another file, under other names, with other keys first or other escapes is the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import msgspec
import orjson

from trace_flywheel.curation.message_hashes import Conversation
from trace_flywheel.lake.fingerprints import Values, values
from trace_flywheel.lake.purged import Tombstone, address_of, tombstones
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import canonical_value
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import text_of
from trace_flywheel.records.rollout import Rollout

WITHHELD = "its reason quotes an erased value"
BETWEEN = "\n\0\n"
"""Between the texts of a rollout, so that no value stands across two of them."""


class Erased(msgspec.Struct, frozen=True):
    """What may not enter the lake. The reasons are those that the erasures were given."""

    addresses: Mapping[str, str] = {}
    """Reason by address (`address_of`), of one run or of all."""
    contents: Mapping[str, str] = {}
    """Reason by digest of what was said."""
    values: Values = Values()

    def __bool__(self) -> bool:
        return bool(self.addresses or self.contents or self.values.prints)

    def drop(self, run_id: str, item: Rollout | Drop) -> Drop | None:
        """The nameless drop that takes the place of what was read, or None where that may enter."""
        address = address_of(run_id, item.trace_id) if item.trace_id is not None else None
        if address is not None and address in self.addresses:
            return purged(run_id, address, "address", self.addresses[address])
        if self.contents and isinstance(item, Rollout) and (reason := self.contents.get(said(item))) is not None:
            return purged(run_id, address, "content", reason)
        if self.values.prints and self.values.holds(texts_of(item)):
            return purged(run_id, address, "value", "")
        return None

    def names(self, run_ids: Sequence[str]) -> frozenset[str]:
        """Those whose own text holds an erased value, however odd characters are spelled in them."""
        if not self.values.prints or not self.values.holds(BETWEEN.encode().join(map(plain, run_ids))):
            return frozenset()
        return frozenset(run_id for run_id in run_ids if self.values.holds(plain(run_id)))

    def safe(self, text: str) -> str:
        """A text for people, unless it holds an erased value."""
        return WITHHELD if self.values.prints and self.values.holds(normal(text)) else text


def purged(run_id: str, address: str | None, by: str, reason: str) -> Drop:
    """A drop without a name: its address is known by its hash, so that `flywheel why` finds it by the name."""
    evidence = {"by": by, **({"address": address} if address else {}), **({"reason": reason} if reason else {})}
    return Drop(Stage.READ, "purged", evidence, run_id=run_id)


class Tombs:
    """The tombstones of a lake, read once for a pass."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @cached_property
    def _stones(self) -> tuple[Tombstone, ...]:
        return tombstones(self._lake.root)

    @cached_property
    def everywhere(self) -> Erased:
        """What holds in every run: contents and values."""
        contents = {stone.content: stone.reason for stone in self._stones if stone.content}
        prints = (stone.value for stone in self._stones if stone.value is not None)
        return Erased({}, contents, values(self._lake.root, prints))

    @cached_property
    def by_run(self) -> dict[str, dict[str, str]]:
        """Reason by address, by run id."""
        found: dict[str, dict[str, str]] = {}
        for stone in self._stones:
            if stone.address:
                found.setdefault(stone.run_id, {})[stone.address] = stone.reason
        return found

    def of(self, run_id: str) -> Erased:
        """What may not be read from this run."""
        return msgspec.structs.replace(self.everywhere, addresses=self.by_run.get(run_id, {}))


def said(rollout: Rollout) -> str:
    """Digest of what a rollout said; "" where it answered nothing: a prompt alone is other people's too."""
    messages = rollout.messages
    answers = (m for m in messages if m.role == "assistant")
    if not any(text_of(m.content).strip() or (m.reasoning or "").strip() or m.tool_calls for m in answers):
        return ""
    return Conversation(messages).content


def texts_of(item: Rollout | Drop) -> bytes:
    """All that a rollout or drop says, in the form in which values are sought."""
    return BETWEEN.join(_leaves(msgspec.to_builtins(item))).encode()


def normal(text: str) -> bytes:
    """A text in that form."""
    return str(canonical_value(text)).encode()


def plain(run_id: str) -> bytes:
    """A run id in that form, as the folders are called."""
    return normal(unquote(run_id))


def spellings(value: str) -> frozenset[str]:
    """How a value may stand in a text: as it is, or as JSON quoted inside of it, with or without escapes."""
    plain = str(canonical_value(value))
    escaped = orjson.dumps(plain)[1:-1].decode()
    ascii_only = "".join(c if c.isascii() else _escape(c) for c in escaped)
    return frozenset((plain, escaped, ascii_only))


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield canonical_value(value)
        if value[:1] in ("{", "[", '"'):
            try:
                inside = orjson.loads(value)
            except orjson.JSONDecodeError:
                return
            yield from _leaves(inside)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield canonical_value(str(name))
            yield from _leaves(one)
    elif isinstance(value, list | tuple):
        if value and all(type(one) in (int, float) for one in value):  # token ids, log-probabilities, ranges
            return
        for one in value:
            yield from _leaves(one)
    elif value is not None and not isinstance(value, bool):
        yield str(canonical_value(value))
