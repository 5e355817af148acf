"""What a card must say and no run records comes from a setting, or is said to be missing and why."""

from collections.abc import Callable

import pytest
import yaml

from tests.flow.conftest import Flow, trace
from trace_flywheel.settings import SettingsError, load_settings

MakeFlow = Callable[..., Flow]
FIELDS = ("Provenance", "Counts", "Synthetic and real", "Rights", "Deduplication", "Template", "Packing", "Conversion")


def card_of(one: Flow) -> tuple[dict, str]:
    _, front, text = (one.run()["sft_dataset"].path / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front), text


def test_every_required_field_is_there_and_what_nobody_said_says_why(flow: MakeFlow) -> None:
    front, text = card_of(flow({"r1": [trace("t", "a", 1.0, 1)]}))
    assert [name for name in FIELDS if f"## {name}\n" not in text] == []
    assert "license" not in front
    assert "- License: not-applicable: the runs name none" in text
    assert "- Right to train on the sources: not-applicable: no run says" in text


def test_what_the_owner_says_is_repeated(flow: MakeFlow) -> None:
    front, text = card_of(flow({"r1": [trace("t", "a", 1.0, 1)]}, card={"license": "cc-by-4.0", "consent": "owned"}))
    assert front["license"] == "cc-by-4.0"
    assert "- License: cc-by-4.0\n- Right to train on the sources: owned\n" in text


def test_a_class_of_consent_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"card\.consent"):
        load_settings(card={"consent": "perhaps"})
