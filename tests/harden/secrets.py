"""Secrets of every kind in every syntax, and near misses: what `tests/redaction/test_matrix.py` looks at in part.

A kind or a syntax of which more than 1 % stays is a fault, and so is a family of near misses of which more than 0.5 %
is touched.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.redaction.matrix import matrix
from tests.redaction.near_misses import near_misses
from trace_flywheel.redaction.redact import redactor

MISSED, TOUCHED = 0.01, 0.005


def round_of(seed: int, number: int, work: Path) -> Iterator[str]:
    """Faults among `number` values of every kind, in words."""
    wrong, total = Counter[str](), Counter[str]()
    for kind, form, text, parts in matrix(number, seed):
        redacted, _ = redactor("all").redact_value(text)
        for of in (f"kind {kind}", f"form {form}"):
            total[of] += 1
            wrong[of] += any(part in redacted for part in parts)
    for of, n in wrong.items():
        if n > MISSED * total[of]:
            yield f"{of}: {n} of {total[of]} stay"
    touched, seen = Counter[str](), Counter[str]()
    for family, text in near_misses(number, seed):
        seen[family] += 1
        touched[family] += redactor("all").redact_value(text)[0] != text
    for family, n in touched.items():
        if n > TOUCHED * seen[family]:
            yield f"near misses, {family}: {n} of {seen[family]} are touched"
