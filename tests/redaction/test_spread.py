"""The other spellings of a value."""

import base64

from trace_flywheel.redaction.spread import forms, strong

VALUE = 'Zx9/k+Q2w="Vb7!'


def test_forms_cover_url_json_and_base64_at_every_alignment() -> None:
    found = forms(VALUE)
    assert found[0] == VALUE
    assert "Zx9%2Fk%2BQ2w%3D%22Vb7%21" in found
    assert 'Zx9/k+Q2w=\\"Vb7!' in found
    for lead in ("", "u:", "user:p"):
        encoded = base64.b64encode((lead + VALUE + "tail").encode()).decode()
        assert any(form in encoded for form in found), lead


def test_weak_values_are_not_spread() -> None:
    assert strong(VALUE)
    assert not strong("tiger42")
    assert not strong("aaaaaaaaaaaaaaaa1")
    assert not strong("correcthorsebattery")
