"""A value is found wherever it stands in a text and nothing else is, and what is kept of it does not tell it."""

import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.lake import fingerprints
from trace_flywheel.lake.fingerprints import BLOCK, KEY_FILE, SIEVED, Values, fingerprint, key_of, known_key, values
from trace_flywheel.records.errors import FlywheelError

KEY = bytes(range(32))


def of(*found: bytes) -> Values:
    return Values(KEY, tuple(fingerprint(KEY, value) for value in found))


@given(st.binary(min_size=1, max_size=90), st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_a_value_is_found_where_it_stands_and_only_there(value: bytes, before: bytes, after: bytes, put: bool) -> None:
    text = before + (value if put else b"") + after
    assert of(value).holds(text) == (value in text)


@pytest.mark.parametrize("size", [1, 6, SIEVED - 1, SIEVED, SIEVED + 1, 5000])
@pytest.mark.parametrize("at", [0, BLOCK - 3, BLOCK, BLOCK + SIEVED - 1, 2 * BLOCK - 1])
def test_the_edges_of_blocks_hide_nothing(size: int, at: int) -> None:
    value = bytes(1 + i % 250 for i in range(size))
    assert of(value).holds(b"\0" * at + value)
    assert of(value).holds(b"\0" * at + value + b"\0" * 70)
    assert not of(value).holds(b"\0" * at + value[:-1] + b"\0" * 70)


def test_one_of_many_is_enough_and_none_finds_nothing() -> None:
    many = of(*(b"value %d" % n for n in range(300)))
    assert many.holds(b"here is value 299.")
    assert not many.holds(b"here is value x")
    assert not Values().holds(b"anything")


def test_what_is_kept_tells_nothing_without_the_key(tmp_path: Path) -> None:
    key = key_of(tmp_path)
    assert key == key_of(tmp_path) == known_key(tmp_path)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    kept = msgspec.json.encode(fingerprint(key, b"4111 1111"))
    assert b"4111" not in kept
    assert fingerprint(key, b"4111 1111") != fingerprint(KEY, b"4111 1111")


def test_without_its_key_a_fingerprint_stops_everything(tmp_path: Path) -> None:
    assert values(tmp_path, ()).prints == ()
    for text in (None, "", "{}", '{"key": "zz"}'):
        if text is not None:
            (tmp_path / KEY_FILE).write_text(text)
        with pytest.raises(FlywheelError, match="key of erased values cannot be read"):
            values(tmp_path, [fingerprint(KEY, b"value")])


def test_a_long_text_is_sieved_not_hashed_place_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    real = fingerprints._mac
    many = of(*(b"value %d" % n for n in range(20)))
    monkeypatch.setattr(fingerprints, "_mac", lambda key, text: asked.append(text) or real(key, text))
    began = time.process_time()
    assert not many.holds(b"some words of a text " * 50_000)
    assert len(asked) < 20
    assert time.process_time() - began < 5
