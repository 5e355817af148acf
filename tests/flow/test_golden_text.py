"""What is kept of a golden holds no secret, also where redaction of data would refuse its text."""

import pytest

from trace_flywheel.flow.golden_text import redacted_golden
from trace_flywheel.records.golden import Golden
from trace_flywheel.redaction.redact import redactor

GITHUB = "ghp_" + "a1B2c3D4" * 4 + "wxyz"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"Use {GITHUB}.", "Use [REDACTED:github_token:1]."),
        ('{"card": 4111111111111111}', '{"card": [REDACTED:credit_card:1]}'),
        (f'{{"{GITHUB}": 1}}', '{"[REDACTED:github_token:1]": 1}'),
        ("Say hello.", "Say hello."),
    ],
)
def test_statement_and_answer(text: str, kept: str) -> None:
    golden = redacted_golden(Golden("t", statement=text, answer=text), redactor("standard"))
    assert golden == Golden("t", statement=kept, answer=kept)


def test_names_are_masked_as_those_of_rollouts_are() -> None:
    golden = redacted_golden(Golden(f"t {GITHUB}", "s", aliases=(("s", GITHUB),)), redactor("standard"))
    mask = redactor("standard").mask
    assert golden.names == (("s", mask(f"t {GITHUB}")), ("s", mask(GITHUB)))
    assert GITHUB not in repr(golden)
