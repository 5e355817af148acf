"""kingfisher looks at finished data when asked to; without the package the error says what to do."""

from types import SimpleNamespace
from typing import Any

import pytest

from trace_flywheel.redaction import second_gate
from trace_flywheel.redaction.policy import Allow, Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.redaction.second_gate import SecondGateError

WORD = "zebra-4711"


class Fake:
    """Finds `WORD` where it stands under the key `note`."""

    def scan(self, text: str, timeout: float) -> list[Any]:
        found = SimpleNamespace(visible=True, rule_id="kf.zebra", secret=WORD)
        hidden = SimpleNamespace(visible=False, rule_id="kf.helper", secret="x")
        return [found, hidden] if f"note: {WORD}" in text else [hidden]


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_gate, "_scanner", lambda: Fake())


@pytest.mark.usefixtures("gate")
def test_its_findings_count_in_the_scan_of_finished_data() -> None:
    gated = redactor(Policy(second_gate="kingfisher"))
    assert gated.scan({"a": [{"note": WORD}]}) == {"kingfisher:kf.zebra": 1}
    assert gated.scan({"a": "note"}) == {}
    assert redactor("standard").scan({"note": WORD}) == {}


@pytest.mark.usefixtures("gate")
def test_allowed_values_are_allowed_here_too() -> None:
    allow = (Allow("a word", pattern=WORD),)
    assert redactor(Policy(allow=allow, second_gate="kingfisher")).scan({"note": WORD}) == {}


def test_the_gate_is_part_of_the_digest() -> None:
    assert Policy(second_gate="kingfisher").digest() != Policy().digest()


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    second_gate._scanner.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "kingfisher_sdk", None)
    with pytest.raises(SecondGateError, match="package is missing; pip install"):
        redactor(Policy(second_gate="kingfisher")).scan("text")


def test_with_the_package_it_finds_what_it_knows() -> None:
    pytest.importorskip("kingfisher_sdk")
    second_gate._scanner.cache_clear()
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    block = f"-----BEGIN {'PRIVATE'} KEY-----\n{body}\n{body}\n-----END {'PRIVATE'} KEY-----"
    assert list(second_gate.found_by_kingfisher(block))
