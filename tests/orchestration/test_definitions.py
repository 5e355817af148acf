"""The code location, written down: assets with what they depend on, checks, jobs, sensors, schedule."""

import dagster as dg
import pytest

from trace_flywheel.flow.audit import PROMISES
from trace_flywheel.orchestration.definitions import build, defs
from trace_flywheel.orchestration.resources import SettingsResource
from trace_flywheel.settings import load_settings

INGEST = {
    "graded_traces": {"job_folders"},
    "redacted_rollouts": {"graded_traces", "corrections"},
    "rollout_index": {"redacted_rollouts", "eval_goldens"},
}
TEXTS = {"rollout_index", "redacted_rollouts"}
JUDGED = {"eval_goldens", "verdicts", "judge_scores"}
OVER_ALL_RUNS = {
    "grouped_advantages": {"rollout_index", "verdicts"},
    "sft_dataset": {*TEXTS, "grouped_advantages", "training_corpus", "corrections", *JUDGED},
    "dpo_dataset": {*TEXTS, "grouped_advantages", *JUDGED},
    "rl_prompts": {*TEXTS, "grouped_advantages", *JUDGED},
    "kto_dataset": {*TEXTS, "grouped_advantages", *JUDGED},
    "rl_dataset": {*TEXTS, "grouped_advantages", "eval_goldens", "verdicts"},
    "depth_classifier": {"depth_labels"},
    "redaction_report": {"redacted_rollouts"},
    "balanced_mix": {"sft_dataset", "depth_classifier"},
}
SOURCES = {"job_folders", "depth_labels", "eval_goldens", "training_corpus", "corrections", "verdicts", "judge_scores"}
PUBLISHED = ("sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset", "rl_prompts", "balanced_mix")


def deps(definitions: dg.Definitions) -> dict[str, set[str]]:
    specs = definitions.resolve_all_asset_specs()
    return {s.key.to_user_string(): {d.asset_key.to_user_string() for d in s.deps} for s in specs}


def recipe_of(name: str) -> dg.Definitions:
    return build(load_settings(datasets={name: {"agents": ["x"]}}), SettingsResource())


def test_the_definitions_load() -> None:
    dg.Definitions.validate_loadable(defs)


def test_every_asset_with_what_it_depends_on() -> None:
    found = deps(defs)
    assert {name: found[name] for name in found if name not in SOURCES} == INGEST | OVER_ALL_RUNS
    assert set(found) >= SOURCES


def test_only_the_per_run_assets_are_partitioned_and_a_range_is_one_run() -> None:
    graph = defs.resolve_asset_graph()
    partitioned = {k.to_user_string() for k in graph.get_all_asset_keys() if graph.get(k).is_partitioned}
    assert partitioned == {*INGEST, "job_folders"}
    for name in INGEST:
        policy = graph.get(dg.AssetKey(name)).backfill_policy
        assert policy == dg.BackfillPolicy.single_run()


def test_every_asset_says_what_a_row_of_it_is_and_has_a_group() -> None:
    for spec in defs.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.group_name in {"sources", "ingest", "curation", "datasets"}, spec.key
        if spec.key.to_user_string() in INGEST | OVER_ALL_RUNS and spec.key.to_user_string() != "depth_classifier":
            assert "ne row per" in spec.description or spec.description.startswith("SFT rows"), spec.key


def test_checks_on_invariants_block_and_the_others_warn() -> None:
    graph = defs.resolve_asset_graph()
    blocking = {
        (key.asset_key.to_user_string(), key.name): graph.get_check_spec(key).blocking for key in graph.asset_check_keys
    }
    assert {key for key, is_blocking in blocking.items() if is_blocking} == {
        ("rollout_index", "ledger_conserves"),
        ("grouped_advantages", "advantages_sum_to_zero"),
        *((name, promise) for name in PUBLISHED for promise in PROMISES),
    }
    assert {key for key, is_blocking in blocking.items() if not is_blocking} == {
        ("rollout_index", "nothing_quarantined"),
        ("balanced_mix", "mix_on_target"),
        ("sft_dataset", "no_task_collapsed"),
    }


def test_no_check_is_partitioned() -> None:
    graph = defs.resolve_asset_graph()
    assert all(graph.get_check_spec(key).partitions_def is None for key in graph.asset_check_keys)


def test_two_jobs_share_the_assets_between_them() -> None:
    selected = {
        name: {k.to_user_string() for k in defs.resolve_job_def(name).asset_layer.executable_asset_keys}
        for name in ("ingest_job", "refresh_job")
    }
    assert selected == {"ingest_job": set(INGEST), "refresh_job": set(OVER_ALL_RUNS)}


def test_sensors_and_schedule_are_off_until_the_setting_starts_them() -> None:
    started = build(load_settings(automation={"start": True}), SettingsResource())
    for definitions, status in ((defs, "STOPPED"), (started, "RUNNING")):
        repository = definitions.get_repository_def()
        assert {s.name: s.default_status.value for s in repository.sensor_defs} == {
            "job_folders_sensor": status,
            "refresh_sensor": status,
        }
        assert {s.name: (s.cron_schedule, s.default_status.value) for s in repository.schedule_defs} == {
            "nightly_refresh": ("15 3 * * *", status)
        }
        assert all("automation.start" in (s.description or "") for s in repository.sensor_defs)


def test_a_dataset_grows_late_only_where_the_schedule_renews_it() -> None:
    started = build(load_settings(automation={"start": True}), SettingsResource())
    late = {s.key.to_user_string() for s in started.resolve_all_asset_specs() if s.freshness_policy}
    assert late == set(OVER_ALL_RUNS) - {"redaction_report"}
    assert not any(s.freshness_policy for s in defs.resolve_all_asset_specs())


def test_a_recipe_gives_a_family_of_its_own() -> None:
    found = deps(recipe_of("claude"))
    assert set(found) - set(deps(defs)) == {
        "claude_sft", "claude_dpo", "claude_kto", "claude_rl", "claude_prompts", "claude_mix"
    }  # fmt: skip
    assert found["claude_mix"] == {"claude_sft", "depth_classifier"}
    assert found["claude_sft"] == OVER_ALL_RUNS["sft_dataset"]
    assert found["claude_rl"] == OVER_ALL_RUNS["rl_dataset"]
    checks = recipe_of("claude").resolve_asset_graph().asset_check_keys
    assert {k.name for k in checks if k.asset_key == dg.AssetKey("claude_kto")} == set(PROMISES)


@pytest.mark.parametrize("name", ["ingest_job", "refresh_job"])
def test_steps_of_a_run_share_one_process(name: str) -> None:
    assert defs.resolve_job_def(name).executor_def.name == "in_process"
