"""A small eval layout on disk and the whole flow over it, without Dagster."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.flow import curation, datasets, ingest, standing, tables
from trace_flywheel.flow.inputs import side_inputs
from trace_flywheel.flow.pending import Pending
from trace_flywheel.flow.pending import pending as pending_now
from trace_flywheel.flow.steps import StepResult
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings, load_settings
from trace_flywheel.sources.discover import discover

Row = dict[str, Any]
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty", "knoll", "larch")


def sentence(seed: int, words: int = 40) -> str:
    """Text that shares no five words in a row with that of another seed."""
    return " ".join(f"{WORDS[(seed * 7 + i * (seed % 5 + 1)) % len(WORDS)]}{seed}x{i}" for i in range(words))


def trace(trace_id: str, task: str, reward: float | None, seed: int, verdict: str | None = None, **more: Any) -> Row:
    passed = "pass" if (reward or 0) >= 0.5 else "fail"
    messages = [{"role": "user", "content": f"Do {task}."}, {"role": "assistant", "content": sentence(seed)}]
    row = {"trace_id": trace_id, "task_id": task, "messages": messages, "verdict": verdict or passed}
    return {**row, "reward": reward, "grader": "exact", "grader_version": "1", **more}


def group(task: str, rewards: tuple[float, ...], seed: int) -> list[Row]:
    return [trace(f"{task}-{i}", task, reward, seed + i) for i, reward in enumerate(rewards)]


def write_runs(root: Path, runs: Mapping[str, list[Row]], goldens: list[Row] | None = None) -> Path:
    for name, rows in runs.items():
        folder = root / "runs" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(rows))
    if goldens is not None:
        (root / "eval").mkdir(parents=True, exist_ok=True)
        (root / "eval" / "goldens.jsonl").write_text("".join(json.dumps(g) + "\n" for g in goldens))
    return root


def airline(tau_bench: Path, **fields: Any) -> list[Row]:
    """tau-bench's 200 recorded attempts at 50 airline tasks, as an eval harness exports them."""
    file = tau_bench / "historical_trajectories" / "gpt-4o-airline.json"
    return [
        {
            "task_id": f"airline-{one['task_id']}",
            "trace_id": f"airline-{one['task_id']}-{one['trial']}",
            "messages": one["traj"],
            "verdict": "pass" if one["reward"] == 1.0 else "fail",
            "reward": one["reward"],
            "grader": "tau-bench",
            **fields,
        }
        for one in json.loads(file.read_text("utf-8"))
    ]


class Flow:
    """The flow over one root into one home. `results` are those of the last ingestion."""

    def __init__(self, root: Path, home: Path, workers: int = 1, **settings: Any) -> None:
        self.root, self.workers, self.results = root, workers, ()
        self.settings: Settings = load_settings(home=home, roots=[root], **settings)
        self.lake = Lake(home)

    def pending(self) -> Pending:
        runs = discover(self.settings.roots).runs
        return pending_now(runs, self.lake, self.settings, side_inputs(runs, self.settings))

    def ingest(self) -> tuple[StepResult, ...]:
        runs = discover(self.settings.roots).runs
        inputs = side_inputs(runs, self.settings)
        todo = pending_now(runs, self.lake, self.settings, inputs).todo
        return ingest.ingest(todo, self.lake, self.settings, inputs, self.workers)

    def curation(self) -> curation.Curation:
        runs = discover(self.settings.roots).runs
        return curation.Curation(self.lake, self.settings, side_inputs(runs, self.settings))

    def run(self) -> dict[str, standing.Made]:
        self.results = self.ingest()
        curation = self.curation()
        made = [tables.grouped_advantages(curation), tables.depth_classifier(curation)]
        made += [
            asset(curation)
            for asset in (
                datasets.sft_dataset,
                datasets.dpo_dataset,
                datasets.kto_dataset,
                datasets.rl_dataset,
                datasets.rl_prompts,
            )
        ]
        return {one.name: one for one in (*made, datasets.balanced_mix(curation))}


@pytest.fixture
def flow(tmp_path: Path) -> Callable[..., Flow]:
    def make(runs: Mapping[str, list[Row]], goldens: list[Row] | None = None, **options: Any) -> Flow:
        name = options.pop("name", "home")
        root = write_runs(tmp_path / options.pop("at", "data"), runs, goldens)
        return Flow(root, tmp_path / name, **options)

    return make
