"""Counts that a dataset gives about redaction, and the band that stops publication."""

import pytest

from trace_flywheel.flow.redaction_facts import redaction_facts
from trace_flywheel.flow.uses import Uses
from trace_flywheel.flow.writing import Published
from trace_flywheel.lake.sidecar import Counts, LakeError, Sidecar
from trace_flywheel.settings import Settings, load_settings


def run(name: str, **findings: int) -> Sidecar:
    return Sidecar(1, "rollout_index", name, "g", "c", "i", "s", Counts(), facts={"findings": findings})


def settings(band: float) -> Settings:
    return load_settings(redaction={"masked_share": band})


def test_findings_of_all_runs_and_masked_turns_are_counted() -> None:
    facts = redaction_facts(
        "d", [run("a", email=2), run("b", email=1, jwt=4)], Published(Uses(), turns=4, turns_masked=1), settings(0.5)
    )
    assert facts == {
        "redaction": {"findings_in_runs": {"email": 3, "jwt": 4}, "turns": 4, "turns_masked_for_placeholders": 1}
    }


def test_a_share_above_the_band_is_refused_and_one_on_it_is_not() -> None:
    done = Published(Uses(), turns=4, turns_masked=2)
    assert redaction_facts("d", [], done, settings(0.5))
    with pytest.raises(LakeError, match=r"d: not published: 2 of 4 turns \(50%\) would teach a placeholder"):
        redaction_facts("d", [], done, settings(0.49))


def test_no_turns_is_no_share() -> None:
    assert redaction_facts("d", [], Published(Uses()), settings(0.0))
