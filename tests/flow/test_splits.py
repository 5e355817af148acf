"""Splits in published versions: files of their own, sticky under growth, and no row in two of them."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.flow.conftest import Flow, Row, sentence, trace, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.flow.audit import audit
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version, lines, provenance
from trace_flywheel.redaction.policy import policy_named

MakeFlow = Callable[..., Flow]
SHARES = {"eval": 0.25, "held_out": 0.25}
PRESENT = {"shortage": "renormalize"}
"""A mix of the classes that these few prompts have."""


def tasks(start: int, stop: int) -> list[Row]:
    rows = []
    for i in range(start, stop):
        rows.append(trace(f"t{i}", f"task-{i}", 1.0, 100 + i))
        rows[-1]["messages"][0]["content"] = sentence(300 + i, 12)
    return rows


def splits(one: Flow, name: str = "sft_dataset") -> dict[str, str]:
    return {p.task_id: p.split for p in provenance(find_version(one.settings.home, name))}


def test_each_split_has_its_files_in_the_order_of_provenance(flow: MakeFlow) -> None:
    one = flow({"r1": tasks(0, 24)}, splits=SHARES)
    made = one.run()["sft_dataset"]
    version = find_version(one.settings.home, "sft_dataset")
    assert set(splits(one).values()) == {"train", "eval", "held_out"}
    for split in ("train", "eval", "held_out"):
        stem = "data-0" if split == "train" else f"data-{split}-0"
        for folder in (made.path, made.path / "layouts" / "trl-sft"):
            (file,) = folder.glob(f"{stem}*.jsonl")
            named = {json.loads(line)["task_id"] for line in file.read_bytes().splitlines()}
            assert named == {task for task, of in splits(one).items() if of == split}
    assert [json.loads(line)["row_id"] for line in lines(version)] == [p.row_id for p in provenance(version)]
    card = (made.path / "README.md").read_text()
    assert '  - split: eval\n    path: "data-eval-[0-9]*.jsonl"\n' in card
    assert "Rows by split, whole tasks each: " in card
    assert sum(version.manifest["splits"].values()) == made.rows == 24
    faults = audit(version, one.curation().crew, policy_named("standard"))
    assert not any(faults.values())


def test_growth_moves_no_task_and_the_mix_agrees(flow: MakeFlow) -> None:
    one = flow({"r1": tasks(0, 12)}, splits=SHARES, mix=PRESENT)
    one.run()
    before = splits(one)
    write_runs(one.root, {"r2": tasks(12, 24)})
    one.run()
    after = splits(one)
    assert {task: after[task] for task in before} == before
    assert splits(one, "balanced_mix").items() <= after.items()


def test_a_prompt_that_is_asked_in_eval_leaves_train_in_every_set(flow: MakeFlow) -> None:
    rows = tasks(0, 24)
    one = flow({"r1": rows}, splits=SHARES, mix=PRESENT)
    one.run()
    of = splits(one)
    asked = next(r for r in rows if of[r["task_id"]] == "eval")
    twin = next(r for r in rows if of[r["task_id"]] == "train")
    twin["messages"][0]["content"] = asked["messages"][0]["content"]
    write_runs(one.root, {"r1": rows})
    made = one.run()
    for name in ("sft_dataset", "balanced_mix"):
        (fate,) = [
            f for f in fates_of(find_version(one.settings.home, name)).to_pylist() if f["trace_id"] == twin["trace_id"]
        ]
        assert (fate["stage"], fate["reason"]) == ("split", "crosses_eval")
        ledger = made[name].ledger
        assert ledger.entered == ledger.kept + sum(n for r in ledger.dropped.values() for n in r.values())


def test_an_export_holds_one_split(flow: MakeFlow, tmp_path: Path) -> None:
    one = flow({"r1": tasks(0, 24)}, splits=SHARES)
    one.run()
    for split in ("train", "held_out"):
        out = tmp_path / split
        words = ["export", "sft_dataset", "--format", "trl-sft", "--out", str(out), "--split", split]
        assert main([*words, "--home", str(one.settings.home)]) == 0
        named = {json.loads(line)["task_id"] for line in (out / "data-00000.jsonl").read_bytes().splitlines()}
        assert named == {task for task, of in splits(one).items() if of == split}
        assert 'data_files: "data-*.jsonl"' in (out / "README.md").read_text()


def test_a_template_that_ties_all_prompts_together_is_told(flow: MakeFlow) -> None:
    rows = tasks(0, 16)
    for row in rows:
        row["messages"][0]["content"] = sentence(7, 40)
    made = flow({"r1": rows}, splits={"eval": 0.1, "held_out": 0.1}).run()["sft_dataset"]
    left = sum(made.ledger.dropped["split"].values())
    assert left > made.rows
    (warning,) = [told for told in made.facts["warnings"] if "near ones of another" in told]
    assert warning.startswith(f"{left} rollouts leave their split")
