"""Holdout: no eval golden is trained on, neither under its own id nor as text under another.

By id: (suite, task id); a side that names no suite matches every suite. By text: the share of the golden statement's
8-token n-grams that stand in a rollout outside tool output, at or above `overlap`; or its answer of at least eight
tokens standing there whole; or, for a statement of fewer than eight tokens, a user turn equal to it.

n-grams that many statements share are boilerplate (a harness preamble). Each n-gram weighs 1 / (number of different
statements that hold it), so a preamble counts little, while a statement that is there whole scores 1 however many
copies of it exist: discounting never hides a whole leak.

Tokens are case-folded runs of letters, digits and `_` (single characters in scripts without spaces): punctuation and
layout do not hide a golden. Goldens must have passed the same redactor as the rollouts, or a redacted name hides one.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd

from trace_flywheel.curation.decisions import drops
from trace_flywheel.curation.token_kernel import ngram_hashes, utf8
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message, text_of

NGRAM = 8
"""Tokens of an n-gram: eight in a row are seldom chance (8 to 13 are in use for decontamination)."""
_FILTER_BITS = 20
_PUNCTUATION = re.compile(r"[^\w\x00-\x7f]+")


def _word_table() -> np.ndarray:
    table = np.zeros(256, dtype=np.uint8)
    for byte in b"0123456789_abcdefghijklmnopqrstuvwxyz":
        table[byte] = byte
    table[65:91] = table[97:123]
    table[128:] = np.arange(128, 256)
    return table


_WORDS = _word_table()


class Holdout:
    """The goldens of one flow, ready to be looked for. Building is linear in their text; a look-up in the rollout's.

    `prompts` are task prompts of the corpus, whose n-grams count as shared too: without them boilerplate is known only
    from the goldens themselves. A prompt that is given many times counts once.
    """

    def __init__(self, goldens: Iterable[Golden], overlap: float, prompts: Iterable[str] = ()) -> None:
        self.goldens = tuple(
            sorted(set(goldens), key=lambda g: (g.task_id, g.suite or "", g.path, g.line, g.statement, g.answer))
        )
        self.overlap = overlap
        statements = [_tokens(g.statement) for g in self.goldens]
        long = [i for i, tokens in enumerate(statements) if len(tokens) >= NGRAM]
        grams = {i: np.unique(_grams(self.goldens[i].statement)) for i in long}
        joined = np.concatenate([*grams.values(), np.empty(0, dtype=np.uint64)])
        self._grams, inverse, counts = np.unique(joined, return_inverse=True, return_counts=True)
        frequency = counts + self._frequency_in({_tokens(p).tobytes(): p for p in prompts}.values())
        owner = np.repeat(np.array(long, dtype=np.int64), [len(grams[i]) for i in long])
        by_gram = np.argsort(inverse, kind="stable")
        self._owners = owner[by_gram]
        self._owner_offsets = np.append(0, np.cumsum(counts))
        self._weights = 1.0 / frequency
        self._totals = np.bincount(owner, weights=self._weights[inverse], minlength=len(self.goldens))
        self._filter = np.zeros(1 << _FILTER_BITS, dtype=bool)
        self._filter[self._grams >> np.uint64(64 - _FILTER_BITS)] = True
        short = [(tokens.tobytes(), i) for i, tokens in enumerate(statements) if 0 < len(tokens) < NGRAM]
        self._short = dict(reversed(short))
        self._answers = self._answers_by_first_gram()

    def _frequency_in(self, prompts: Iterable[str]) -> np.ndarray:
        """In how many prompts each golden n-gram stands."""
        frequency = np.zeros(len(self._grams), dtype=np.int64)
        for prompt in prompts:
            frequency += np.isin(self._grams, _grams(prompt))
        return frequency

    def _answers_by_first_gram(self) -> dict[int, list[tuple[int, bytes]]]:
        answers: dict[int, list[tuple[int, bytes]]] = {}
        for i, golden in enumerate(self.goldens):
            tokens = _tokens(golden.answer)
            if len(tokens) >= NGRAM:
                first = int(_grams(golden.answer)[0])
                answers.setdefault(first, []).append((i, tokens.tobytes()))
                self._filter[first >> (64 - _FILTER_BITS)] = True
        return answers

    def by_id(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Drops of the index rows whose (suite, task id) is a golden's."""
        by_task: dict[str, list[Golden]] = {}
        for golden in self.goldens:
            by_task.setdefault(golden.task_id, []).append(golden)
        tasks: list[str] = frame["task_id"].tolist()
        suites: list[str | None] = [s if isinstance(s, str) else None for s in frame["suite"].tolist()]
        rows, evidence = [], []
        for row in np.flatnonzero(frame["task_id"].isin(list(by_task)).to_numpy()).tolist():
            suite = suites[row]
            for golden in by_task[tasks[row]]:
                if golden.suite is None or suite is None or golden.suite == suite:
                    rows.append(row)
                    evidence.append(_named(golden))
                    break
        return drops(Stage.GOLDEN, rows, "golden_id", evidence)

    def hits(self, messages: Sequence[Message]) -> dict[str, Any] | None:
        """Evidence of the golden that a rollout holds: which, on which side, the share of its statement.

        Everything but tool output is searched: turns, reasoning, and the text inside tool-call arguments.
        """
        if not self.goldens:
            return None
        for message in messages if self._short else ():
            if message.role == "user":
                golden = self._short.get(_tokens(text_of(message.content)).tobytes())
                if golden is not None:
                    return self._evidence(golden, "statement", 1.0)
        return self.check_text("\n".join(piece for m in messages if m.role != "tool" for piece in _texts(m)))

    def check_text(self, text: str) -> dict[str, Any] | None:
        """The same for text as it is published, without tool output; user turns shorter than an n-gram are not told."""
        found = _grams(text)
        found = np.unique(found[self._filter[found >> np.uint64(64 - _FILTER_BITS)]])
        if len(found) == 0:
            return None
        return self._statement_in(found) or self._answer_in(found, text)

    def _statement_in(self, found: np.ndarray) -> dict[str, Any] | None:
        known = np.flatnonzero(np.isin(self._grams, found, assume_unique=True))
        if len(known) == 0:
            return None
        spans = [self._owners[self._owner_offsets[g] : self._owner_offsets[g + 1]] for g in known]
        weights = np.repeat(self._weights[known], [len(span) for span in spans])
        found_weight = np.bincount(np.concatenate(spans), weights=weights, minlength=len(self.goldens))
        shares = np.divide(found_weight, self._totals, out=np.zeros_like(found_weight), where=self._totals > 0)
        best = int(shares.argmax())
        return self._evidence(best, "statement", shares[best]) if shares[best] >= self.overlap - 1e-12 else None

    def _answer_in(self, found: np.ndarray, text: str) -> dict[str, Any] | None:
        candidates = [entry for gram in found.tolist() for entry in self._answers.get(gram, ())]
        tokens = _tokens(text).tobytes() if candidates else b""
        whole = [i for i, answer in candidates if _stands_in(answer, tokens)]
        return self._evidence(min(whole), "answer", 1.0) if whole else None

    def _evidence(self, golden: int, side: str, share: float) -> dict[str, Any]:
        return {**_named(self.goldens[golden]), "side": side, "share": round(float(share), 4), "overlap": self.overlap}


def fingerprint(path: Path) -> str:
    """What a dataset pins of a goldens file: the first 12 hex digits of its bytes' sha256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _named(golden: Golden) -> dict[str, Any]:
    return {"golden": golden.task_id, "suite": golden.suite, "path": golden.path, "line": golden.line}


def _grams(text: str) -> np.ndarray:
    return ngram_hashes(utf8(text, _PUNCTUATION), _WORDS, NGRAM)


def _tokens(text: str) -> np.ndarray:
    """Token hashes in order: equal for texts that differ in case, punctuation and layout only."""
    return ngram_hashes(utf8(text, _PUNCTUATION), _WORDS, 1)


def _stands_in(needle: bytes, haystack: bytes) -> bool:
    """Whether one sequence of 8-byte token hashes is part of the other."""
    at = haystack.find(needle)
    while at % 8 and at != -1:
        at = haystack.find(needle, at + 1)
    return at != -1


def _texts(message: Message) -> Iterator[str]:
    yield message.reasoning or ""
    yield text_of(message.content)
    for call in message.tool_calls:
        try:
            yield from _strings(orjson.loads(call.arguments))
        except orjson.JSONDecodeError:
            yield call.arguments


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
