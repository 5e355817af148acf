"""The difficulty of tasks lies in the lake beside the advantages; RL leaves out what an old policy did."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import Flow, Row, group, trace
from trace_flywheel.cli.main import main
from trace_flywheel.flow.audit import audit
from trace_flywheel.flow.export import rows_of_version
from trace_flywheel.lake.dataset import find_version, lines, provenance
from trace_flywheel.records.rows import PromptRow, RlRow
from trace_flywheel.redaction.policy import policy_named

MakeFlow = Callable[..., Flow]


def test_each_task_has_its_pass_rates_in_the_lake(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": group("b", (1.0, 1.0), 20)})
    one.run()
    table = {row["task_id"]: row for row in one.lake.table("grouped_advantages", "task_difficulty").to_pylist()}
    assert (table["a"]["n"], table["a"]["passes"], table["a"]["pass_at_1"]) == (4, 2, 0.5)
    assert (table["b"]["zero_signal"], table["b"]["pass_at_2"], table["b"]["pass_at_4"]) == (True, 1.0, None)


def test_tasks_with_signal_give_one_prompt_each(flow: MakeFlow) -> None:
    mixed = group("a", (1.0, 0.9, 0.2, 0.0), 1)
    for row in mixed:
        row["expected"] = "42"
    one = flow(
        {"r1": [*mixed, *group("b", (1.0, 1.0), 20), *group("c", (0.0,), 30), *group("z", (1.0, 0.0), 40)]},
        [{"task_id": "z"}],
    )
    made = one.run()["rl_prompts"]
    (row,) = [json.loads(line) for line in lines(find_version(one.settings.home, "rl_prompts"))]
    assert row["prompt"] == [{"role": "user", "content": "Do a."}]
    assert (row["answer"], row["verifier"], row["task_id"]) == ("42", "exact@1", "a")
    assert row["difficulty"] == {"n": 4, "passes": 2, "pass_at_1": 0.5}
    assert made.ledger.dropped == {
        "golden": {"golden_id": 2},
        "selection": {"no_signal": 3},
        "cap": {"over_task_cap": 3},
    }
    assert made.ledger.entered == 9
    version = find_version(one.settings.home, "rl_prompts")
    assert not any(audit(version, one.curation().crew, policy_named("standard")).values())
    (read,) = rows_of_version(version)
    assert isinstance(read, PromptRow)


def hosted(task: str, rewards: tuple[float, ...], seed: int, **more: str) -> list[Row]:
    """Attempts whose prompt names the container that each ran in."""
    rows = [{**row, **more} for row in group(task, rewards, seed)]
    for i, row in enumerate(rows):
        row["trace_id"] += "".join(more.values())
        row["messages"][0]["content"] = f"root@{seed + i:012x}:/app# Do {task}."
    return rows


@pytest.mark.parametrize("format", ["rl-prompts", "verifiers"])
def test_prompts_are_exported_once_each_whatever_host_they_name(flow: MakeFlow, tmp_path: Path, format: str) -> None:
    one = flow({"r1": [*hosted("a", (1.0, 0.0, 0.0), 1), *hosted("b", (1.0, 0.0), 20)]})
    one.run()
    home, out = str(one.settings.home), tmp_path / "prompts"
    assert main(["export", "rl_prompts", "--format", format, "--out", str(out), "--home", home]) == 0
    rows = [json.loads(line) for line in (out / "data-00000.jsonl").read_bytes().splitlines()]
    assert [row.get("task_id", row.get("info", {}).get("task_id")) for row in rows] == ["a", "b"]
    if format == "rl-prompts":
        out = tmp_path / "rollouts"
        assert main(["export", "rl_dataset", "--format", format, "--out", str(out), "--home", home]) == 0
        lines_of = [json.loads(line) for line in (out / "data-00000.jsonl").read_bytes().splitlines()]
        assert [row["task_id"] for row in lines_of] == ["a", "b"]


def test_a_task_that_changed_is_another_task(flow: MakeFlow) -> None:
    """Version 1 of the task was always solved, version 2 never, version 3 sometimes."""
    rewards = {"d1": (1.0, 1.0), "d2": (0.0, 0.0), "d3": (1.0, 0.0)}
    rows = [
        row for i, (digest, of) in enumerate(rewards.items()) for row in hosted("a", of, 10 * i, task_digest=digest)
    ]
    one = flow({"r1": rows})
    one.run()
    table = one.lake.table("grouped_advantages", "task_difficulty").to_pylist()
    assert {row["task_digest"]: row["pass_at_1"] for row in table} == {"d1": 1.0, "d2": 0.0, "d3": 0.5}
    (row,) = [json.loads(line) for line in lines(find_version(one.settings.home, "rl_prompts"))]
    assert row["difficulty"] == {"n": 2, "passes": 1, "pass_at_1": 0.5}


def test_a_stale_policy_leaves_the_rl_set_and_no_statistic_moves(flow: MakeFlow) -> None:
    rows = [
        trace(f"{policy}-{i}", "a", reward, seed + i, policy_version=policy, finished_at=f"2025-03-{day}T00:00:00Z")
        for policy, day, seed in (("old", "01", 1), ("new", "20", 30))
        for i, reward in enumerate((1.0, 0.0))
    ]
    one = flow({"r1": rows}, groups={"max_policy_age": 14})
    made = one.run()["rl_dataset"]
    assert (made.rows, made.ledger.dropped) == (2, {"groups": {"stale_policy": 2}})
    assert made.facts["zero_spread"] == 0
    assert one.lake.table("grouped_advantages", "advantages").num_rows == 4


def test_a_row_says_which_policy_acted_and_how_old_it_is(flow: MakeFlow) -> None:
    rows = [
        trace("a-0", "a", 1.0, 1, policy_version="old", finished_at="2025-03-01T00:00:00Z"),
        trace("a-1", "a", 0.0, 2, policy_version="old", finished_at="2025-03-02T12:00:00Z"),
        trace("a-2", "a", 1.0, 3, policy_version="new", finished_at="2025-03-20T00:00:00Z"),
        trace("a-3", "a", 0.0, 4, policy_version="new"),
        trace("b-0", "b", 1.0, 5),
        trace("b-1", "b", 0.0, 6),
    ]
    made = flow({"r1": rows}).run()["rl_dataset"]
    version = find_version(made.path.parents[2], "rl_dataset")
    policies = {
        p.trace_ids[0]: json.loads(line)["policy"] for p, line in zip(provenance(version), lines(version), strict=True)
    }
    old, new, none = ({"version": v, "age_days": a} for v, a in (("old", 17.5), ("new", 0.0), (None, None)))
    assert policies == {"a-0": old, "a-1": old, "a-2": new, "a-3": new, "b-0": none, "b-1": none}
    assert [row.policy for row in rows_of_version(version) if isinstance(row, RlRow)] == list(policies.values())
