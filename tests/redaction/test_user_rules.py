"""No rule of a user's can hang: every pattern is an automaton, every validator one of the package's, all linear.

A call into C cannot be interrupted outside the main thread, so nothing that backtracks may be named in a rule.
"""

import time
from pathlib import Path

import pytest

from trace_flywheel.redaction.policy import Allow, check_allow, read_rules
from trace_flywheel.redaction.rules import RuleError
from trace_flywheel.redaction.scanner import Scanner
from trace_flywheel.redaction.validators import VALIDATORS

RULE = {
    "detect": "ctk_[a-z]{4}",
    "confirm": "(ctk_[a-z]{4,40})",
    "context": "key",
    "unless": "no",
    "check": "real",
}
BACKTRACKING = (r"(?=a)ctk_", r"(?<=x)ctk_", r"(ct)\1", r"(?!x)ctk_[a-z]{4}", r"(?>a+)ctk_", r"a*+ctk_")
SLOW = r"(?:a+)+(?:a|aa)*(?:.*,)*!"
"""What a backtracking engine needs exponential time to refuse."""


def written(tmp_path: Path, **changes: str) -> Path:
    fields = {**RULE, **changes}
    lines = [f"{name} = '''{text}'''" for name, text in fields.items() if name != "check"]
    path = tmp_path / "mine.toml"
    path.write_text(
        'family = "mine"\n[[rule]]\nname = "mine_key"\nanchors = ["ctk_"]\n'
        + "\n".join(lines)
        + f'\ncheck = ["{fields["check"]}"]\nexamples = ["key ctk_abcdefgh"]\n'
    )
    return path


def test_the_rule_itself_is_sound(tmp_path: Path) -> None:
    assert [rule.name for rule in read_rules([written(tmp_path)])] == ["mine_key"]


@pytest.mark.parametrize("field", ["detect", "confirm", "context", "unless"])
@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_a_pattern_that_only_a_backtracking_engine_takes_is_refused(field: str, pattern: str, tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="mine_key"):
        read_rules([written(tmp_path, **{field: pattern})])


@pytest.mark.parametrize("pattern", BACKTRACKING)
def test_so_is_one_for_allowed_values(pattern: str) -> None:
    with pytest.raises(RuleError, match="RE2"):
        check_allow([Allow("known", pattern=pattern)])


@pytest.mark.parametrize("check", ["re.match", "eval", "trace_flywheel.cli.main", "__import__", "Real", ""])
def test_a_validator_is_one_of_the_packages(check: str, tmp_path: Path) -> None:
    assert check not in VALIDATORS
    with pytest.raises(RuleError, match="unknown validator"):
        read_rules([written(tmp_path, check=check)])


@pytest.mark.parametrize("field", ["confirm", "context", "unless"])
def test_a_pattern_made_to_explode_takes_linear_time(field: str, tmp_path: Path) -> None:
    pattern = (
        rf"(ctk_[a-z]{{4,40}}|{SLOW})" if field == "confirm" else rf"(?:{SLOW}|key)" if field == "context" else SLOW
    )
    scanner = Scanner(read_rules([written(tmp_path, **{field: pattern})]))

    def spent(size: int) -> float:
        text = (b"key " + b"a" * 200 + b" ctk_abcdefgh\n") * size
        start = time.process_time()
        assert len(scanner.scan([text])[0]) == size
        return time.process_time() - start

    spent(10)
    small, large = min(spent(200) for _ in range(3)), spent(1600)
    assert large < 40 * max(small, 1e-3)
