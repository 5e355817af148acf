"""Withdrawals: the rows are told first, then gone as if never there; an undo brings the same bytes back."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.flow.conftest import Flow, group, trace
from trace_flywheel.cli.main import main
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version, names, provenance
from trace_flywheel.lake.withdrawn import in_force, note
from trace_flywheel.records.grading import Withdrawal

MakeFlow = Callable[..., Flow]


def withdraw(one: Flow, *words: str) -> int:
    return main(["withdraw", *words, "--reason", "bad", "--home", str(one.settings.home)])


def traces(one: Flow, name: str) -> set[tuple[str, ...]]:
    return {p.trace_ids for p in provenance(find_version(one.settings.home, name))}


def fate(one: Flow, name: str, trace_id: str) -> dict[str, Any]:
    (found,) = [f for f in fates_of(find_version(one.settings.home, name)).to_pylist() if f["trace_id"] == trace_id]
    return dict(found)


def balanced(made: dict[str, Made]) -> bool:
    ledgers = [m.ledger for m in made.values()]
    return all(m.entered == m.kept + sum(n for r in m.dropped.values() for n in r.values()) for m in ledgers)


@pytest.fixture
def one(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> Flow:
    other = [trace(f"b-{i}", "b", r, 30 + i, grader="judge") for i, r in enumerate((1.0, 0.8, 0.1, 0.0))]
    made = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": other})
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(made.root)]))
    made.run()
    return made


def test_a_dry_run_tells_the_rows_and_changes_nothing(one: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p: p.stat().st_mtime_ns for p in one.settings.home.rglob("*")}
    assert withdraw(one, "--trace", "a-0", "--dry-run", "--json") == 0
    told = {d["name"]: d for d in json.loads(capsys.readouterr().out)["datasets"]}
    assert told["sft_dataset"]["lost"] == ["data/runs/r1/a-0"]
    assert told["sft_dataset"]["gained"] == ["data/runs/r1/a-1"]
    assert told["dpo_dataset"]["lost"] == ["data/runs/r1/a-0 > data/runs/r1/a-3"]
    assert told["dpo_dataset"]["gained"] == []  # three scored members are no group
    assert {p: p.stat().st_mtime_ns for p in one.settings.home.rglob("*")} == before


def test_recompute_is_as_if_the_rollouts_had_never_been(one: Flow, flow: MakeFlow) -> None:
    assert withdraw(one, "--grader", "judge") == 0
    made = one.run()
    assert balanced(made)
    assert {t[0][0] for name in ("sft_dataset", "rl_dataset", "kto_dataset") for t in traces(one, name)} == {"a"}
    assert fate(one, "rl_dataset", "b-0")["reason"] == "withdrawn"
    assert json.loads(fate(one, "rl_dataset", "b-0")["evidence"]) == {"withdrawn": "grader judge", "reason": "bad"}
    never = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1)}, at="never/data", name="never")
    for name, version in never.run().items():
        if "dataset" in name:
            manifests = [find_version(home, name).manifest for home in (one.settings.home, never.settings.home)]
            assert manifests[0]["rows_sha256"] == manifests[1]["rows_sha256"]
            assert made[name].version != version.version  # its fates tell of the withdrawal


def test_a_grader_s_other_version_stays(one: Flow) -> None:
    assert withdraw(one, "--grader", "exact@2") == 0
    assert withdraw(one, "--grader", "judge@1") == 0
    made = one.run()
    assert fate(one, "sft_dataset", "a-0")["kept"]
    assert made["sft_dataset"].ledger.dropped["convertible"] == {"withdrawn": 4}


def test_an_undo_brings_the_same_version_back(one: Flow) -> None:
    before = {name: find_version(one.settings.home, name).version for name in ("sft_dataset", "dpo_dataset")}
    assert withdraw(one, "--run", "r1") == 0
    one.run()
    assert traces(one, "dpo_dataset") == {("b-0", "b-3")}
    assert withdraw(one, "--run", "r1", "--undo") == 0
    assert in_force(one.lake) == ()
    one.run()
    assert {name: find_version(one.settings.home, name).version for name in before} == before
    assert len((one.lake.root / "withdrawn.jsonl").read_text().splitlines()) == 2


def test_excise_publishes_at_once_and_lets_nothing_take_the_place(one: Flow) -> None:
    mean = {f["task_id"]: f for f in one.lake.table("grouped_advantages", "advantages").to_pylist()}["a"]["mean"]
    assert withdraw(one, "--trace", "a-0", "--mode", "excise") == 0
    assert traces(one, "sft_dataset") == {("b-0",)}
    assert traces(one, "dpo_dataset") == {("b-0", "b-3")}
    assert fate(one, "sft_dataset", "a-0")["reason"] == "withdrawn"
    assert fate(one, "dpo_dataset", "a-0")["reason"] == "withdrawn"
    lost = fate(one, "dpo_dataset", "a-3")
    assert lost["reason"] == "not_selected_for_pair"
    assert json.loads(lost["evidence"])["pair"] == "data/runs/r1/a-0 > data/runs/r1/a-3"
    rl = find_version(one.settings.home, "rl_dataset")
    first = json.loads((rl.path / "data-00000.jsonl").read_bytes().split(b"\n")[0])
    assert first["group"]["mean"] == mean
    version = find_version(one.settings.home, "sft_dataset").version
    made = one.run()
    assert balanced(made)
    assert made["sft_dataset"].version == version  # a refresh without news leaves it


def test_wrong_usage_and_what_is_not_there(one: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    assert withdraw(one) == 2
    assert withdraw(one, "--run", "r1", "--trace", "a-0") == 2
    assert withdraw(one, "--run", "r1", "--undo", "--mode", "excise") == 2
    capsys.readouterr()
    assert withdraw(one, "--run", "r1", "--undo") == 1
    assert "run r1 is not withdrawn" in capsys.readouterr().err
    assert not (one.lake.root / "withdrawn.jsonl").exists()


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        (Withdrawal("x", grader="g"), True),
        (Withdrawal("x", grader="g", grader_version="1"), True),
        (Withdrawal("x", grader="g", grader_version="2"), False),
        (Withdrawal("x", run="root/jobs/r%201"), True),
        (Withdrawal("x", run="r 1"), True),
        (Withdrawal("x", run="jobs"), False),
        (Withdrawal("x", trace="t"), True),
        (Withdrawal("x", trace="u"), False),
    ],
)
def test_what_a_withdrawal_covers(entry: Withdrawal, covered: bool) -> None:
    assert entry.covers("root/jobs/r%201", "t", "g", "1") is covered


def told(one: Flow, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, tuple[set[str], set[str]]]:
    capsys.readouterr()
    assert withdraw(one, *words, "--json") == 0
    return {d["name"]: (set(d["lost"]), set(d["gained"])) for d in json.loads(capsys.readouterr().out)["datasets"]}


def addresses(one: Flow) -> dict[str, set[str]]:
    """The rows of all datasets, as differences name them."""
    found = {}
    for name in names(one.settings.home):
        rows = provenance(find_version(one.settings.home, name))
        runs = ((row, (row.run_id, row.rejected_run_id or row.run_id)) for row in rows)
        found[name] = {" > ".join(f"{r}/{t}" for r, t in zip(at, row.trace_ids, strict=False)) for row, at in runs}
    return found


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("recompute", ("--trace", "a-3")),
        ("recompute", ("--grader", "exact@1")),
        ("excise", ("--trace", "a-0")),
        ("excise", ("--run", "r2")),
    ],
)
def test_what_is_told_is_what_happens_and_a_second_time_changes_nothing(
    one: Flow, capsys: pytest.CaptureFixture[str], words: tuple[str, str], mode: str
) -> None:
    before, versions = addresses(one), {n: find_version(one.settings.home, n).version for n in names(one.settings.home)}
    difference = told(one, capsys, *words, "--mode", mode)
    if mode == "recompute":
        one.run()
    after = addresses(one)
    assert difference == {n: (before[n] - after[n], after[n] - before[n]) for n in before}
    assert any(lost for lost, _ in difference.values())
    log = (one.lake.root / "withdrawn.jsonl").read_bytes()
    assert not any(lost or gained for lost, gained in told(one, capsys, *words, "--mode", mode).values())
    assert (one.lake.root / "withdrawn.jsonl").read_bytes() == log
    one.run()
    assert addresses(one) == after
    back = told(one, capsys, *words, "--undo")
    assert in_force(one.lake) == ()
    one.run()
    assert {n: find_version(one.settings.home, n).version for n in versions} == versions
    assert back == {n: (after[n] - before[n], before[n] - after[n]) for n in before}


def test_withdrawn_twice_is_withdrawn_once_and_one_undo_ends_it(one: Flow) -> None:
    """Older logs hold lines twice."""
    note(one.lake, Withdrawal("first", run="r1"))
    note(one.lake, Withdrawal("second", run="r1"))
    assert [entry.reason for entry in in_force(one.lake)] == ["first"]
    assert withdraw(one, "--run", "r1", "--undo") == 0
    assert in_force(one.lake) == ()
    assert withdraw(one, "--run", "r1", "--undo") == 1


def test_what_nobody_is_is_told(one: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--trace", "nobody"), ("--run", "r3"), ("--grader", "exact@2")):
        assert withdraw(one, *words) == 0
        assert "no rollout that was read is of" in capsys.readouterr().err
    assert withdraw(one, "--grader", "exact") == 0
    assert "no rollout that was read is of" not in capsys.readouterr().err


def test_an_excision_takes_what_was_withdrawn_before_and_not_refreshed_yet(one: Flow) -> None:
    assert withdraw(one, "--run", "r2") == 0
    assert withdraw(one, "--trace", "a-0", "--mode", "excise") == 0
    for name in names(one.settings.home):
        assert not [t for t in traces(one, name) if "a-0" in t or t[0].startswith("b-")]
    one.run()
    assert traces(one, "sft_dataset") == {("a-1",)}  # the withdrawal of r2 asked for other statistics
    assert fate(one, "sft_dataset", "b-0")["reason"] == "withdrawn"


def test_an_excision_of_an_older_state_hides_no_news(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts that came since the datasets were made count at the next refresh."""
    one = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": group("c", (1.0, 0.4), 60)})
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    one.run()
    lines = one.root.parent / "verdicts.jsonl"
    lines.write_text(json.dumps({"trace_id": "c-0", "verdict": "fail", "reward": 0.0, "grader": "ann"}) + "\n")
    monkeypatch.setenv("FLYWHEEL_GRADING__VERDICTS", json.dumps([str(lines)]))
    assert withdraw(one, "--trace", "a-0", "--mode", "excise") == 0
    assert traces(one, "sft_dataset") == {("c-0",)}
    again = Flow(one.root, one.settings.home, grading={"verdicts": [str(lines)]})
    again.run()
    assert ("c-0",) not in traces(again, "sft_dataset")


