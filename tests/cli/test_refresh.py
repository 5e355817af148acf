"""`flywheel refresh` on the sample: everything once, nothing twice, only what changed again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.sample.plan import secrets
from trace_flywheel.sample.support import GOLDENS
from trace_flywheel.sample.write import write_sample

CHECKOUT = Path(__file__).parents[2]
DATASETS = {"sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset", "rl_prompts", "balanced_mix"}


class Flow:
    """A home and the sample it was fed from."""

    def __init__(self, folder: Path) -> None:
        self.jobs, self.home = folder / "jobs", folder / "home"
        write_sample(self.jobs)
        self.first = self.refresh()

    def refresh(self) -> dict[str, Any]:
        command = [sys.executable, "-m", "trace_flywheel.cli.main", "refresh", "--json"]
        command += ["--root", str(self.jobs), "--home", str(self.home)]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def fates(self, dataset: str) -> dict[str, tuple[str | None, str | None]]:
        """(stage, reason) by task and trace id; (None, None) where it was kept."""
        path = Path(self.first["datasets"][dataset]["path"])
        rows = pq.read_table(path / "fates.parquet").to_pylist()
        return {f["trace_id"]: (None, None) if f["kept"] else (f["stage"], f["reason"]) for f in rows}

    def generations(self) -> dict[str, int]:
        """When each run's index was last written, by folder name."""
        return {p.parent.name: p.stat().st_mtime_ns for p in self.home.glob("lake/rollout_index/*/sidecar.json")}

    def published(self, dataset: str) -> bytes:
        path = Path(self.first["datasets"][dataset]["path"])
        return b"".join(p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file())


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    return Flow(tmp_path_factory.mktemp("refresh"))


def test_the_first_pass_ingests_and_publishes_everything(flow: Flow) -> None:
    assert flow.first["runs"] == {"found": 4, "ingested": 4, "unchanged": 0, "quarantined": 0}
    assert set(flow.first["datasets"]) == DATASETS
    for name, made in flow.first["datasets"].items():
        folder = Path(made["path"])
        assert (folder.parent / "latest").read_text().strip() == made["version"] == folder.name
        rows = sum(len(p.read_bytes().splitlines()) for p in folder.glob("data-*.jsonl"))
        assert rows == made["rows"] > 0, name


def test_ledgers_add_up(flow: Flow) -> None:
    for name, ledger in flow.first["ledger"].items():
        dropped = sum(n for reasons in ledger["dropped"].values() for n in reasons.values())
        assert ledger["in"] == ledger["kept"] + dropped, name


def test_every_planted_case_meets_its_fate(flow: Flow) -> None:
    fates = flow.fates("sft_dataset")
    assert fates["refund-window-a0"] == ("golden", "golden_id")
    assert fates["kb-041-a0"] == ("golden", "golden_near_duplicate")
    assert fates["cancel-trial-a0"] == (None, None), "a corrected failure is kept"
    assert fates["upgrade-cost-a0"] == (None, None)
    assert fates["upgrade-cost-a1"] == ("selection", "below_fraction")
    assert fates["upgrade-cost-a3"] == ("selection", "not_passing")
    by_task = {trace.split("__")[0]: set() for trace in fates}
    for trace, (_, reason) in fates.items():
        by_task[trace.split("__")[0]].add(reason)
    assert "exact_duplicate" in by_task["csv-totals"]
    assert "near_duplicate" in by_task["csv-totals"] | by_task["csv-totals-v2"]
    assert "no_verdict" in by_task["retry-backoff"]
    assert {"bad_json", "truncated"} <= by_task["rename-columns"]


def test_mixed_groups_give_pairs_and_a_timeout_is_not_rejected(flow: Flow) -> None:
    path = Path(flow.first["datasets"]["dpo_dataset"]["path"])
    rows = pq.read_table(path / "provenance.parquet").to_pylist()
    tasks = {row["task_id"] for row in rows}
    assert {"fix-date-parser", "log-rotation", "inventory-api", "permission-audit", "upgrade-cost"} <= tasks
    fates = flow.fates("dpo_dataset")
    timeout = next(t for t in fates if t.startswith("log-rotation") and fates[t][1] is not None)
    assert all(timeout not in row["trace_ids"] for row in rows)


