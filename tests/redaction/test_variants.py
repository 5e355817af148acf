"""Random variants of every kind, from their public formats: recall and calm as issue 6 asks, form by form."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.redaction.personal_variants import calm_cases, personal_cases
from tests.redaction.variants import cases
from trace_flywheel.redaction.redact import redactor

FEW, MANY = 3, 50
Cases = Iterator[tuple[str, str, str, tuple[str, ...]]]


@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("made", [cases, personal_cases], ids=["credentials", "personal"])
def test_recall_in_every_form_and_of_every_kind(made: Callable[[int], Cases], number: int) -> None:
    by_form: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    missed_form: Counter[str] = Counter()
    missed_kind: Counter[str] = Counter()
    for kind, form, text, parts in made(number):
        redacted, _ = redactor("all").redact_value(text)
        missed = any(part in redacted for part in parts)
        by_form[form] += 1
        by_kind[kind] += 1
        missed_form[form] += missed
        missed_kind[kind] += missed
    assert {f: n for f, n in missed_form.items() if n > 0.01 * by_form[f]} == {}
    # The forms of one value are one chance; a password without digits has no mark of its own.
    assert {k: n for k, n in missed_kind.items() if n > max(0.1 * by_kind[k], by_kind[k] / number)} == {}


@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_hard_negatives_stay(number: int) -> None:
    made = list(calm_cases(number))
    touched = [text for _, text in made if redactor("all").redact_value(text)[0] != text]
    assert len(touched) <= 0.005 * len(made), touched[:5]
