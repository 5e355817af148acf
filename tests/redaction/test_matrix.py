"""Every kind in every syntax, and near misses of every family: a seeded part here, the whole in `make harden`."""

import random
from collections import Counter

import pytest

from tests.redaction.matrix import matrix
from tests.redaction.near_misses import FAMILIES, near_misses
from trace_flywheel.redaction.redact import redactor

SHARE = 0.04
"""Of the cases of one value a kind that the fast part looks at."""


def missed(number: int, share: float) -> tuple[Counter[str], Counter[str]]:
    """Cases missed and looked at, by form and by kind."""
    rng = random.Random(number)
    wrong, total = Counter[str](), Counter[str]()
    for kind, form, text, parts in matrix(number):
        if rng.random() > share:
            continue
        redacted, _ = redactor("all").redact_value(text)
        for of in (f"form {form}", f"kind {kind}", "all"):
            total[of] += 1
            wrong[of] += any(part in redacted for part in parts)
    return wrong, total


def test_a_part_of_the_matrix() -> None:
    wrong, total = missed(1, SHARE)
    assert total["all"] > 500
    assert wrong["all"] <= 0.01 * total["all"], wrong


@pytest.mark.slow
def test_the_matrix() -> None:
    wrong, total = missed(5, 1.0)
    assert {of: (n, total[of]) for of, n in wrong.items() if n > 0.01 * total[of]} == {}


@pytest.mark.parametrize("number", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_near_misses_stay(number: int) -> None:
    touched, total = Counter[str](), Counter[str]()
    texts = []
    for family, text in near_misses(number):
        total[family] += 1
        if redactor("all").redact_value(text)[0] != text:
            touched[family] += 1
            texts.append(text)
    assert set(total) == set(FAMILIES)
    assert all(n <= 0.005 * total[family] for family, n in touched.items()), texts[:20]
