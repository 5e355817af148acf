"""The assets on an instance of their own: range runs, quarantine, metadata, checks."""

import json
import threading
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trace_flywheel.curation.depth import seed_set
from trace_flywheel.lake.quarantine import quarantines
from trace_flywheel.lake.run_lock import working_on
from trace_flywheel.lake.store import Lake
from trace_flywheel.orchestration.definitions import build
from trace_flywheel.orchestration.headless import Pinned
from trace_flywheel.orchestration.sensors import range_tags
from trace_flywheel.sample.plan import secrets
from trace_flywheel.sample.support import rows
from trace_flywheel.sample.write import EVAL_RUN
from trace_flywheel.settings import Settings, load_settings

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
KEYS = ["evals/runs/a", f"evals/runs/{EVAL_RUN}", "evals/runs/z-broken"]


class World:
    """Three eval runs, one of them cut, and an instance that knows their partitions."""

    def __init__(self, folder: Path) -> None:
        runs = folder / "evals" / "runs"
        for name, text in (
            ("a", json.dumps(rows("a")[:6])),
            (EVAL_RUN, json.dumps(rows(EVAL_RUN)).replace("{email}", secrets()["email"])),
            ("z-broken", '[{"task_id": "t", "trace_id": "x", "verdict": "pass", "messages": [{"role": "us'),
        ):
            (runs / name).mkdir(parents=True)
            (runs / name / "results.json").write_text(text)
        self.settings: Settings = load_settings(
            home=folder / "home", roots=(folder / "evals",), ingest={"workers": 1}, datasets={"nine": {"agents": ["x"]}}
        )
        self.lake = Lake(self.settings.home)
        self.instance = dg.DagsterInstance.ephemeral()
        self.instance.add_dynamic_partitions("runs", KEYS)
        self.definitions = build(self.settings, Pinned(self.settings))

    def run(self, job: str, tags: dict[str, str] | None = None) -> dg.ExecuteInProcessResult:
        definition = self.definitions.resolve_job_def(job)
        return definition.execute_in_process(instance=self.instance, tags=tags or {}, run_config=QUIET)


def materializations(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str | None], dict[str, Any]]:
    """Plain metadata by (asset, partition)."""
    found = {}
    for event in result.get_asset_materialization_events():
        made = event.step_materialization_data.materialization
        metadata = {name: value.value for name, value in made.metadata.items()}
        found[made.asset_key.to_user_string(), made.partition] = metadata
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("assets"))


@pytest.fixture(scope="module")
def ingested(world: World) -> dg.ExecuteInProcessResult:
    return world.run("ingest_job", range_tags(KEYS))


@pytest.fixture(scope="module")
def refreshed(world: World, ingested: dg.ExecuteInProcessResult) -> dg.ExecuteInProcessResult:
    return world.run("refresh_job")


def test_a_range_of_partitions_is_one_run(ingested: dg.ExecuteInProcessResult) -> None:
    assert ingested.success
    found = materializations(ingested)
    assert {key for asset, key in found if asset == "graded_traces"} == set(KEYS)
    assert {key for asset, key in found if asset == "rollout_index"} == set(KEYS)


def test_a_range_waits_for_who_works_on_one_of_its_folders(tmp_path: Path) -> None:
    done: list[bool] = []

    def ingest() -> None:
        done.append(World(tmp_path).run("ingest_job", range_tags(KEYS)).success)

    (tmp_path / "home").mkdir()
    thread = threading.Thread(target=ingest, daemon=True)
    with working_on(tmp_path / "home", [KEYS[1]]):
        thread.start()
        thread.join(3)
        assert thread.is_alive()
        assert Lake(tmp_path / "home").run_ids("graded_traces") == frozenset()
    thread.join(60)
    assert done == [True]


def test_a_bad_folder_is_quarantined_and_the_range_goes_on(world: World, ingested: dg.ExecuteInProcessResult) -> None:
    assert [q.run_id for q in quarantines(world.lake)] == ["evals/runs/z-broken"]
    checks = {c.check_name: c for c in ingested.get_asset_check_evaluations()}
    assert not checks["nothing_quarantined"].passed
    assert checks["nothing_quarantined"].severity == dg.AssetCheckSeverity.WARN
    assert "evals/runs/z-broken" in checks["nothing_quarantined"].metadata["quarantined"].value
    assert checks["ledger_conserves"].passed


def test_a_partitions_page_says_what_came_of_it(ingested: dg.ExecuteInProcessResult) -> None:
    page = materializations(ingested)["redacted_rollouts", f"evals/runs/{EVAL_RUN}"]
    assert page["status"] == "made"
    assert page["changed"] == "first time"
    assert page["dagster/partition_row_count"] == page["rollouts_in"] == len(rows(EVAL_RUN))
    assert "| email | 1 |" in page["redacted"]
    assert page["folder"].endswith(EVAL_RUN)


def test_all_keys_are_read_as_often_for_two_partitions_as_for_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.run("ingest_job", range_tags(KEYS))
    read: list[str] = []
    real = world.instance.get_dynamic_partitions

    def counted(partitions_def_name: str) -> Any:
        read.append(partitions_def_name)
        return real(partitions_def_name)

    monkeypatch.setattr(world.instance, "get_dynamic_partitions", counted)
    times = []
    for keys in (KEYS[:2], KEYS):
        read.clear()
        assert {key for _, key in materializations(world.run("ingest_job", range_tags(keys)))} == set(keys)
        times.append(len(read))
    assert times[0] == times[1] > 0


