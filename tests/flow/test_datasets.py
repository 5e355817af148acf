"""The whole flow over small eval runs: what is published, why the rest is not, and that nothing else ever differs."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.conftest import Flow, group, sentence, trace, write_runs
from trace_flywheel.curation.decisions import drops
from trace_flywheel.flow import ingest
from trace_flywheel.flow.datasets import make, sft_dataset
from trace_flywheel.flow.funnel import Funnel
from trace_flywheel.flow.names import KINDS, SUFFIX
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import find_version, lines, provenance
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.records.fate import Stage
from trace_flywheel.redaction.redact import redactor

MakeFlow = Callable[..., Flow]
PRESENT = {"shortage": "renormalize", "target": dict.fromkeys(("single", "multi", "comparison", "other"), 0.25)}
"""A mix of the classes that a few rows have."""


def fates(made: Made) -> dict[str, tuple[bool, str | None, str | None]]:
    rows = pq.read_table(made.path / "fates.parquet").to_pylist()
    return {r["trace_id"]: (r["kept"], r["stage"], r["reason"]) for r in rows}


def published_bytes(home: Path) -> dict[str, bytes]:
    return {
        p.relative_to(home).as_posix(): p.read_bytes() for p in sorted((home / "datasets").rglob("*")) if p.is_file()
    }


def test_each_dataset_accounts_for_every_rollout(flow: MakeFlow) -> None:
    made = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": group("b", (0.0, 0.0), 9)}).run()
    for one in (m for m in made.values() if m.name != "depth_classifier"):
        assert one.ledger.entered == 6
        assert one.ledger.entered == one.ledger.kept + sum(n for r in one.ledger.dropped.values() for n in r.values())
    assert fates(made["sft_dataset"])["a-0"] == (True, None, None)
    assert fates(made["sft_dataset"])["a-1"] == (False, "selection", "below_fraction")
    assert fates(made["dpo_dataset"])["b-0"] == (False, "pairs", "no_contrast")
    assert made["rl_dataset"].rows == 6


def test_a_row_names_its_run_trace_grader_and_source(flow: MakeFlow) -> None:
    made = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1)}).run()
    (row,) = provenance(find_version(made["sft_dataset"].path.parents[2], "sft_dataset"))
    assert (row.run_id, row.trace_ids, row.grader, row.grader_version) == ("data/runs/r1", ("a-0",), "exact", "1")
    assert row.source[0].startswith("runs/r1/results.json#") or row.source[0].startswith("results.json#")
    (pair,) = provenance(find_version(made["dpo_dataset"].path.parents[2], "dpo_dataset"))
    assert (pair.trace_ids, pair.delta, pair.rejected_is_min) == (("a-0", "a-3"), 1.0, True)
    assert pair.rejected_run_id == "data/runs/r1"


def test_a_row_too_large_for_a_layout_is_left_out_of_that_layout_alone(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_flywheel.flow.publish.MAX_LAYOUT_BYTES", 4_000)
    turns = [{"role": role, "content": sentence(n)} for n in range(40) for role in ("user", "assistant")]
    made = flow({"r1": [trace("a-0", "a", 1.0, 1) | {"messages": turns}, trace("b-0", "b", 1.0, 2)]}).run()
    sft = made["sft_dataset"]
    version = find_version(sft.path.parents[2], "sft_dataset")
    of_a = next(p.row_id for p in provenance(version) if p.task_id == "a")
    assert (sft.rows, len(list(lines(version))), len(list(lines(version, "trl-sft")))) == (2, 2, 1)
    assert version.manifest["facts"]["left_out"]["trl-sft"] == [of_a]
    assert "1 rows are not in layout trl-sft" in (sft.path / "README.md").read_text("utf-8")


@pytest.mark.parametrize(("mix", "was", "then"), [(PRESENT, "made", "unchanged"), ({}, "refused", "refused")])
def test_a_second_pass_publishes_nothing(flow: MakeFlow, mix: dict[str, Any], was: str, then: str) -> None:
    one = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1)}, goldens=[{"task_id": "z"}], mix=mix)
    first = one.run()
    before = {p: p.stat().st_mtime_ns for p in one.settings.home.rglob("*")}
    second = one.run()
    assert {n: m.status for n, m in first.items()} == {n: was if n == "balanced_mix" else "made" for n in first}
    assert {n: m.status for n, m in second.items()} == {n: then if n == "balanced_mix" else "unchanged" for n in first}
    assert [(m.version, m.rows, m.ledger) for m in first.values()] == [
        (m.version, m.rows, m.ledger) for m in second.values()
    ]
    assert {p: p.stat().st_mtime_ns for p in one.settings.home.rglob("*")} == before


def test_new_fates_without_new_rows_are_a_version_with_the_whole_truth(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", (1.0,), 1)}, name="one")
    first = one.run()["sft_dataset"]
    write_runs(one.root, {"r2": group("b", (0.0,), 5)})
    second = one.run()["sft_dataset"]
    assert (second.status, second.rows) == ("made", first.rows)
    assert second.version != first.version
    assert second.ledger.dropped == {"selection": {"not_passing": 1}}
    manifest = find_version(one.settings.home, "sft_dataset").manifest
    assert [run["run_id"] for run in manifest["inputs"]["runs"]] == ["data/runs/r1", "data/runs/r2"]
    assert fates(second) == {"a-0": (True, None, None), "b-0": (False, "selection", "not_passing")}
    fresh = flow({"r1": group("a", (1.0,), 1), "r2": group("b", (0.0,), 5)}, name="two")
    fresh.run()
    mine, others = published_bytes(one.settings.home), published_bytes(fresh.settings.home)
    assert {name: mine[name] for name in others} == others
    assert not (one.lake.root / "sft_dataset").exists()


def test_inputs_of_an_older_version_bring_it_back(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", (1.0, 0.0), 1)}, goldens=[{"task_id": "z"}])
    first = one.run()["sft_dataset"]
    write_runs(one.root, {}, [{"task_id": "y"}])
    other = one.run()["sft_dataset"]
    assert other.version != first.version  # its card pins other goldens
    write_runs(one.root, {}, [{"task_id": "z"}])
    again = one.run()["sft_dataset"]
    assert (again.status, again.version) == ("restored", first.version)
    assert one.run()["sft_dataset"].status == "unchanged"


@pytest.mark.parametrize("workers", [1, 2])
def test_order_and_processes_change_no_byte(workers: int, flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.flow.workers.PATIENCE", 0.0)
    runs = {f"r{i}": group(f"t{i}", (1.0, 0.75, 0.5, 0.0), 20 * i) for i in range(4)}
    one = flow(runs, name="one", workers=1)
    one.run()
    two = flow(dict(reversed(runs.items())), name="two", workers=workers)
    shuffled = random.Random(3)
    real = ingest.ingest
    monkeypatch.setattr(ingest, "ingest", lambda todo, *rest: real(shuffled.sample(todo, len(todo)), *rest))
    two.run()
    assert published_bytes(one.settings.home) == published_bytes(two.settings.home)


def test_a_golden_is_in_no_dataset_by_id_or_by_text(flow: MakeFlow) -> None:
    statement = sentence(77, 30)
    leak = trace("leak", "other", 1.0, 3)
    leak["messages"][0]["content"] = f"Please: {statement}"
    rows = [*group("held", (1.0, 0.0), 1), leak, *group("free", (1.0,), 40)]
    one = flow({"r1": rows}, goldens=[{"task_id": "held"}, {"task_id": "x", "prompt": statement}])
    made = one.run()
    for name in ("sft_dataset", "dpo_dataset", "rl_dataset"):
        assert fates(made[name])["held-0"] == (False, "golden", "golden_id")
        assert fates(made[name])["leak"] == (False, "golden", "golden_near_duplicate")
    assert statement.encode() not in b"".join(
        data for name, data in published_bytes(one.settings.home).items() if "data-" in name
    )


def test_the_last_gates_drop_what_earlier_stages_let_through(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    one = flow({"r1": [*group("a", (1.0,), 1), *group("b", (1.0,), 9)]})
    real = redactor("standard").scan_line

    def finds(line: bytes) -> dict[str, int]:
        return {"planted": 1} if b'"task_id":"a"' in line or b'"task_name":"a"' in line else real(line)

    monkeypatch.setattr(redactor("standard"), "scan_line", finds)
    made = one.run()["sft_dataset"]
    assert fates(made)["a-0"] == (False, "publish", "finding_after_layout")
    assert fates(made)["b-0"] == (True, None, None)
    assert made.rows == 1


def test_a_row_that_a_trainer_refuses_is_dropped_with_its_fault(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_flywheel.trainers.registry import layout

    monkeypatch.setattr(type(layout("trl-sft")), "validate", lambda _self, _row: iter(["messages: no"]))
    made = flow({"r1": group("a", (1.0,), 1)}).run()["sft_dataset"]
    (fate,) = pq.read_table(made.path / "fates.parquet").to_pylist()
    assert (fate["stage"], fate["reason"]) == ("publish", "layout_refused")
    assert json.loads(fate["evidence"])["faults"] == ["messages: no"]


def test_what_lacks_a_verdict_is_written_down_to_be_graded(flow: MakeFlow) -> None:
    one = flow({"r1": [trace("n", "a", None, 1, "unsure"), *group("b", (1.0,), 9)]})
    one.run()
    (line,) = (one.lake.root / "needs_grading.jsonl").read_text().splitlines()
    assert json.loads(line)["trace_id"] == "n"
    assert set(json.loads(line)) == {"run_id", "trace_id", "reason", "path"}


def test_twins_are_two_rollouts_and_one_training_row(flow: MakeFlow) -> None:
    rows = [trace("x", "a", 1.0, 1), trace("y", "a", 1.0, 1)]
    made = flow({"r1": rows}).run()
    assert made["rl_dataset"].rows == 2
    assert made["sft_dataset"].rows == 1
    assert sorted(f[2] or "" for f in fates(made["sft_dataset"]).values()) == ["", "exact_duplicate"]


def test_lost_rollouts_have_a_fate_and_withhold_their_group(flow: MakeFlow) -> None:
    one = flow({"r1": []})
    rows = [json.dumps(r) for r in group("a", (1.0, 0.0), 1)]
    (one.root / "runs/r1/results.json").write_text("\n".join([*rows, '{"task_id": "a", "trace_id": "z"}', ""]))
    made = one.run()
    assert fates(made["rl_dataset"])["z"][:2] == (False, "read")
    assert made["rl_dataset"].ledger.dropped["groups"] == {"withheld_unreadable": 2}


def test_a_recipe_filters_and_overrides(flow: MakeFlow) -> None:
    recipe = {"easy": {"tasks": ["a"], "selection": {"keep_fraction": 1.0}, "layouts": ["messages"]}}
    one = flow({"r1": [*group("a", (1.0, 0.9), 1), *group("b", (1.0,), 9)]}, datasets=recipe)
    one.run()
    made = sft_dataset(one.curation(), "easy")
    assert (made.name, made.rows, made.ledger.entered) == ("easy_sft", 2, 2)
    assert not (made.path / "layouts").exists()


def test_a_recipe_gives_every_kind_with_a_card_of_its_own(flow: MakeFlow) -> None:
    recipe = {"easy": {"tasks": ["a"], "pairs": {"min_group": 2}, "layouts": ["kto"], "mix": PRESENT}}
    rows = [*group("a", (1.0, 0.9, 0.0), 1), *group("b", (1.0, 0.9, 0.1, 0.0), 9)]
    one = flow({"r1": rows}, datasets=recipe)
    one.run()
    curation = one.curation()
    found = {kind: make(curation, kind, "easy") for kind in KINDS}
    names = {kind: made.name for kind, made in found.items()}
    assert names == {
        "sft": "easy_sft", "pair": "easy_dpo", "kto": "easy_kto", "rl": "easy_rl", "prompt": "easy_prompts",
        "mix": "easy_mix",
    }  # fmt: skip
    assert {kind: made.rows for kind, made in found.items() if kind != "mix"} == {
        "sft": 1, "pair": 1, "kto": 0, "rl": 3, "prompt": 1
    }  # fmt: skip
    assert {made.ledger.entered for made in found.values()} == {3}
    for kind, made in found.items():
        card = (made.path / "README.md").read_text()
        assert card.startswith("---\n")
        assert f"# easy_{SUFFIX[kind]}" in card
        manifest = json.loads((made.path / "manifest.json").read_text())
        assert manifest["settings"]["filters"]["tasks"] == ["a"]
    assert (found["kto"].path / "layouts" / "kto").is_dir()
    assert not (found["sft"].path / "layouts").exists()


def test_text_that_left_the_lake_is_told_in_words(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", (1.0,), 1)})
    one.ingest()
    curation = one.curation()
    assert len(curation.index.frame) == 1
    for part in one.lake.folder("redacted_rollouts", "data/runs/r1").rglob("part-*.parquet"):
        part.unlink()
    with pytest.raises(LakeError, match="changed while a dataset was made"):
        sft_dataset(curation)


def test_a_run_whose_text_is_newer_than_its_index_takes_no_part(flow: MakeFlow) -> None:
    from trace_flywheel.flow.ingest import graded_traces, redacted_rollouts

    one = flow({"r1": group("a", (1.0,), 1), "r2": group("b", (1.0,), 9)})
    one.ingest()
    write_runs(one.root, {"r1": group("a", (1.0, 0.5), 1)})
    runs, inputs = one.pending().todo, one.curation().inputs
    list(graded_traces(runs, one.lake, one.settings, inputs))
    list(redacted_rollouts(runs, one.lake, one.settings, inputs))
    index = one.curation().index
    assert (index.stale, index.frame["trace_id"].tolist()) == (("data/runs/r1",), ["b-0"])


def test_a_stage_that_drops_a_row_twice_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="dropped twice"):
        Funnel(3).take(drops(Stage.QUALITY, [1, 1], "truncated", [{}, {}]))


REWARDS = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
TRACES = st.tuples(
    st.sampled_from(["a", "b"]), REWARDS, st.integers(1, 6), st.sampled_from([None, "pass", "fail", "PASS"])
)


@settings(max_examples=10)
@given(st.lists(TRACES, max_size=12), st.integers(1, 12))
def test_counts_add_up_whatever_comes_in(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, float | None, int, str | None]], split: int
) -> None:
    base = tmp_path_factory.mktemp("conservation")
    made_rows = [trace(f"t{i}", task, reward, seed, verdict) for i, (task, reward, seed, verdict) in enumerate(rows)]
    one = Flow(
        write_runs(base / "data", {"r1": made_rows[:split], "r2": made_rows[split:]}), base / "home", mix=PRESENT
    )
    for name, made in one.run().items():
        ledger = made.ledger
        if name == "depth_classifier":
            continue
        assert ledger.entered == len(rows)
        assert ledger.entered == ledger.kept + sum(n for r in ledger.dropped.values() for n in r.values())
        if name == "grouped_advantages":
            continue
        if made.status == "refused":  # without a single row
            assert (name, ledger.kept) == ("balanced_mix", 0)
            continue
        table = pq.read_table(made.path / "fates.parquet").to_pylist()
        assert Counter(f["trace_id"] for f in table) == Counter(f"t{i}" for i in range(len(rows)))
        named = {row_id for f in table for row_id in f["row_ids"]}
        version = find_version(base / "home", name)
        assert named == {json.loads(line)["row_id"] for line in lines(version)}


def test_a_pair_that_two_tasks_hold_is_published_once(flow: MakeFlow) -> None:
    rows = []
    for task in ("a", "b"):
        for i, reward in enumerate((1.0, 0.9, 0.2, 0.0)):
            row = trace(f"{task}-{i}", task, reward, i)
            row["messages"][0]["content"] = "Do it."
            rows.append(row)
    made = flow({"r1": rows}).run()["dpo_dataset"]
    assert made.rows == 1
    assert made.ledger.kept == 2
    assert made.ledger.dropped["exact_duplicate"] == {"exact_duplicate": 2}


def test_a_run_ingested_anew_while_a_dataset_is_made_is_told(flow: MakeFlow) -> None:
    one = flow({"r1": group("a", (1.0,), 1)})
    one.ingest()
    curation = one.curation()
    assert len(curation.index.frame) == 1
    write_runs(one.root, {"r1": group("z", (0.0, 1.0), 5)})
    one.ingest()
    with pytest.raises(LakeError, match="changed while a dataset was made"):
        sft_dataset(curation)
