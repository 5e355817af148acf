"""`flywheel refresh` on recorded jobs of others: nothing crashes, nothing is silent, the ledgers add up."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.corpus
CHECKOUT = Path(__file__).parents[2]


def refresh(root: Path, home: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "trace_flywheel.cli.main", "refresh", "--json"]
    done = subprocess.run(
        [*command, "--root", str(root), "--home", str(home)], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize(
    ("source", "runs", "rollouts"),
    [("harbor-jobs-refresh", 7, 126), ("benchflow-jobs-skill-lift", 3, 4), ("posttrainllm-atraj", 1, 4)],
)
def test_every_rollout_of_the_corpus_has_a_fate(
    corpus: Callable[[str], Path], tmp_path: Path, source: str, runs: int, rollouts: int
) -> None:
    document = refresh(corpus(source), tmp_path / "home")
    assert document["runs"] == {"found": runs, "ingested": runs, "unchanged": 0, "quarantined": 0}
    for name, ledger in document["ledger"].items():
        dropped = sum(n for reasons in ledger["dropped"].values() for n in reasons.values())
        assert ledger["in"] == ledger["kept"] + dropped == rollouts, name
    if source == "harbor-jobs-refresh":
        assert document["datasets"]["dpo_dataset"]["rows"] > 0, "mixed groups give pairs"