def test_an_excision_keeps_the_order_and_the_repeats_of_a_mix(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    mix = {"column": "grader", "target": {"exact": 0.5, "judge": 0.5}, "shortage": "upsample(3)"}
    rows = [trace(f"e-{i}", f"e-{i}", 1.0, i) for i in range(6)]
    rows += [trace(f"j-{i}", f"j-{i}", 1.0, 40 + i, grader="judge") for i in range(2)]
    one = flow({"r1": rows}, mix=mix)
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    monkeypatch.setenv("FLYWHEEL_MIX", json.dumps(mix))
    one.run()
    before = [p.trace_ids for p in provenance(find_version(one.settings.home, "balanced_mix"))]
    assert len(before) > len(set(before))
    assert withdraw(one, "--trace", "j-0", "--mode", "excise") == 0
    version = find_version(one.settings.home, "balanced_mix")
    after = [p.trace_ids for p in provenance(version)]
    assert after == [t for t in before if t != ("j-0",)]
    assert ("j-1",) in after
    assert version.manifest["facts"]["excised"] == len(before) - len(after)
    assert f"{len(before) - len(after)} rows were taken out" in (version.path / "README.md").read_text()
    assert withdraw(one, "--trace", "e-0", "--mode", "excise") == 0
    one.run()
    assert find_version(one.settings.home, "balanced_mix").rows == len([t for t in after if t != ("e-0",)])


def test_the_card_of_an_excision_counts_what_is_left(one: Flow) -> None:
    assert withdraw(one, "--trace", "a-0", "--mode", "excise") == 0
    assert withdraw(one, "--trace", "b-3", "--mode", "excise") == 0
    pairs = find_version(one.settings.home, "dpo_dataset")
    assert pairs.rows == 0
    assert "pairs" not in pairs.manifest["facts"]
    assert pairs.manifest["facts"]["excised"] == 2
    sft = find_version(one.settings.home, "sft_dataset").manifest["facts"]
    assert sft["kinds"] == {"sft": 1}
