"""Stages and reasons are a contract: none renamed, and a drop cannot carry a reason of another stage."""

import pytest

from trace_flywheel.records.fate import REASONS, Drop, Stage


def test_a_drop_takes_only_its_stages_reasons() -> None:
    assert Drop(Stage.READ, "bad_json").evidence == {}
    with pytest.raises(ValueError, match="no reason of stage mix"):
        Drop(Stage.MIX, "bad_json")


def test_every_stage_has_reasons_in_the_order_of_decisions() -> None:
    assert list(REASONS) == list(Stage)
    assert all(REASONS.values())
