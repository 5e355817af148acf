"""Recall on values that only their name makes secret, over syntaxes and alphabets, with a floor for each."""

from collections import Counter

import pytest

from tests.redaction.assignment_variants import ALPHABETS, assignments
from trace_flywheel.redaction.redact import redactor

SHORT = "short with symbols"
"""8 to 11 characters: some are letters only, and such a value behind a mere word is no mark of a secret."""


@pytest.mark.parametrize("number", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_recall_by_form_and_alphabet(number: int) -> None:
    made: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for form, alphabet, text, value in assignments(number):
        clean, _ = redactor("none").redact_value(text)
        left = any(value[i : i + 6] in clean for i in range(len(value) - 5))
        for group in (alphabet, *(["all of 12 and more", form] if alphabet != SHORT else [])):
            made[group] += 1
            missed[group] += left
    assert set(made) > set(ALPHABETS)
    assert missed["all of 12 and more"] <= 0.01 * made["all of 12 and more"]
    assert missed[SHORT] <= 0.12 * made[SHORT]
    rare = {group: n for group, n in missed.items() if n > max(0.03 * made[group], 2) and group != SHORT}
    assert rare == {}
