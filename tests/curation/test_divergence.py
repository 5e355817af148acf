"""Where two attempts part."""

import pytest

from trace_flywheel.curation.divergence import Attempt, divergence


def attempt(roles, words):
    """`words`: one per message; a word's case is a literal difference only."""
    return Attempt(roles, [hash_of(w) for w in words.split()], [hash_of(w.lower()) for w in words.split()])


def hash_of(word):
    return int.from_bytes(word.encode(), "little")


@pytest.mark.parametrize(
    ("chosen", "rejected", "expected"),
    [
        (("ua", "q x"), ("ua", "q y"), 1),
        (("uatatata", "q c r x r x r x"), ("uata", "q c r y"), 3),
        (("ua", "q x"), ("uata", "q c r x"), 1),
        (("uaua", "q a q x"), ("uaua", "q A q y"), 1),
        (("ua", "q x"), ("ua", "q X"), "identical_responses"),
        (("ua", "q x"), ("ua", "q x"), "identical_responses"),
        (("uaua", "q a p x"), ("uaua", "q a s y"), "user_divergence"),
        (("uata", "q c r x"), ("uata", "q c s y"), "user_divergence"),
        (("uata", "q c r x"), ("uaua", "q c p y"), "user_divergence"),
        (("ua", "q a"), ("uaua", "q a p y"), "user_divergence"),
        (("ua", "q a"), ("uaa", "q a b"), "user_divergence"),
        (("uaua", "q a p x"), ("uaua", "q A s x"), "user_divergence"),
    ],
)
def test_two_attempts_part(chosen, rejected, expected):
    got = divergence(attempt(*chosen), attempt(*rejected))
    assert (got if isinstance(got, int) else got.reason) == expected


def test_the_roles_are_evidence():
    refusal = divergence(attempt("uata", "q c r x"), attempt("uata", "q c s y"))
    assert refusal.evidence == {"message": 2, "roles": {"chosen": "t", "rejected": "t"}}
    refusal = divergence(attempt("ua", "q a"), attempt("uaua", "q a p y"))
    assert refusal.evidence == {"message": 2, "roles": {"chosen": "end", "rejected": "u"}}
