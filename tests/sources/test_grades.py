import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.sources.grades import passes, reward_of, spelling


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())))
def test_a_reward_is_finite_or_has_a_spelling_or_is_absent(value: Any) -> None:
    reward, text = reward_of(value)
    assert (reward is None) or math.isfinite(reward)
    assert (reward is None and text is None) == (value is None)
    assert reward is None or text is None


@pytest.mark.parametrize(("value", "text"), [(-math.inf, "-Infinity"), ("x" * 500, '"' + "x" * 199), (None, "null")])
def test_spellings(value: Any, text: str) -> None:
    assert spelling(value) == text


def test_passing_is_at_least_the_mark() -> None:
    assert [passes(r, 1.0) for r in (None, 0.99, 1.0, 2.0)] == [None, "fail", "pass", "pass"]
