"""The other spellings of a value."""

import base64
import json
from urllib.parse import quote

import pytest

from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.rules import expand
from trace_flywheel.redaction.spread import forms, strong

VALUE = 'Zx9/k+Q2w="Vb7!'


def test_forms_cover_url_json_and_base64_at_every_alignment() -> None:
    found = forms(VALUE)
    assert found[0] == VALUE
    assert "Zx9%2Fk%2BQ2w%3D%22Vb7%21" in found
    assert "Zx9%2fk%2bQ2w%3d%22Vb7%21" in found
    assert 'Zx9/k+Q2w=\\"Vb7!' in found
    assert 'Zx9/k+Q2w=\\\\\\"Vb7!' in found
    assert VALUE.encode().hex() in found
    assert VALUE.encode().hex().upper() in found
    for lead in ("", "u:", "user:p"):
        encoded = base64.b64encode((lead + VALUE + "tail").encode()).decode()
        assert any(form in encoded for form in found), lead
        url = base64.urlsafe_b64encode((lead + VALUE + "tail??>>").encode()).decode()
        assert any(form in url for form in found), lead


@pytest.mark.parametrize("lead", ["", "u:", "user:p", "abc", "é"])
@pytest.mark.parametrize("tail", ["", "x", "\n", "tail"])
def test_a_value_found_once_goes_in_every_encoding(lead: str, tail: str) -> None:
    whole = (lead + VALUE + tail).encode()
    encoded = (
        quote(lead + VALUE + tail, safe=""),
        json.dumps(lead + VALUE + tail),
        json.dumps(json.dumps(lead + VALUE + tail)),
        base64.b64encode(whole).decode(),
        base64.urlsafe_b64encode(whole).decode(),
        whole.hex(),
        whole.hex().upper(),
    )
    text = f"DB_PASSWORD='{VALUE}'\n" + "".join(f"- {form}\n" for form in encoded)
    clean, counts = redactor("none").redact_value(text)
    assert counts == {"secret": 1 + len(encoded)}
    assert [line.count("[REDACTED:secret:1]") for line in clean.splitlines()] == [1] * (1 + len(encoded))


def test_weak_values_are_not_spread() -> None:
    assert strong(VALUE)
    assert not strong("tiger42")
    assert not strong("aaaaaaaaaaaaaaaa1")
    assert not strong("correcthorsebattery")


def test_many_long_values_go_from_everywhere_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    """An automaton of them all would be too large, which its library tells the terminal."""
    values = [expand("{a400}", f"long {n}") for n in range(150)]
    told = [f'A{n}_SECRET="{value}"' for n, value in enumerate(values)]
    clean, counts = redactor("none").redact_value("\n".join([*told, *(f"seen {value} again" for value in values)]))
    assert counts == {"secret": 300}
    assert clean.count("seen [REDACTED:secret:") == 150
    assert capfd.readouterr() == ("", "")
