"""A user's own rules, values that may stay, and fingerprints."""

from pathlib import Path

import pytest

from trace_flywheel.redaction.policy import Allow, Policy, fingerprint, read_rules
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import RuleError

GITHUB = "ghp_" + "a1B2c3D4" * 4 + "wxyz"
KEY = b"k" * 32
RULE = """family = "in_house"
[[rule]]
name = "contoso_ticket_key"
anchors = ["ctk_"]
body = '[a-z0-9]{20}'
examples = ["ct{|}k_{l20}"]
near = ["ctk_short"]
"""


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(RULE)
    return path


def test_a_users_rule_is_in_force_and_in_the_digest(rule_file: Path) -> None:
    policy = Policy("none", read_rules([rule_file]))
    text, found = redactor(policy).redact_value("key ctk_" + "a1b2c" * 4)
    assert (text, found) == ("key [REDACTED:contoso_ticket_key:1]", {"contoso_ticket_key": 1})
    assert policy.digest() != Policy("none").digest()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('examples = ["ct{|}k_{l20}"]', "", "give `examples`"),
        ('"ct{|}k_{l20}"', '"ctk_no"', "misses the canary"),
        ('"ctk_short"', '"ct{|}k_{l20}"', "near miss is found"),
        ("contoso_ticket_key", "github_token", "there is a rule of this name already"),
        ("contoso_ticket_key", "Contoso Key", "lower-case letters"),
        ("{20}'", "{20'", "contoso_ticket_key"),
    ],
)
def test_a_faulty_rule_file_is_told_in_one_line(rule_file: Path, old: str, new: str, told: str) -> None:
    rule_file.write_text(RULE.replace(old, new))
    with pytest.raises(RuleError, match=told) as error:
        read_rules([rule_file])
    assert str(error.value).startswith(str(rule_file))


def test_a_missing_rule_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="cannot be read"):
        read_rules([tmp_path / "none.toml"])


def test_an_allowed_pattern_stays_and_others_go() -> None:
    policy = Policy(allow=(Allow("our public test account", pattern=r".*@contoso\.com"),))
    text, found = redactor(policy).redact_value("ask ci@contoso.com or ann.lind@fabrikam.de")
    assert (text, found) == ("ask ci@contoso.com or [REDACTED:email:1]", {"email": 1})
    assert redactor(policy).scan(text) == {}


def test_an_allowed_fingerprint_stays_under_its_key_only() -> None:
    allow = (Allow("revoked in May", fingerprint=fingerprint(KEY, GITHUB)),)
    assert redactor(Policy(allow=allow, key=KEY)).redact_value({"a": GITHUB}) == ({"a": GITHUB}, {})
    assert redactor(Policy(allow=allow, key=b"other" * 8)).redact_value(GITHUB)[1] == {"github_token": 1}
    with pytest.raises(RuleError, match="no key"):
        redactor(Policy(allow=allow))


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (Allow(" ", pattern="a"), "give the reason"),
        (Allow("why"), "either a pattern or a fingerprint"),
        (Allow("why", pattern="a", fingerprint="b"), "either a pattern or a fingerprint"),
        (Allow("why", pattern="("), "not a pattern that RE2 takes"),
    ],
)
def test_a_faulty_entry_is_told(entry: Allow, told: str) -> None:
    with pytest.raises(RuleError, match=told):
        redactor(Policy(allow=(entry,)))


@pytest.mark.parametrize("pattern", [".*", r"(?s).+", r"\S*", "[^ ]{4,}", ".*|a"])
def test_a_pattern_that_lets_anything_stay_is_refused(pattern: str) -> None:
    with pytest.raises(RuleError, match="lets every value stay"):
        redactor(Policy(allow=(Allow("noise", pattern=pattern),)))


@pytest.mark.parametrize("pattern", [r".*@contoso\.com", "[0-9a-f]{40}", r"gh[a-z]_.*", r"\d+"])
def test_a_pattern_of_one_kind_is_taken(pattern: str) -> None:
    assert redactor(Policy(allow=(Allow("ours", pattern=pattern),)))


def test_digest_knows_what_is_allowed_and_neither_reason_nor_key() -> None:
    plain, allowing = Policy(), Policy(allow=(Allow("why", pattern="a"),))
    assert plain.digest() == Policy(key=KEY).digest() != allowing.digest()
    assert allowing.digest() == Policy(allow=(Allow("another reason", pattern="a"),), key=KEY).digest()


def test_sightings_name_place_rule_and_fingerprint_and_no_value() -> None:
    text, seen = redactor(Policy(key=KEY)).redact_value_told(f"{GITHUB} and {GITHUB}", "line 1")
    assert text == "[REDACTED:github_token:1] and [REDACTED:github_token:1]"
    assert [(s.place, s.rule) for s in seen] == [("line 1", "github_token")] * 2
    assert {s.fingerprint for s in seen} == {fingerprint(KEY, GITHUB)}
    assert GITHUB not in repr(seen)


def test_digest_knows_what_code_decides_beside_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Policy().digest()
    monkeypatch.setattr("trace_flywheel.redaction.policy.DECISIONS", 10**6)
    assert Policy().digest() != before
