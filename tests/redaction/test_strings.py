"""Secrets in the strings of records for other programs, and what is left as it is."""

import msgspec

from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.strings import strings_of, with_strings

GITHUB = "ghp_" + "a1B2c3D4" * 4 + "wxyz"


class One(msgspec.Struct, frozen=True):
    name: str
    cursor: str
    ids: tuple[int, ...]
    more: dict[str, list[str | None]]


def test_strings_in_their_order_without_sealed_fields_and_numbers() -> None:
    one = One("a", "b", (1, 2), {"k": ["c", None]})
    assert list(strings_of([one, {"digest": "d", "e": ("f", 1.5)}])) == ["a", "k", "c", "e", "f"]
    assert with_strings(one, {"a": "x", "b": "y", "c": "z"}) == One("x", "b", (1, 2), {"k": ["z", None]})


def test_a_record_is_masked_and_one_without_secrets_is_the_same_object() -> None:
    clean = One("a", "1.AbCd", (1, 2), {"k": []})
    assert redactor("standard").masked_record(clean) is clean
    masked = redactor("standard").masked_record(One(f"t {GITHUB}", "1.AbCd", (1,), {GITHUB: ["ann@contoso.com"]}))
    assert masked.name.startswith("t [REDACTED:github_token:1]~")
    assert (masked.cursor, masked.ids) == ("1.AbCd", (1,))
    assert [key.partition("~")[0] for key in masked.more] == ["[REDACTED:github_token:1]"]
    assert list(masked.more.values()) == [["ann@contoso.com"]]
