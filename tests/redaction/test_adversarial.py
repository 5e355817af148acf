"""Time grows with the text and not with its square, on texts made to provoke the opposite."""

import json
import time
from hashlib import sha256

import pytest

from trace_flywheel.redaction.redact import redactor


def token(number: int) -> str:
    return f"gh{'p'}_{sha256(str(number).encode()).hexdigest()[:36]}"


SHAPES = {
    "a name repeated": lambda n: "token=" * n,
    "assignments": lambda n: "password=abcdefgh1 x" * (n // 3),
    "quotes that never close": lambda n: 'api_key="abc ' * (n // 2),
    "card-like groups": lambda n: "4111 1111 1111 1112 " * (n // 3),
    "addresses": lambda n: "a@b.co " * n,
    "ever new tokens": lambda n: " ".join(map(token, range(n // 6))),
    "a new token in every value": lambda n: json.dumps([token(i) for i in range(n // 6)]),
    "a new token under every key": lambda n: json.dumps({f"the key of number {i}": token(i) for i in range(n // 6)}),
    "new tokens that begin alike": lambda n: " ".join(
        f"eyJhbGciOiJIUzI1NiJ9.eyJ{token(i)[4:]}.{'x' * (9 + i % 99)}" for i in range(n // 6)
    ),
    "repetitions of every length": lambda n: "\n".join(
        f"password='{token(0)}{('abcdefgh' * n)[:k]}{token(0)}'" for k in range(int((10 * n) ** 0.5))
    ),
    "key headers": lambda n: f"-----BEGIN RSA {'PRIVATE'} KEY-----\n" * (n // 5),
    "continued lines": lambda n: "abcd\\\nefgh" * (n // 2),
    "digits": lambda n: "1234567890" * n,
    "open brackets": lambda n: '{"a":' * n,
    "named base64 without end": lambda n: "api_secret: |\n" + f"  {'Ab3/' * 16}\n" * (n // 12),
    "names before base64": lambda n: f"api_secret: {'Ab3/' * 16}\n" * (n // 12),
    "encoded keys": lambda n: f"LS0tLS1CRUdJTi{'Ab3/' * 10}\n" * (n // 12),
    "encoded tokens": lambda n: "Z2hwX3p" * n,
    "pairs": lambda n: '{"name": "password", "value": "x' * (n // 3),
    "backslashes": lambda n: "\\" * n * 5,
    "backslashes beside an escape": lambda n: "\\u0067 " + "\\" * n * 2,
    "percent signs": lambda n: "%25" * n * 2,
    "sums": lambda n: "a=1+2" * n,
    "fields": lambda n: "&a=1+A" * n,
    "literals one below the other": lambda n: '="aaaa"\n' * n,
    "calls around literals": lambda n: 'token = f("' * n,
    "defaults": lambda n: '"token", a=1, ' * n,
    "options": lambda n: '["--token","' * (n // 2),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_time_is_linear(shape: str) -> None:
    def seconds(text: str) -> float:
        start = time.process_time()
        redactor("standard").redact_value(text)
        return time.process_time() - start

    small, large = SHAPES[shape](3_000), SHAPES[shape](24_000)
    seconds(small[:100])
    one, eight = (min(seconds(text) for _ in range(2)) for text in (small, large))
    assert eight < 24 * one + 0.1, f"8 times the text took {eight / one:.0f} times as long"
