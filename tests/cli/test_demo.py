"""`flywheel demo`: the funnel and where everything is, and nothing new the second time."""

import time
from pathlib import Path

import pytest

from trace_flywheel.cli.main import main

SECOND_TIME = 20.0
"""Seconds that a second demo may take."""


def test_the_funnel_of_each_dataset_and_the_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    assert main(["demo", "--home", str(home)]) == 0
    first = capsys.readouterr().out
    for name in ("sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset", "rl_prompts", "balanced_mix"):
        assert f"\n{name}: " in first
        assert (home / "datasets" / name / "latest").is_file()
    assert first.count("stage") == 6
    assert "golden_id 1, golden_near_duplicate 1" in first
    assert str(home / "datasets") in first
    assert f"flywheel ui --home {home}" in first
    assert "4 ingested now, 0 unchanged" in first

    started = time.monotonic()
    assert main(["demo", "--home", str(home)]) == 0
    assert time.monotonic() - started < SECOND_TIME
    second = capsys.readouterr().out
    assert "0 ingested now, 4 unchanged" in second
    assert second.replace("0 ingested now, 4 unchanged", "") == first.replace("4 ingested now, 0 unchanged", "")
