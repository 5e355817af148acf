"""A renamed folder is not a second attempt: what stands in a run that is gone and in one that is there counts once."""

import json
from collections.abc import Callable

from tests.flow.conftest import Flow, group, trace, write_runs
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version

MakeFlow = Callable[..., Flow]
REWARDS = (1.0, 0.9, 0.2, 0.0)


def same(one: Flow) -> dict[tuple[str, str], dict[str, object]]:
    rows = fates_of(find_version(one.settings.home, "rl_dataset")).to_pylist()
    dropped = [row for row in rows if row["stage"] == "same_rollout"]
    return {(row["run_id"], row["trace_id"]): json.loads(row["evidence"]) for row in dropped}


def test_a_renamed_run_counts_once_and_that_is_told(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", REWARDS, 1), "keep": group("b", REWARDS, 20)})
    before = one.run()
    (one.root / "runs" / "r1").rename(one.root / "runs" / "r2")
    after = one.run()
    assert set(same(one)) == {("data/runs/r1", f"a-{i}") for i in range(4)}
    assert same(one)["data/runs/r1", "a-0"] == {"kept_run_id": "data/runs/r2", "kept_trace_id": "a-0", "gone": True}
    for name in ("sft_dataset", "dpo_dataset", "rl_dataset"):
        assert (after[name].rows, after[name].ledger.entered) == (before[name].rows, 12)
    warning = (
        "4 rollouts of runs whose folder is gone stand again in another run and count once there; the first is a-0"
    )
    assert any(told.startswith(warning) for told in after["sft_dataset"].facts["warnings"])
    group_sizes = {json.loads(line)["group"]["size"] for line in (after["rl_dataset"].path / "data-00000.jsonl").open()}
    assert group_sizes == {4}


def test_only_what_stands_again_goes_and_only_once_its_folder_is_gone(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", REWARDS, 1)})
    one.run()
    again = [*group("a", REWARDS[:2], 1), {**group("a", REWARDS, 1)[2], "trace_id": "other"}]
    write_runs(one.root, {"r2": again, "r3": [trace("a-3", "a", 0.0, 77)]})
    made = one.run()
    assert same(one) == {}  # both folders are there: temperature 0 gives twins
    assert made["rl_dataset"].ledger.entered == 8
    (one.root / "runs" / "r1" / "results.json").unlink()
    (one.root / "runs" / "r1").rmdir()
    made = one.run()
    assert set(same(one)) == {("data/runs/r1", "a-0"), ("data/runs/r1", "a-1")}
    assert made["rl_dataset"].ledger.entered == 8


def test_a_run_that_is_gone_and_stands_nowhere_else_stays(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", REWARDS, 1), "r2": group("b", REWARDS, 20)})
    before = one.run()
    (one.root / "runs" / "r1" / "results.json").unlink()
    after = one.run()
    assert after["sft_dataset"].rows == before["sft_dataset"].rows
    assert not after["sft_dataset"].facts["warnings"]