def test_an_unscored_or_unreadable_member_withholds_its_group(flow: Flow) -> None:
    fates = flow.fates("rl_dataset")
    reasons = {t.split("__")[0]: reason for t, (stage, reason) in fates.items() if stage == "groups"}
    assert reasons["retry-backoff"] == "withheld_unscored"
    assert reasons["rename-columns"] == "withheld_unreadable"


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_no_secret_and_no_golden_in_published_bytes(flow: Flow, name: str) -> None:
    published = flow.published(name)
    for secret, value in secrets().items():
        assert value.encode() not in published, secret
    for golden in GOLDENS:
        assert golden["prompt"].encode() not in published


def test_a_second_pass_ingests_and_publishes_nothing(flow: Flow) -> None:
    before, versions = flow.generations(), sorted(flow.home.glob("datasets/*/*"))
    again = flow.refresh()
    assert again["runs"] == {"found": 4, "ingested": 0, "unchanged": 4, "quarantined": 0}
    assert again["datasets"] == flow.first["datasets"]
    assert again["ledger"] == flow.first["ledger"]
    assert flow.generations() == before
    assert sorted(flow.home.glob("datasets/*/*")) == versions


def test_with_nothing_new_neither_dagster_nor_pandas_is_even_imported(flow: Flow) -> None:
    code = (
        "import sys; from trace_flywheel.cli.main import main;"
        f"code = main(['refresh', '--root', {str(flow.jobs)!r}, '--home', {str(flow.home)!r}]);"
        "sys.exit(code or len({'dagster', 'pandas', 'pyarrow.compute'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True).returncode == 0


def test_the_roots_of_a_home_are_remembered(flow: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "--home", str(flow.home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"]["unchanged"] == 4


def test_runs_stand_in_dagsters_history(flow: Flow) -> None:
    from trace_flywheel.orchestration.instance import instance

    runs = instance(flow.home).get_runs()
    assert sorted(run.job_name for run in runs) == ["ingest_job", "refresh_job"], "one range run, one publication"


def test_a_changed_folder_is_ingested_again_and_nothing_else(tmp_path: Path) -> None:
    flow = Flow(tmp_path)
    before = flow.generations()
    recording = sorted(flow.jobs.glob("recordings/*.atraj"))[0]
    recording.write_text(recording.read_text().replace("word", "term"))
    after = flow.refresh()
    assert after["runs"] == {"found": 4, "ingested": 1, "unchanged": 3, "quarantined": 0}
    changed = {name for name, written in flow.generations().items() if written != before[name]}
    assert len(changed) == 1
    assert "recordings" in changed.pop()


def test_a_missing_root_is_one_line_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "--root", str(tmp_path / "nowhere"), "--home", str(tmp_path / "home")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nowhere" in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_a_root_without_any_job_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "results.json").write_text("nothing of ours")
    assert main(["refresh", "--root", str(tmp_path / "empty"), "--home", str(tmp_path / "home")]) == 1
    captured = capsys.readouterr()
    assert "no job folder" in captured.err
    assert "results.json" in captured.err
    assert not (tmp_path / "home" / "datasets").exists()


def test_no_root_at_all_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "--home", str(tmp_path / "home")]) == 2
    assert "--root" in capsys.readouterr().err


def test_a_folder_that_gives_nothing_is_quarantined_and_the_others_go_on(tmp_path: Path) -> None:
    flow_folder = tmp_path / "jobs" / "support" / "runs" / "broken"
    flow_folder.mkdir(parents=True)
    (flow_folder / "results.json").write_text(
        '[{"task_id": "t", "trace_id": "x", "verdict": "pass", "messages": [{"role": "us'
    )
    flow = Flow(tmp_path)
    assert flow.first["runs"] == {"found": 5, "ingested": 4, "unchanged": 0, "quarantined": 1}
