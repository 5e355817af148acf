"""Holdout: no eval golden is trained on, neither under its own id nor as text under another.

By id: (suite, task id) or an alias; a side that names no suite matches every suite. By text: the share of the golden
statement's 8-token n-grams that stand in a rollout outside tool output, at or above `overlap`; or its answer of at
least eight tokens standing there whole; or, for a statement of fewer than eight tokens, a user turn equal to it.

n-grams that many statements or many tasks of the corpus share are boilerplate (a harness preamble). Each n-gram weighs
1 / (number of different statements that hold it + number of tasks that do, from `COMMON_TASKS` tasks on), so a preamble
counts little, while a statement that is there whole scores 1 however many copies of it exist: discounting never hides
a whole leak. Tasks with prompts of their own are counted: a leak that is asked a thousand times is no boilerplate.

Goldens must have passed the same redactor as the rollouts, or a redacted name hides one.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import orjson

from trace_flywheel.curation.decisions import drops
from trace_flywheel.curation.golden_text import NGRAM, grams_of, learnable, ngrams, stands_in, token_hashes
from trace_flywheel.records.fate import Stage
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message, text_of

if TYPE_CHECKING:
    import pandas as pd

COMMON_TASKS = 3
"""Tasks of the corpus from which on a shared n-gram is boilerplate: an item and its one rewritten copy are two."""
_NONE = np.empty(0, dtype=np.uint64)
_FILTER_BITS = 20


class Found(NamedTuple):
    """What of the goldens stands in a rollout, before any share is worked out."""

    grams: np.ndarray
    """Their statements' n-grams anywhere outside tool output: sorted, unique, uint64."""
    asked: np.ndarray
    """Those of them that stand in its system and user turns."""
    whole: dict[str, Any] | None
    """Evidence of an answer, or of a short statement, that is there whole."""

    def joined(self, other: "Found") -> "Found":
        """What stands in either."""
        grams, asked = (np.union1d(mine, its) for mine, its in ((self.grams, other.grams), (self.asked, other.asked)))
        return Found(grams, asked, self.whole or other.whole)


