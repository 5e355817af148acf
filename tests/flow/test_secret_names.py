"""No secret leaves the private partition: not by a name, a key, an evidence, a folder or a reason."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trace_flywheel.cli.refresh import refreshed
from trace_flywheel.cli.sources import _look
from trace_flywheel.flow.ingest_tasks import REDACTED
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import Settings

SECRET = "ghp_" + "Zb9" * 12


def row(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Say hello."}, {"role": "assistant", "content": "Hello to all of you."}]
    plain = {"task_id": "t", "agent": "a", "model": "m", "verdict": "pass", "reward": 1.0, "grader": "g"}
    return {**plain, "messages": messages, **fields}


def leaks(folder: Path) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and "graded_traces" not in path.parts:
            text = path.read_bytes()
            if path.suffix == ".parquet":
                text += json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
            if SECRET.encode() in text or SECRET in str(path):
                found.append(str(path.relative_to(folder)))
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    names = ("trace_id", "task_id", "agent", "model", "grader", "grader_version", "policy_version", "task_digest")
    rows = [row(trace_id=f"t{i}", **{name: SECRET}) for i, name in enumerate(names[1:])]
    rows += [row(trace_id=SECRET), row(trace_id="kept"), row(trace_id="key", metadata={SECRET: 1})]
    rows += [row(trace_id="role", messages=[{"role": SECRET, "content": "x"}])]
    rows += [row(trace_id="none", task_id=SECRET, messages="no list")]
    for name, held in (("one", rows), (f"two-{SECRET}", [row(trace_id="x")])):
        folder = tmp_path / "root" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps(held))
    (tmp_path / "root" / "bad").mkdir()
    (tmp_path / "root" / "bad" / f"{SECRET}.atraj").write_text("no recording")
    return tmp_path / "root"


def test_no_secret_is_published_stored_or_printed(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = refreshed(Settings(home=tmp_path / "home", roots=(root,)))
    said = capsys.readouterr()
    assert leaks(tmp_path / "home") == []
    assert SECRET not in said.out + said.err + json.dumps(outcome.document) + "".join(outcome.problems)
    renamed = [p for p in outcome.problems if "the name of the folder holds a secret; rename it" in p]
    assert len(renamed) == 1
    assert renamed[0].startswith("runs/two-[REDACTED:github_token:1]~")
    lake = Lake(tmp_path / "home")
    sidecar = lake.sidecar(REDACTED, "root/runs/one")
    assert sidecar is not None
    assert sidecar.counts.kept == 1
    assert sidecar.counts.dropped == {"read": {"unknown_shape": 2}, "redact": {"secret_left": 9}}
    role = next(drop for drop in lake.drops(sidecar) if drop.trace_id == "role")
    assert role.evidence["text"].startswith('message 1: role "[REDACTED:github_token:1]" is not one of assistant')


def test_sources_names_no_secret(root: Path) -> None:
    assert SECRET not in json.dumps(_look(root, None))


def test_no_dataset_is_published_while_a_golden_cannot_be_read(root: Path, tmp_path: Path) -> None:
    goldens = root / "eval" / "goldens.jsonl"
    goldens.parent.mkdir()
    goldens.write_text('{"task_id": "g"}\n{bad ' + SECRET + "\n")
    with pytest.raises(FlywheelError) as told:
        refreshed(Settings(home=tmp_path / "home", roots=(root,)))
    assert str(told.value) == (
        f"{goldens}:2: bad_json; mend or remove the line: no dataset is published while a golden cannot be read, "
        "earlier versions stay"
    )
