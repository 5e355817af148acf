"""Stage 1 misses nothing, both engines agree, windows do not matter, and time is linear in the input."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.redaction.texts import EXAMPLES, NEAR, texts
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.judges import Judge, judge_of
from trace_flywheel.redaction.redact import Redactor
from trace_flywheel.redaction.rules import Rule, expand, parse, rules_of
from trace_flywheel.redaction.scanner import HyperscanEngine, Re2Engine, Scanner, ScannerError

FAST = Scanner(rules_of("all"), HyperscanEngine)
SLOW = Scanner(rules_of("all"), Re2Engine)
GITHUB = "ghp_" + "a" * 36


def spans(scanner: Scanner, *leaves: str) -> dict[int, list[tuple[int, int, str]]]:
    found = scanner.scan([leaf.encode() for leaf in leaves])
    return {leaf: [(f.start, f.end, f.rule.name) for f in findings] for leaf, findings in found.items()}


@pytest.mark.parametrize("text", EXAMPLES + NEAR)
def test_engines_agree_on_every_example(text: str) -> None:
    for form in (text, f"x\\n{text}", json.dumps({"k": text}), json.dumps(json.dumps({"password": text}))):
        assert spans(FAST, form) == spans(SLOW, form)


@settings(max_examples=200)
@given(st.lists(texts, min_size=1, max_size=4))
def test_engines_agree_on_any_text(leaves: list[str]) -> None:
    assert spans(FAST, *leaves) == spans(SLOW, *leaves)


@settings(max_examples=200)
@given(texts)
def test_a_leaf_is_judged_by_itself(text: str) -> None:
    alone = spans(FAST, text).get(0)
    assert spans(FAST, "password=", text, "Zz9-trailing").get(1) == alone
    assert spans(FAST, "x" * 5000, text, GITHUB).get(1) == alone


@given(st.lists(texts | st.just("é \ud800 " + GITHUB), max_size=4))
def test_texts_are_seen_as_their_bytes_are(leaves: list[str]) -> None:
    seen, wanted = FAST.look_at_texts(leaves), FAST.look([leaf.encode("utf-8", "replace") for leaf in leaves])
    assert seen.suspects() == wanted.suspects()
    assert [seen.findings(leaf) for leaf in range(len(leaves))] == [
        wanted.findings(leaf) for leaf in range(len(leaves))
    ]


def test_a_value_longer_than_any_window_is_found_whole() -> None:
    token = "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "abcD" * 1500 + "." + "x1Y2" * 20
    assert spans(FAST, f"Cookie {token} end") == {0: [(7, 7 + len(token), "jwt")]}
    block = (
        "-----BEGIN RSA " + "PRIVATE KEY-----\n" + ("QUJDRA/+" * 8 + "\n") * 60 + "-----END RSA " + "PRIVATE KEY-----"
    )
    assert spans(FAST, f"a\n{block}\nb") == {0: [(2, 2 + len(block), "private_key")]}


def test_a_block_without_its_end_is_found_as_far_as_it_goes() -> None:
    block = "-----BEGIN " + "PRIVATE KEY-----\n" + ("QUJDRA/+" * 8 + "\n") * 3
    (finding,) = spans(FAST, block + "\nand prose after it")[0]
    assert finding[0] == 0
    assert finding[1] >= len(block.rstrip())


def test_a_token_cut_by_a_line_continuation_is_one_finding() -> None:
    text = f'export T="{GITHUB[:20]}\\\n{GITHUB[20:]}" # {GITHUB}'
    assert spans(FAST, text) == {0: [(10, 52, "github_token"), (56, 96, "github_token")]}


@pytest.mark.parametrize("scanner", [FAST, SLOW], ids=["hyperscan", "re2"])
def test_a_placeholder_is_seen_and_is_no_finding(scanner: Scanner) -> None:
    marked, plain = scanner.look_at_texts(["ok", "[REDACTED:email:4]"]), scanner.look_at_texts(["[REDACTED]"])
    assert (marked.marked, marked.calm) == (True, True)
    assert (plain.marked, plain.calm) == (False, True)
    both = scanner.look_at_texts(["[REDACTED:email:4]", GITHUB])
    assert (both.marked, both.calm, both.findings(0), len(both.findings(1))) == (True, False, [], 1)


@pytest.mark.parametrize("rule", [r for r in rules_of("none") if r.body and not r.confirm], ids=lambda r: r.name)
def test_a_token_is_seen_behind_an_underscore(rule: Rule) -> None:
    token = expand(rule.examples[0], rule.name)
    assert [name for *_, name in spans(FAST, f"backup_{token}").get(0, [])] == [rule.name], token


def test_threads_share_a_scanner() -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: spans(FAST, "x" * n, GITHUB), range(200)))
    assert all(result == {1: [(0, 40, "github_token")]} for result in results)


def test_a_scanner_that_misses_its_canary_is_refused() -> None:
    broken = parse(
        "family = 'f'\n[[rule]]\nname = 'gone'\nanchors = ['zq_']\nbody = '[a-z]{9}'\ncheck = ['luhn']\n"
        "examples = ['zq_abcdefghi']",
        "mine.toml",
    )
    with pytest.raises(ScannerError, match="canary of rule gone"):
        Scanner(broken)


BROKEN = """
family = 'f'
[[rule]]
name = 'gone'
anchors = ['zq_']
body = '[a-z]{9}'
check = ['luhn']
examples = ['zq_abcdefghi']
"""


def test_a_rule_that_is_proven_as_needed_lets_nothing_by_that_its_detector_sees() -> None:
    scanner = Scanner((*rules_of("none"), *parse(BROKEN, "mine.toml")), as_needed=True)
    assert spans(scanner, GITHUB) == {0: [(0, 40, "github_token")]}
    for _ in range(2):  # it is not proven by being asked again
        with pytest.raises(ScannerError, match="canary of rule gone"):
            spans(scanner, "a zq_abcdefghi")
    redact = Redactor(scanner)
    drop = redact.redact(Rollout("r", "t", "task", Source("s", "p", "0"), (Message("user", "a zq_abcdefghi"),)))
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.evidence) == ("rule_failed", {"error": "ScannerError"})
    for refused in (redact.scan, lambda text: redact.scan_line(json.dumps({"a": text}).encode()), redact.redact_value):
        with pytest.raises(ScannerError, match="canary of rule gone"):
            refused("a zq_abcdefghi")


def test_a_detector_that_misses_its_canary_is_refused_before_any_text() -> None:
    class Blind(HyperscanEngine):
        def hits(self, data: bytes) -> list[tuple[int, int]]:
            return [(rule, end) for rule, end in super().hits(data) if rule != blind]

    blind = [rule.name for rule in rules_of("none")].index("github_token")
    with pytest.raises(ScannerError, match="canary of rule github_token"):
        Scanner(rules_of("none"), Blind, as_needed=True)


def test_a_rule_is_compiled_when_its_detector_first_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def noted(rule: Rule) -> Judge:
        made.append(rule.name)
        return judge_of(rule)

    monkeypatch.setattr("trace_flywheel.redaction.scanner.judge_of", noted)
    scanner = Scanner(rules_of("all"), as_needed=True)
    assert (spans(scanner, "nothing to see"), made) == ({}, [])
    for _ in range(2):
        assert spans(scanner, GITHUB) == {0: [(0, 40, "github_token")]}
    assert made == ["github_token"]


def test_verdicts_do_not_depend_on_when_rules_are_compiled() -> None:
    rules = rules_of("all")
    texts = [expand(text, rule.name) for rule in rules for text in (*rule.examples, *rule.near)]
    ahead, as_needed = Scanner(rules), Scanner(rules, as_needed=True)
    found = [spans(as_needed, text) for text in texts]
    assert found == [spans(ahead, text) for text in texts]
    assert sum(map(bool, found)) > len(rules)


def test_a_canary_may_be_cut_in_two() -> None:
    cut = BROKEN.replace("check = ['luhn']\n", "").replace("['zq_abcdefghi']", '[\'"zq_abc" + "defghi"\']')
    assert spans(Scanner(parse(cut, "mine.toml")), 'x = "zq_abc" + "defghi"')[0][0][2] == "gone"


def test_a_rule_that_does_not_compile_is_refused() -> None:
    broken = parse("family = 'f'\n[[rule]]\nname = 'bad'\ndetect = '('\nconfirm = '('\n", "mine.toml")
    with pytest.raises(ScannerError, match="does not compile"):
        Scanner(broken)


@pytest.mark.parametrize("rule", rules_of("all"), ids=lambda r: r.name)
def test_the_detector_sees_whatever_is_confirmed(rule: object) -> None:
    assert isinstance(rule, type(rules_of("all")[0]))
    detector = re2.compile(rule.expression())
    for template in rule.examples:
        for form in ("{}", "x\\n{}", '\\"{}\\"'):
            assert detector.search("\n" + form.format(expand(template, rule.name)) + "\n"), template


SHAPES = {
    "digits": "1234567890",
    "card groups": "4111 1111 ",
    "assignments": "token=",
    "assignments with values": 'password = "abcdefg", ',
    "key headers": "-----BEGIN RSA " + "PRIVATE KEY-----\n",
    "key bodies": "QUJDRA/+" * 8 + "\n",
    "snake case": "secret_token_key_",
    "at signs": "a@",
    "mail": "a.b-c@d.e-f.",
    "iban groups": "GB82 WEST 1234 ",
    "urls": "://a:b",
    "jwt": "eyJ",
    "dots": "eyJhbGciOiJI.",
    "quotes": '\\"',
    "continuations": "abcd\\\nefgh",
    "open brackets": '["',
    "base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZn",
    "bearer": "Bearer ",
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_time_is_linear_in_the_input(shape: str) -> None:
    def seconds(size: int) -> float:
        data = (SHAPES[shape] * (size // len(SHAPES[shape]) + 1))[:size].encode()
        best = 9e9
        for _ in range(2):
            start = time.process_time()
            FAST.scan([data])
            best = min(best, time.process_time() - start)
        return best

    small, large = seconds(25_000), seconds(100_000)
    assert large < 8 * small + 0.02, f"{small:.4f} s for 25 kB, {large:.4f} s for 100 kB"
