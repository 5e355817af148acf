"""Values spelled in pieces: continued lines, concatenated literals, escaped characters, at any depth of escaping."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.redaction.engines import HyperscanEngine, Re2Engine
from trace_flywheel.redaction.joints import Joined
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import rules_of
from trace_flywheel.redaction.scanner import Scanner

GITHUB = "ghp_" + "a1B2c3D4" * 4 + "wxyz"
ESCAPED = "\\u0067" + GITHUB[1:]
MARK = "[REDACTED:github_token:1]"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f'{{"cmd": "{ESCAPED}"}}', f'{{"cmd": "{MARK}"}}'),
        (json.dumps({"a": f'{{"cmd": "{ESCAPED}"}}'}), json.dumps({"a": f'{{"cmd": "{MARK}"}}'})),
        (json.dumps({"a": json.dumps({"b": f'"{ESCAPED}"'})}), json.dumps({"a": json.dumps({"b": f'"{MARK}"'})})),
        (f'log: {{"cmd": "{ESCAPED}"}} end', f'log: {{"cmd": "{MARK}"}} end'),
        (f"observation: {json.dumps(json.dumps(ESCAPED))}", f'observation: "\\"{MARK}\\""'),
        (f"b'\\x67{GITHUB[1:]}'", f"b'{MARK}'"),
        (f'{{"\\u006b": "{GITHUB[:9]}\\u{ord(GITHUB[9]):04x}{GITHUB[10:]}"}}', f'{{"\\u006b": "{MARK}"}}'),
        (f'token = "{GITHUB[:4]}" + "{GITHUB[4:]}"', f'token = "{MARK}"'),
        (f"x = '{GITHUB[:9]}' +\n    '{GITHUB[9:]}'", f"x = '{MARK}'"),
        (json.dumps({"code": f'x = "{GITHUB[:9]}" + "{GITHUB[9:]}"'}), json.dumps({"code": f'x = "{MARK}"'})),
        (f'token = ("{GITHUB[:9]}"\n         "{GITHUB[9:]}")', f'token = ("{MARK}")'),
        (f"x = ('{GITHUB[:9]}'\n'{GITHUB[9:20]}'\n    '{GITHUB[20:]}')", f"x = ('{MARK}')"),
        (f'export T="{GITHUB[:20]}\\\n{GITHUB[20:]}"', f'export T="{MARK}"'),
    ],
)
def test_a_value_in_pieces_is_one_finding(text: str, clean: str) -> None:
    assert redactor("all").redact_value(text) == (clean, {"github_token": 1})


def test_pieces_and_the_whole_are_one_value() -> None:
    text, _ = redactor("standard").redact_value(f"{ESCAPED} {GITHUB}")
    assert text == f"{MARK} {MARK}"


@pytest.mark.parametrize(
    "text",
    [
        '{"html": "\\u003cb\\u003e \\u0026amp; it\\u0027s"}',
        'path = "src/" + "main.py"; name = "token_" + "count"',
        "printf '\\x1b[31m\\x41\\x42'",
        'q = "password=" + "%s"',
        'id,number\n"41111111"\n"11111111"\n',
        f'["{GITHUB[:9]}",\n "{GITHUB[9:]}"]',
    ],
)
def test_joints_without_a_secret_stay(text: str) -> None:
    assert redactor("all").redact_value(text) == (text, {})


@given(
    st.lists(
        st.sampled_from(["ab", "\\u0061", "\\\\u0062", '" + "', "\\\n", "\\x63", " ", "\\", '"', "é"]), max_size=12
    ).map("".join)
)
def test_spans_lead_back_to_the_text(text: str) -> None:
    data = text.encode()
    joined = Joined(data)
    for start in range(len(joined.text)):
        first, last = joined.span(start, start + 1)
        assert Joined(data[first:last]).text == joined.text[start : start + 1]
    assert joined.text == data or len(joined.text) < len(data)


@given(st.text(alphabet='gh\\u0067_"+ \nx', max_size=40))
def test_engines_agree_on_joints(text: str) -> None:
    data = [f"{text}{ESCAPED}".encode(), f'"{GITHUB[:9]}" + "{GITHUB[9:]}{text}'.encode()]
    assert FAST.scan(data) == SLOW.scan(data)


FAST, SLOW = Scanner(rules_of("all"), HyperscanEngine), Scanner(rules_of("all"), Re2Engine)