def test_no_secret_is_in_any_event(world: World, refreshed: dg.ExecuteInProcessResult) -> None:
    logged = "".join(str(entry) for run in world.instance.get_runs() for entry in world.instance.all_logs(run.run_id))
    assert EVAL_RUN in logged
    for value in secrets().values():
        assert value not in logged


def test_an_unchanged_partition_says_so(world: World, refreshed: dg.ExecuteInProcessResult) -> None:
    again = world.definitions.resolve_job_def("ingest_job").execute_in_process(
        instance=world.instance, partition_key=KEYS[0], run_config=QUIET
    )
    page = materializations(again)["graded_traces", KEYS[0]]
    assert (page["status"], page["changed"]) == ("unchanged", "nothing")


def test_a_dataset_is_looked_at_before_the_next_one_is_made(refreshed: dg.ExecuteInProcessResult) -> None:
    begun = [e.step_key for e in refreshed.all_events if e.event_type == dg.DagsterEventType.STEP_START]
    own = ("dataset", "rl_prompts", "balanced_mix", "_promises")
    assert [step for step in begun if step.endswith(own) and not step.startswith("nine")] == [
        "dpo_dataset",
        "dpo_dataset_promises",
        "sft_dataset",
        "sft_dataset_promises",
        "rl_prompts",
        "rl_prompts_promises",
        "balanced_mix",
        "balanced_mix_promises",
        "rl_dataset",
        "rl_dataset_promises",
        "kto_dataset",
        "kto_dataset_promises",
    ]


def test_a_datasets_page_has_funnel_pictures_preview_and_card(refreshed: dg.ExecuteInProcessResult) -> None:
    page = materializations(refreshed)["sft_dataset", None]
    assert page["dagster/row_count"] > 0
    assert "| golden |" not in page["funnel"], "no goldens above these runs"
    assert "| selection |" in page["funnel"]
    for name in ("funnel_picture", "rewards"):
        assert page[name].startswith("![")
        assert "data:image/svg+xml;base64," in page[name]
    assert page["preview"].startswith("| prompt | answer |")
    assert page["card"].lstrip().startswith("# sft_dataset")
    assert {column.name for column in page["dagster/column_schema"].columns} >= {"row_id", "messages", "task_id"}
    assert Path(page["path"]).is_dir()


def test_the_classifiers_page_counts_prompts(refreshed: dg.ExecuteInProcessResult) -> None:
    page = materializations(refreshed)["depth_classifier", None]
    assert page["prompts_in"] == page["prompts_kept"] == page["dagster/row_count"] == len(seed_set())
    assert "rollouts_in" not in page
    assert page["funnel_picture"].startswith("![Prompts left after each stage]")


def test_the_mixs_page_shows_classes_against_the_target(refreshed: dg.ExecuteInProcessResult) -> None:
    assert "data:image/svg+xml" in materializations(refreshed)["balanced_mix", None]["depth_mix"]
    check = next(c for c in refreshed.get_asset_check_evaluations() if c.check_name == "mix_on_target")
    assert "| single | " in check.metadata["classes"].value


def test_shares_of_nothing_are_missed(refreshed: dg.ExecuteInProcessResult) -> None:
    (check,) = (
        c
        for c in refreshed.get_asset_check_evaluations()
        if c.asset_key == dg.AssetKey("nine_mix") and c.check_name == "mix_on_target"
    )
    assert not check.passed
    assert check.severity == dg.AssetCheckSeverity.WARN


def test_facts_are_a_table_and_columns_are_described(refreshed: dg.ExecuteInProcessResult) -> None:
    page = materializations(refreshed)["sft_dataset", None]
    assert page["facts"].startswith("| fact | value |")
    assert "{" not in page["facts"]
    described = {c.name: c.description for c in page["dagster/column_schema"].columns}
    assert described["row_id"]
    assert described["messages"]


def test_every_blocking_check_passed(refreshed: dg.ExecuteInProcessResult) -> None:
    failed = [c for c in refreshed.get_asset_check_evaluations() if not c.passed and c.blocking]
    assert failed == []
    assert len(refreshed.get_asset_check_evaluations()) > 30


def test_a_recipe_publishes_its_own_family(world: World, refreshed: dg.ExecuteInProcessResult) -> None:
    for name in ("nine_sft", "nine_dpo", "nine_mix"):
        assert materializations(refreshed)[name, None]["dagster/row_count"] == 0, "no rollout is of agent x"


def test_a_second_refresh_changes_nothing(world: World, refreshed: dg.ExecuteInProcessResult) -> None:
    pages = materializations(world.run("refresh_job"))
    assert {page["changed"] for page in pages.values()} == {"nothing: the inputs are the same"}


def test_a_partition_whose_folder_is_away_keeps_its_data(world: World, refreshed: dg.ExecuteInProcessResult) -> None:
    world.instance.add_dynamic_partitions("runs", ["evals/runs/never-there"])
    result = world.definitions.resolve_job_def("ingest_job").execute_in_process(
        instance=world.instance, partition_key="evals/runs/never-there", run_config=QUIET
    )
    assert result.success
    page = materializations(result)["graded_traces", "evals/runs/never-there"]
    assert page["status"] == "folder is away"
    assert page["all_runs"].splitlines()[-1].startswith("| 3 | "), "totals over all runs"
