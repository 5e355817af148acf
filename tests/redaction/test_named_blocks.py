"""Named values that go on: over the lines of base64, beside the name in a pair, inside base64 alone."""

import base64
import json
import random
import textwrap

import pytest

from tests.redaction.variants import value_of
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import expand

BODY = textwrap.wrap(value_of("{b300}==", random.Random("body")), 64)
PEM = "-----BEGIN {}PRIVATE KEY-----\n{}\n-----END {}PRIVATE KEY-----\n"


def left(text: str) -> list[str]:
    """The lines of the body that are still there."""
    clean, _ = redactor("none").redact_value(text)
    return [line for line in BODY if line in clean]


@pytest.mark.parametrize(
    "place",
    [
        "private_key: |\n  {0}\nport: 80\n",
        "tls:\n    signing_key: >-\n        {0}\n    user: a\n",
        "+  private_key: |\n+    {0}\n+  port: 80\n",
        'API_SECRET="{0}"\nDEBUG=1\n',
        "kind: Secret\ndata:\n  db_password: {0}\n  user: YWRtaW4=\n",
        "MASTER_KEY={0}\n",
    ],
)
def test_a_named_value_goes_with_all_its_lines(place: str) -> None:
    indent = "\n" + ("+    " if place[0] == "+" else "        " if "tls" in place else "  " if "|" in place else "")
    text = place.format(indent.join(BODY))
    assert left(text) == []
    assert left(json.dumps({"out": text})) == []
    clean, _ = redactor("none").redact_value(text)
    assert clean.rsplit("\n", 2)[-2:] == text.rsplit("\n", 2)[-2:] or place.startswith("MASTER")


def test_what_follows_a_named_value_stays() -> None:
    text = f"API_KEY={BODY[0]}\ndone\nexit 0\n"
    assert redactor("none").redact_value(text)[0] == "API_KEY=[REDACTED:secret:1]\ndone\nexit 0\n"


@pytest.mark.parametrize("named", ["name", "key", "Name", "variable"])
def test_a_pair_says_what_its_value_is(named: str) -> None:
    inside = {"env": [{named: "DB_PASSWORD", "value": "tr0ub4dor"}, {named: "REGION", "value": "eu-west-1"}]}
    for text in (json.dumps(inside), json.dumps(inside, indent=4), json.dumps({"arguments": json.dumps(inside)})):
        clean, found = redactor("none").redact_value(text)
        assert "tr0ub4dor" not in clean
        assert "eu-west-1" in clean
        assert found == {"secret": 1}


def test_a_name_of_one_pair_is_none_of_the_next() -> None:
    text = json.dumps([{"name": "password", "type": "text"}, {"value": "tr0ub4dor"}])
    assert redactor("none").redact_value(text) == (text, {})


@pytest.mark.parametrize("kind", ["RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED "])
@pytest.mark.parametrize("width", [0, 64, 76])
def test_a_private_key_inside_base64_goes(kind: str, width: int) -> None:
    data = base64.b64encode(PEM.format(kind, "\n".join(BODY), kind).encode()).decode()
    lines = textwrap.wrap(data, width) if width else [data]
    for text in ("data:\n  tls.key: " + "\n    ".join(lines) + "\n  b: c\n", f"out: {json.dumps(chr(10).join(lines))}"):
        clean, found = redactor("none").redact_value(text)
        assert [line for line in lines if line in clean] == []
        assert found == {"encoded_private_key": 1}


def test_a_certificate_inside_base64_stays() -> None:
    data = base64.b64encode(PEM.replace("PRIVATE KEY", "CERTIFICATE").format("", "\n".join(BODY), "").encode()).decode()
    text = f"data:\n  tls.crt: {data}\n"
    assert redactor("none").redact_value(text) == (text, {})


@pytest.mark.parametrize(
    "template",
    ["gh{|}p_{a36}", "sk-{|}ant-api03-{w93}AA", "AK{|}IA{u16}", "xo{|}xb-{d12}-{d13}-{a24}", "sk{|}_live_{a24}"],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_known_token_inside_base64_alone_goes(template: str, end: str) -> None:
    data = base64.b64encode((expand(template, "alone") + end).encode()).decode()
    for text in (f"data:\n  a: {data}\n", f"$ cat x | base64\n{data}\n", json.dumps({"x": data})):
        clean, found = redactor("none").redact_value(text)
        assert data not in clean
        assert sum(found.values()) == 1


def test_text_inside_base64_that_begins_like_a_token_stays() -> None:
    for words in (
        "sk-proj-ects are listed below, and what they do",
        "ghp_ is how a token begins",
        "npm_config_registry_of_us",
    ):
        text = f"body: {base64.b64encode(words.encode()).decode()}"
        assert redactor("none").redact_value(text) == (text, {})
