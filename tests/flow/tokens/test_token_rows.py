"""`convert --format skyrl-tokens`: token ids of training-grade trials; what redaction touched has no row."""

import json
from pathlib import Path
from typing import Any

from tests.flow.token_jobs import token_trial
from trace_flywheel.cli.main import main


def converted(job: Path, tmp_path: Path, *options: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    out, manifest = tmp_path / "rows.jsonl", tmp_path / "manifest.json"
    command = ["convert", str(job), "--format", "skyrl-tokens", "--out", str(out), "--manifest", str(manifest)]
    assert main([*command, *options]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()], json.loads(manifest.read_text())


def test_a_trial_of_training_grade_is_a_row(tmp_path: Path) -> None:
    token_trial(tmp_path / "job", "look__1", failed=1)
    rows, _ = converted(tmp_path / "job", tmp_path)
    assert [(row["input_ids"], row["loss_mask"]) for row in rows] == [
        ([1, 2, 3, 10, 11, 20, 30, 40, 50, 51], [0, 0, 0, 1, 1, 0, 1, 0, 1, 1])
    ]
    assert main(["validate", str(tmp_path / "rows.jsonl"), "--format", "skyrl-tokens"]) == 0


def test_tokens_of_redacted_text_never_leave(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    token_trial(tmp_path / "job", "look__1", answers=(f"It is {secret}.", "I see.", "It is 12.3."))
    rows, manifest = converted(tmp_path / "job", tmp_path)
    assert rows == []
    assert "not of training grade: call 0 has no token ids of its answer" in json.dumps(manifest)
