"""Recorded scores of 90 trials, continuous, negative and constant, as an eval run: pairs and advantages by hand."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import Flow, Row, trace, write_runs
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import fates, find_version, provenance

PASSES = 50.0
"""Normalised score from which a trial counts as passed here; the benchmark has no verdicts."""


def trials(folder: Path) -> dict[str, list[Row]]:
    """By task its trials as eval rows; the source has no transcripts, so each answer is words of its own."""
    found: dict[str, list[Row]] = {}
    for number, file in enumerate(sorted(folder.glob("leaderboard/*/*/*/trial-*/score.json"))):
        trial, task, model = file.parts[-2], file.parts[-3], file.parts[-4]
        score = json.loads(file.read_text("utf-8"))["normalized_score"]
        row = trace(f"{task}-{model}-{trial}", task, score, number, "pass" if score >= PASSES else "fail", model=model)
        found.setdefault(task, []).append(row)
    return found


def reasons_of(one: Flow, name: str, task: str) -> set[str]:
    table = fates(find_version(one.settings.home, name)).to_pylist()
    return {f["reason"] for f in table if f["task_id"] == task and not f["kept"]}


def adds_up(made: Made, entered: int) -> bool:
    dropped = sum(n for reasons in made.ledger.dropped.values() for n in reasons.values())
    return made.ledger.entered == entered == made.ledger.kept + dropped


@pytest.mark.corpus
def test_mixed_groups_give_pairs_and_constant_ones_a_reason(corpus: Callable[[str], Path], tmp_path: Path) -> None:
    tasks = trials(corpus("genesisbench-scores"))
    assert (len(tasks), sum(map(len, tasks.values()))) == (9, 90)
    rows_of_all = [row for rows in tasks.values() for row in rows]
    one = Flow(write_runs(tmp_path / "data", {"r": rows_of_all}), tmp_path / "home")
    made = one.run()
    assert all(adds_up(made[name], 90) for name in ("sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset"))
    pairs = {p.task_id: p for p in provenance(find_version(one.settings.home, "dpo_dataset"))}
    candidates = 0
    for task, rows in tasks.items():
        scores = [row["reward"] for row in rows]
        passed, failed = ([r for r in rows if r["verdict"] == verdict] for verdict in ("pass", "fail"))
        if not passed or not failed:
            assert task not in pairs
            assert reasons_of(one, "dpo_dataset", task) == {"no_contrast"}
            continue
        candidates += len(passed) * len(failed)
        target = statistics.fmean(scores) - 2 * statistics.pstdev(scores)
        chosen, rejected = pairs[task].trace_ids
        best, worst = pairs[task].rewards
        assert best == max(r["reward"] for r in passed)
        nearest = min(abs(r["reward"] - target) for r in failed)
        assert abs(worst - target) == pytest.approx(nearest)
        assert {chosen, rejected} <= {r["trace_id"] for r in rows}
        assert pairs[task].delta == pytest.approx(best - worst)
        assert pairs[task].spread == pytest.approx(statistics.pstdev(scores))
        assert pairs[task].group_size == 10
    assert sum(made["dpo_dataset"].facts["pair_candidates"].values()) == candidates == 83
    given = {row["trace_id"]: row for row in one.lake.table("grouped_advantages", "advantages").to_pylist()}
    constant = 0
    for rows in tasks.values():
        for model in {row["model"] for row in rows}:
            group = [row for row in rows if row["model"] == model]
            flat = len({row["reward"] for row in group}) == 1
            constant += flat
            assert {given[row["trace_id"]]["zero_spread"] for row in group} == {flat}
            assert sum(given[row["trace_id"]]["advantage"] for row in group) == pytest.approx(0, abs=1e-9)
            assert all(given[row["trace_id"]]["advantage"] == 0 for row in group) is flat
    assert constant == 4
