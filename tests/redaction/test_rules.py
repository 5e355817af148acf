"""Every example of every rule is found, every near miss is not, in plain text and after an escaped line break."""

import pytest

from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.rules import Rule, RuleError, expand, parse, rules, rules_of
from trace_flywheel.redaction.scanner import Scanner

ALL = rules()
SCANNER = Scanner(rules_of("all"))
FORMS = {"plain": "{}", "escaped": "x\\n{}\\n", "quoted": "v = '{}'", "colored": "\x1b[01;31m\x1b[K{}\x1b[m"}


def found(text: str) -> set[str]:
    return {f.rule.name for fs in SCANNER.scan([text.encode()]).values() for f in fs}


@pytest.mark.parametrize("form", ["plain", "escaped"])
@pytest.mark.parametrize(
    ("rule", "template"),
    [(r, e) for r in ALL for e in r.examples],
    ids=lambda v: v.name if isinstance(v, Rule) else None,
)
def test_example_is_found(rule: Rule, template: str, form: str) -> None:
    assert found(FORMS[form].format(expand(template, rule.name)))


@pytest.mark.parametrize("form", ["plain", "escaped"])
@pytest.mark.parametrize(
    ("rule", "template"), [(r, e) for r in ALL for e in r.near], ids=lambda v: v.name if isinstance(v, Rule) else None
)
def test_near_miss_is_no_finding(rule: Rule, template: str, form: str) -> None:
    assert rule.name not in found(FORMS[form].format(expand(template, rule.name)))


@pytest.mark.parametrize("rule", [r for r in ALL if r.body], ids=lambda r: r.name)
def test_anchor_and_filler_are_no_finding(rule: Rule) -> None:
    for anchor in rule.anchors:
        assert not found(f"use {anchor} as prefix"), anchor
        assert rule.name not in found(anchor + "x" * 40), anchor


def test_every_rule_has_an_example_and_a_family() -> None:
    assert all(rule.examples and rule.family for rule in ALL)
    assert len([r for r in ALL if r.profile == "secret"]) >= 150


def test_profiles_add_up() -> None:
    names = {pii: {r.name for r in rules_of(pii)} for pii in ("none", "standard", "all")}
    assert names["none"] < names["standard"] < names["all"]
    assert {"email", "credit_card", "iban", "us_ssn", "phone_number"} <= names["standard"] - names["none"]
    assert {"public_ip", "mac_address", "date_of_birth", "street_address"} <= names["all"] - names["standard"]
    assert len({Policy(pii).digest() for pii in names}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("family = 'f'\n[[rule]]\nname = 'a'\n", "give anchors and body"),
        (
            "family = 'f'\n[[rule]]\nname = 'a'\nanchors = ['x']\nbody = '[a]{9}'\ncheck = ['no']\n",
            "unknown validator 'no'",
        ),
        ("family = 'f'\n[[rule]]\nnam = 'a'\n", "nam"),
        ("family = ", "mine.toml"),
    ],
)
def test_a_faulty_rule_file_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse(text, "mine.toml")
