"""Values inside base64 over several lines go, however the lines are quoted; images, hashes and ids stay."""

import base64
import hashlib
import json
import random
import textwrap
from collections.abc import Callable

import pytest

from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import expand
from trace_flywheel.redaction.spread import in_base64, may_be_wrapped
from trace_flywheel.redaction.wrapping import WIDTH

PASSWORD = "Zx9/k+Q2wVb7!pT4"
TOKEN = expand("gh{|}p_{a36}", "wrapping")
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + ("QUJDRA/+" * 8 + "\n") * 12 + "-----END RSA " + "PRIVATE KEY-----"
QUOTES: dict[str, Callable[[str], str]] = {
    "plain": lambda block: block,
    "carriage returns": lambda block: block.replace("\n", "\r\n"),
    "indented": lambda block: textwrap.indent(block, "    "),
    "quoted mail": lambda block: textwrap.indent(block, "> "),
    "comment": lambda block: textwrap.indent(block, "# "),
    "diff": lambda block: textwrap.indent(block, "+"),
    "removed": lambda block: textwrap.indent(block, "-  "),
    "escaped": lambda block: json.dumps({"out": f"$ cat x\n{block}\n"}),
    "escaped twice": lambda block: json.dumps({"a": json.dumps({"out": f"x\n{block}\n"})}),
    "escaped in text": lambda block: f"observation: {json.dumps(block)} end",
    "literals": lambda block: "\n".join(f'  "{line}"' for line in block.split("\n")),
}


def wrapped(data: bytes, width: int) -> str:
    return "\n".join(textwrap.wrap(base64.b64encode(data).decode(), width))


@pytest.mark.parametrize("quote", QUOTES)
@pytest.mark.parametrize("width", [64, 76])
def test_a_value_found_once_goes_from_wrapped_base64(quote: str, width: int) -> None:
    rng = random.Random(f"{quote}{width}")
    left = []
    for value, told in ((PASSWORD, f"DB_PASSWORD='{PASSWORD}'"), (TOKEN, f"use {TOKEN}")):
        for lead in range(40, 90, 3):  # so that the value lies before, over and behind the end of a line
            before = "".join(rng.choices("abcdef \n=:", k=lead))
            block = wrapped(f"{before}{value}\nmore to come, and more\n".encode(), width)
            clean, _ = redactor("none").redact_value(f"{told}\n\n{QUOTES[quote](block)}\n")
            text = "".join(c for c in clean.replace("\\\\n", "").replace("\\n", "") if c.isalnum() or c in "/=")
            for shift in range(3):
                whole = base64.b64encode(bytes(shift) + value.encode()).decode()
                if whole[4:-4].replace("+", "") in text:
                    left.append((value[:3], lead))
    assert left == []


@pytest.mark.parametrize("quote", QUOTES)
def test_a_key_that_stands_elsewhere_goes_from_wrapped_base64(quote: str) -> None:
    block = wrapped(KEY.encode(), 76)
    clean, _ = redactor("none").redact_value(f"{KEY}\n\ndata:\n{QUOTES[quote](block)}\n")
    assert block.split("\n")[5] not in clean


def test_messages_of_json_and_text_are_one_record() -> None:
    block = wrapped(b"x" * 50 + TOKEN.encode() + b"y" * 50, 76)
    clean, counts = redactor("none").redact_value({"a": f"token {TOKEN}", "b": {"c": block}})
    assert counts == {"github_token": 2}
    assert set(clean) == {"a", "b"}
    assert "[REDACTED:github_token:1]" in clean["b"]["c"]


def test_what_is_wrapped_and_holds_none_stays() -> None:
    rng = random.Random(3)
    image = wrapped(rng.randbytes(900), 76)
    hashes = "\n".join(hashlib.sha256(bytes([i])).hexdigest() for i in range(9))
    ids = "\n".join(f"commit {rng.randbytes(20).hex()}\n  author a" for _ in range(5))
    text = f"{image}\n\n{hashes}\n\n{ids}\n"
    clean, counts = redactor("all").redact_value(f"use {TOKEN}\n{text}")
    assert clean == f"use [REDACTED:github_token:1]\n{text}"
    assert counts == {"github_token": 1}


@pytest.mark.parametrize("width", [WIDTH, 33, 57, 64, 76])
@pytest.mark.parametrize("value", [PASSWORD[:12], PASSWORD, TOKEN, TOKEN * 3])
def test_half_of_a_value_is_on_one_line_wherever_lines_end(value: str, width: int) -> None:
    needles = [form.encode() for form in in_base64(value.encode())]
    for lead in range(2 * width):
        for quote in QUOTES.values():
            block = quote(wrapped(b"x" * lead + value.encode() + b"y" * 80, width))
            assert may_be_wrapped(block.encode(), needles)
    assert not may_be_wrapped(wrapped(b"x" * 400, width).encode(), needles)


LISTS: dict[str, Callable[[str, str], str]] = {
    "double quotes": lambda n, v: f'{n}="{v}"',
    "single quotes": lambda n, v: f"{n}='{v}'",
    "bare": lambda n, v: f"{n}={v}",
    "bare, then quotes": lambda n, v: f'{n}="{v}"' if n[0] == "S" else f"{n}={v}",
    "quotes, then bare": lambda n, v: f"{n}={v}" if n[0] == "S" else f'{n}="{v}"',
    "member": lambda n, v: f'  "{n}": "{v}",',
    "member of Python": lambda n, v: f"'{n}':'{v}',",
    "arrow": lambda n, v: f"    '{n}' => '{v}',",
    "cells": lambda n, v: f"{n},{v}",
    "cells in quotes": lambda n, v: f'"{n}","{v}"',
    "cells in quotes, with blanks": lambda n, v: f'"{n}", "{v}"',
    "inline code": lambda n, v: f"`{n}`: `{v}`",
    "diff": lambda n, v: f'+{n}="{v}"',
}


@pytest.mark.parametrize("name", ["SECRET_1", "SECOND_SERVICE_API_KEY", "SERVICE_OF_THE_OTHER_REGION_TOKEN_2"])
@pytest.mark.parametrize("form", LISTS)
def test_values_one_below_the_other_go_and_their_names_stay(form: str, name: str) -> None:
    left = []
    for template in ("{a32}", "{h40}", "{w43}=", "{h64}", "{a34}"):
        first, second = expand(template, "first"), expand(template, "second")
        plain = "\n".join([LISTS[form]("API_TOKEN", first), LISTS[form](name, second), "REGION=eu"])
        for text in (plain, plain.replace("\n", "\r\n"), json.dumps({"out": plain}), json.dumps(json.dumps([plain]))):
            clean, counts = redactor("none").redact_value(text)
            if first in clean or second in clean or name not in clean or sum(counts.values()) != 2:
                left.append(clean)
    assert left == []