class Holdout:
    """The goldens of one flow, ready to be looked for. Building is linear in their text; a look-up in the rollout's.

    `asked` are the golden n-grams in the prompts of each task of the corpus (`Found.asked`, one array a task): without
    them boilerplate is known only from the goldens themselves.
    """

    def __init__(self, goldens: Iterable[Golden], overlap: float, asked: Iterable[np.ndarray] = ()) -> None:
        self.goldens = tuple(
            sorted(
                set(goldens),
                key=lambda g: (g.task_id, g.suite or "", g.path, g.line, g.statement, g.answer, str(g.aliases)),
            )
        )
        self.overlap = overlap
        statements = [token_hashes(g.statement) for g in self.goldens]
        first = {tokens.tobytes(): i for i, tokens in reversed(list(enumerate(statements)))}
        long = [i for i in sorted(first.values()) if len(statements[i]) >= NGRAM]
        grams = {i: np.unique(ngrams(self.goldens[i].statement)) for i in long}
        joined = np.concatenate([*grams.values(), _NONE])
        self._grams, inverse, counts = np.unique(joined, return_inverse=True, return_counts=True)
        tasks = self._tasks_with(asked)
        frequency = counts + np.where(tasks >= COMMON_TASKS, tasks, 0)
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

    def digest(self) -> str:
        """Of all that an answer depends on: two with the same say the same of every rollout."""
        told = hashlib.sha256(msgspec.json.encode([self.goldens, self.overlap]))
        for values in (self._grams, self._weights):
            told.update(values.tobytes())
        return told.hexdigest()

    def _tasks_with(self, asked: Iterable[np.ndarray]) -> np.ndarray:
        """In the prompts of how many tasks each golden n-gram stands."""
        tasks = np.zeros(len(self._grams), dtype=np.int64)
        for grams in asked:
            tasks += np.isin(self._grams, grams)
        return tasks

    def _answers_by_first_gram(self) -> dict[int, list[tuple[int, bytes]]]:
        answers: dict[int, list[tuple[int, bytes]]] = {}
        for i, golden in enumerate(self.goldens):
            tokens = token_hashes(golden.answer)
            if len(tokens) >= NGRAM:
                first = int(ngrams(golden.answer)[0])
                answers.setdefault(first, []).append((i, tokens.tobytes()))
                self._filter[first >> (64 - _FILTER_BITS)] = True
        return answers

    def by_id(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Drops of the index rows whose (suite, task id) is a golden's or an alias of one."""
        by_task: dict[str, list[Golden]] = {}
        for golden in self.goldens:
            for _, name in golden.names:
                by_task.setdefault(name, []).append(golden)
        named = np.flatnonzero(frame["task_id"].isin(list(by_task)).to_numpy())
        tasks: list[str] = frame["task_id"].iloc[named].tolist()
        suites = [s if isinstance(s, str) else None for s in frame["suite"].iloc[named].tolist()]
        rows, evidence = [], []
        for row, task, suite in zip(named.tolist(), tasks, suites, strict=True):
            for golden in by_task[task]:
                if golden.is_task(task, suite):
                    rows.append(row)
                    evidence.append(_named(golden) | ({"alias": task} if task != golden.task_id else {}))
                    break
        return drops(Stage.GOLDEN, rows, "golden_id", evidence)

    def near(self, frame: "pd.DataFrame", alive: np.ndarray) -> "pd.DataFrame":
        """Drops of the alive index rows that repeat a golden's text; rows with the same n-grams are judged once."""
        grams, whole = frame["golden_grams"].astype(object), frame["golden_hits"]
        candidates = np.flatnonzero(alive & (grams.notna() | whole.notna()).to_numpy(dtype=bool))
        judged = {text: self.statement_in(grams_of(text)) for text in grams.iloc[candidates].dropna().unique().tolist()}
        rows, evidence = [], []
        for row in candidates.tolist():
            if (hit := judged.get(grams.iat[row])) or isinstance(whole.iat[row], str):
                rows.append(row)
                evidence.append(hit or orjson.loads(str(whole.iat[row])))
        return drops(Stage.GOLDEN, rows, "golden_near_duplicate", evidence)

    def hits(self, messages: Sequence[Message]) -> dict[str, Any] | None:
        """Evidence of the golden that a rollout holds: which, on which side, the share of its statement.

        Everything but tool output is searched: turns, reasoning, and the text inside tool-call arguments.
        """
        if not self.goldens:
            return None
        found = self.find(messages)
        return self.statement_in(found.grams) or found.whole

    def find(self, messages: Sequence[Message]) -> Found:
        """What of the goldens stands in a rollout; it does not depend on `overlap` or on other rollouts."""
        if not self.goldens:
            return Found(_NONE, _NONE, None)
        short = None
        for message in messages if self._short else ():
            if message.role == "user" and short is None:
                short = self._short.get(token_hashes(text_of(message.content)).tobytes())
        text = "\n".join(piece for m in messages if m.role != "tool" for piece in learnable(m))
        found = self._sieved(text)
        whole = self._answer_in(found, text) if short is None else self._evidence(short, "statement")
        known = found[np.isin(found, self._grams, assume_unique=True)]
        if len(known) == 0:
            return Found(known, known, whole)
        prompt = self._sieved("\n".join(text_of(m.content) for m in messages if m.role in ("system", "user")))
        return Found(known, known[np.isin(known, prompt, assume_unique=True)], whole)

    def _sieved(self, text: str) -> np.ndarray:
        """The text's n-grams, sorted and unique, without nearly all that no golden has."""
        found = ngrams(text)
        return np.unique(found[self._filter[found >> np.uint64(64 - _FILTER_BITS)]])

    def statement_in(self, found: np.ndarray) -> dict[str, Any] | None:
        """Evidence of the statement of which most n-grams are among `found` (unique), where that is `overlap`."""
        known = np.flatnonzero(np.isin(self._grams, found, assume_unique=True))
        if len(known) == 0:
            return None
        spans = [self._owners[self._owner_offsets[g] : self._owner_offsets[g + 1]] for g in known]
        weights = np.repeat(self._weights[known], [len(span) for span in spans])
        found_weight = np.bincount(np.concatenate(spans), weights=weights, minlength=len(self.goldens))
        shares = np.divide(found_weight, self._totals, out=np.zeros_like(found_weight), where=self._totals > 0)
        best = int(shares.argmax())
        if shares[best] < self.overlap - 1e-12:
            return None
        return {**self._evidence(best, "statement", shares[best]), "overlap": self.overlap}

    def _answer_in(self, found: np.ndarray, text: str) -> dict[str, Any] | None:
        candidates = [entry for gram in found.tolist() for entry in self._answers.get(gram, ())]
        tokens = token_hashes(text).tobytes() if candidates else b""
        whole = [i for i, answer in candidates if stands_in(answer, tokens)]
        return self._evidence(min(whole), "answer") if whole else None

    def _evidence(self, golden: int, side: str, share: float = 1.0) -> dict[str, Any]:
        return {**_named(self.goldens[golden]), "side": side, "share": round(float(share), 4)}


def fingerprint(path: Path) -> str:
    """What a dataset pins of a goldens file: the first 12 hex digits of its bytes' sha256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _named(golden: Golden) -> dict[str, Any]:
    return {"golden": golden.task_id, "suite": golden.suite, "path": golden.path, "line": golden.line}
