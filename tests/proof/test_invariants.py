"""The proof: it holds for a demo, and each invariant that is broken by hand is seen to be."""

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from tests.proof.invariants import INVARIANTS, Evidence
from trace_flywheel.cli.main import main
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.sample.plan import secrets

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("proof") / "home"
    assert main(["demo", "--home", str(home)]) == 0
    return home


@pytest.fixture
def seen(made: Path, tmp_path: Path) -> Evidence:
    shutil.copytree(made, tmp_path / "home")
    return Evidence(tmp_path / "home", tmp_path / "home" / "demo-runs")


def test_all_hold(seen: Evidence) -> None:
    assert [fault for check in INVARIANTS.values() for fault in check(seen)[1]] == []


def sft(seen: Evidence) -> Path:
    return find_version(seen.home, "sft_dataset").path


def put(seen: Evidence, change: Callable[[dict], None]) -> None:
    """The first published row, changed."""
    file = sft(seen) / "data-00000.jsonl"
    first, _, rest = file.read_bytes().partition(b"\n")
    row = orjson.loads(first)
    change(row)
    file.write_bytes(orjson.dumps(row) + b"\n" + rest)


def lose_a_fate(seen: Evidence) -> None:
    table = pq.read_table(sft(seen) / "fates.parquet")
    pq.write_table(table.slice(1), sft(seen) / "fates.parquet")


def touch_a_source(seen: Evidence) -> None:
    (results,) = seen.root.glob("support/runs/*/results.json")
    results.write_bytes(results.read_bytes() + b" ")


def publish_a_golden(seen: Evidence) -> None:
    golden = orjson.loads(next(seen.root.rglob("goldens.jsonl")).read_bytes().split(b"\n")[0])
    put(seen, lambda row: row["messages"].append({"role": "user", "content": str(golden)}))


def publish_a_secret(seen: Evidence) -> None:
    put(seen, lambda row: row["messages"].append({"role": "user", "content": secrets()["github_token"]}))


def publish_an_infinity(seen: Evidence) -> None:
    file = sft(seen) / "data-00000.jsonl"
    file.write_bytes(b'{"reward": 1e999}\n' + file.read_bytes())


def change_a_conversation(seen: Evidence) -> None:
    capture = next(seen.root.rglob("llm_trajectory.jsonl"))
    lines = capture.read_bytes().split(b"\n")
    capture.write_bytes(b"\n".join(lines[:1]))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("conservation", lose_a_fate),
        ("provenance", touch_a_source),
        ("no golden", publish_a_golden),
        ("no finding", publish_a_secret),
        ("finite numbers", publish_an_infinity),
        ("losslessness", change_a_conversation),
    ],
)
def test_what_is_broken_is_seen(seen: Evidence, name: str, damage: Callable[[Evidence], None]) -> None:
    damage(seen)
    assert INVARIANTS[name](seen)[1] != []
