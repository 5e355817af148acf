"""Goldens over the whole flow: pinned, redacted alike, and loud where the collection is the eval set itself."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import Flow, group, sentence, trace, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.curation.holdout import fingerprint
from trace_flywheel.flow import datasets, golden_files
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.inputs import SideInputs, side_inputs
from trace_flywheel.flow.watch import side_inputs_now
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version, provenance
from trace_flywheel.lake.goldens import KnownFile
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources.discover import discover

MakeFlow = Callable[..., Flow]


def listed(home: Any, capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    capsys.readouterr()
    assert main(["datasets", *words, "--json", "--home", str(home)]) == 0
    return list(json.loads(capsys.readouterr().out))


def test_a_version_pins_its_golden_files_in_manifest_and_card(flow: MakeFlow) -> None:
    one = flow({"r": group("a", (1.0, 0.0), 1)}, [{"task_id": "z"}])
    made = one.run()["sft_dataset"]
    mark = fingerprint(one.root / "eval" / "goldens.jsonl")
    assert len(mark) == 12
    manifest = json.loads((made.path / "manifest.json").read_text())
    assert manifest["inputs"]["golden_files"] == {"eval/goldens.jsonl": mark}
    assert f"- `eval/goldens.jsonl`: `{mark}`" in (made.path / "README.md").read_text()


def test_other_goldens_make_a_version_stale_until_it_is_checked_again(
    flow: MakeFlow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flow({"r": [*group("a", (1.0, 0.0), 1), *group("b", (1.0,), 20)]}, [{"task_id": "z"}])
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([os.fspath(one.root)]))
    one.run()
    assert {d["stale"] for d in listed(one.settings.home, capsys)} == {False}
    write_runs(one.root, {}, [{"task_id": "b"}])
    assert {d["stale"] for d in listed(one.settings.home, capsys)} == {True}
    assert main(["datasets", "--home", str(one.settings.home)]) == 0
    assert "stale: goldens changed" in capsys.readouterr().out
    one.run()
    assert [d["stale"] for d in listed(one.settings.home, capsys, "sft_dataset")] == [False, True]
    assert [d["stale"] for d in listed(one.settings.home, capsys, "dpo_dataset")] == [False, True]


def test_a_golden_that_is_told_again_changes_nothing_and_makes_nothing_stale(
    flow: MakeFlow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [{"task_id": "z"}, {"task_id": "y", "prompt": sentence(7)}]
    one = flow({"r": [*group("a", (1.0, 0.0), 1), *group("b", (1.0,), 20)]}, held)
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([os.fspath(one.root)]))
    before = one.run()["sft_dataset"].version
    write_runs(one.root, {}, [held[1], *held])
    assert {d["stale"] for d in listed(one.settings.home, capsys)} == {False}
    assert one.run()["sft_dataset"].version == before
    write_runs(one.root, {}, [held[1], held[1]])
    assert {d["stale"] for d in listed(one.settings.home, capsys)} == {True}


def test_without_roots_nobody_can_say(flow: MakeFlow, capsys: pytest.CaptureFixture[str]) -> None:
    one = flow({"r": group("a", (1.0, 0.0), 1)})
    one.run()
    assert {d["stale"] for d in listed(one.settings.home, capsys)} == {None}


def test_a_golden_passes_the_same_redactor_before_it_is_compared(flow: MakeFlow) -> None:
    """Without it each address would be a placeholder on one side only and cut the statement's n-grams apart."""
    mail = "".join(("ann.lee", "@", "corpmail.net"))
    statement = " ".join(f"{sentence(60 + i, 5)} write to {mail}" for i in range(6))
    leak = trace("leak", "other", 1.0, 3)
    leak["messages"][0]["content"] = statement
    one = flow(
        {"r": [leak, *group("a", (1.0, 0.0), 9)]}, [{"task_id": "x", "prompt": statement}], redaction={"pii": "all"}
    )
    made = one.run()["sft_dataset"]
    assert made.ledger.dropped["golden"] == {"golden_near_duplicate": 1}
    (fate,) = [
        f for f in fates_of(find_version(one.settings.home, "sft_dataset")).to_pylist() if f["trace_id"] == "leak"
    ]
    assert json.loads(fate["evidence"])["share"] == 1.0


def test_a_collection_that_is_mostly_the_eval_set_is_told_loudly(
    flow: MakeFlow, capsys: pytest.CaptureFixture[str]
) -> None:
    one = flow({"r": [*group("z", (1.0, 0.5, 0.0), 1), *group("a", (1.0, 0.0), 20)]}, [{"task_id": "z"}])
    made = one.run()["dpo_dataset"]
    told = "3 of 5 rollouts are held out as goldens: these runs seem to be the eval set itself."
    assert told in (made.path / "README.md").read_text()
    assert main(["ledger", "dpo_dataset", "--home", str(one.settings.home)]) == 0
    assert told in capsys.readouterr().out
    half = flow({"r": [*group("z", (1.0,), 1), *group("a", (1.0,), 20)]}, [{"task_id": "z"}], at="half", name="other")
    assert not any("held out" in warning for warning in half.run()["sft_dataset"].facts["warnings"])


def refresh(home: Path, *words: str) -> int:
    return main(["refresh", "--home", str(home), "--json", *words])


def dropped_for(home: Path) -> set[tuple[str, str | None]]:
    rows = fates_of(find_version(home, "sft_dataset")).to_pylist()
    return {(row["trace_id"], row["reason"]) for row in rows if row["stage"] == "golden"}


def test_a_home_still_holds_out_goldens_that_are_out_of_sight(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evals = write_runs(tmp_path / "evals", {"r": [trace("held-0", "held", 1.0, 1)]}, [{"task_id": "held"}])
    jobs = write_runs(tmp_path / "jobs", {"s": [trace("other-0", "other", 1.0, 2), trace("held-9", "held", 1.0, 3)]})
    home = tmp_path / "home"
    assert refresh(home, "--root", str(evals)) == 0
    assert dropped_for(home) == {("held-0", "golden_id")}

    # another root alone: the first one's goldens hold out from both
    assert refresh(home, "--root", str(jobs)) == 0
    both = {("held-0", "golden_id"), ("held-9", "golden_id")}
    assert dropped_for(home) == both

    # the file is deleted: its last known goldens hold out, and that is told
    (evals / "eval" / "goldens.jsonl").unlink()
    capsys.readouterr()
    assert refresh(home, "--root", str(evals), "--root", str(jobs)) == 0
    assert "goldens.jsonl" in (err := capsys.readouterr().err)
    assert "1 goldens are still held out" in err
    assert dropped_for(home) == both
    assert (home / "lake" / "goldens.json").stat().st_mode & 0o777 == 0o600

    # forgotten by name
    config = tmp_path / "flywheel.toml"
    config.write_text('[goldens]\nforget = ["evals/eval/goldens.jsonl"]\n')
    assert refresh(home, "--root", str(evals), "--root", str(jobs), "--config", str(config)) == 0
    assert dropped_for(home) == set()


def test_what_all_tasks_ask_is_no_golden_and_an_alias_is(flow: MakeFlow) -> None:
    """A harness preamble that the golden has too must not hold out everything that was ever run."""
    preamble, asked = sentence(90, 60), {t: sentence(91 + i, 20) for i, t in enumerate("abcdef")}

    def said(task: str, seed: int) -> dict[str, Any]:
        row = trace(f"{task}-0", task, 1.0, seed)
        row["messages"][0]["content"] = f"{preamble} {asked[task]}"
        return row

    goldens = [{"task_id": "g", "prompt": f"{preamble} {asked['a']}"}, {"task_id": "h", "aliases": ["f"]}]
    rows = [said(task, 10 * i) for i, task in enumerate("abcdef")]
    rows.append({**said("a", 77), "trace_id": "leak-1", "task_id": "another"})
    made = flow({"r": rows}, goldens).run()
    for name in ("sft_dataset", "rl_dataset"):
        fates = fates_of(find_version(made[name].path.parents[2], name)).to_pylist()
        held = {f["trace_id"]: (f["reason"], json.loads(f["evidence"])) for f in fates if f["stage"] == "golden"}
        assert {t: reason for t, (reason, _) in held.items()} == {
            "a-0": "golden_near_duplicate",
            "leak-1": "golden_near_duplicate",
            "f-0": "golden_id",
        }
        assert held["leak-1"][1] | {"path": ""} == {
            "golden": "g", "suite": None, "path": "", "line": 1, "side": "statement", "share": 1.0, "overlap": 0.5
        }  # fmt: skip
        assert held["f-0"][1]["alias"] == "f"


def test_few_tasks_with_one_preamble_are_held_out_rather_than_leaked(flow: MakeFlow) -> None:
    preamble = sentence(90, 60)
    row = trace("b-0", "b", 1.0, 1)
    row["messages"][0]["content"] = f"{preamble} {sentence(92, 20)}"
    made = flow({"r": [row]}, [{"task_id": "g", "prompt": f"{preamble} {sentence(91, 20)}"}]).run()
    assert made["sft_dataset"].ledger.dropped["golden"] == {"golden_near_duplicate": 1}


def test_a_golden_file_that_broke_and_then_went_still_holds_out(flow: MakeFlow) -> None:
    one = flow({"r": [*group("a", (1.0, 0.0), 1), *group("b", (1.0,), 20)]}, [{"task_id": "b"}, {"task_id": "c"}])
    known: dict[str, KnownFile] = {}

    def now() -> tuple[list[str], SideInputs]:
        runs = discover(one.settings.roots).runs
        found = side_inputs(runs, one.settings, known)
        known.clear()
        known.update(found.known)
        return sorted(golden.task_id for golden in found.goldens), found

    file = one.root / "eval" / "goldens.jsonl"
    assert now()[0] == ["b", "c"]
    file.write_text('{"task_id": "b"}\n{broken\n')
    held, found = now()
    assert held == ["b", "c"]
    with pytest.raises(FlywheelError):
        found.require_all()
    file.unlink()
    held, found = now()
    assert held == ["b", "c"]
    found.require_all()
    file.write_text('{"task_id": "b"}\n')
    assert now()[0] == ["b"]  # what is taken out of a file that can be read is let go


def over(one: Flow) -> SideInputs:
    """Side inputs with what the home knows, which it knows from now on, as every pass looks at them."""
    return side_inputs_now(one.settings)


def test_goldens_that_change_while_datasets_are_made_are_published_by_nobody(
    flow: MakeFlow,
) -> None:
    one = flow({"r": [*group("a", (1.0, 0.0), 1), *group("b", (1.0, 0.0), 9)]}, [{"task_id": "a"}])
    one.run()
    file = one.root / "eval" / "goldens.jsonl"
    whole = file.read_bytes()
    write_runs(one.root, {"more": group("c", (1.0, 0.0), 30)})
    one.ingest()
    file.write_bytes(b"")  # who writes it anew has just begun
    curation = Curation(one.lake, one.settings, over(one))
    file.write_bytes(whole)
    before = find_version(one.lake.home, "sft_dataset").version
    with pytest.raises(FlywheelError, match="changed while datasets were made; nothing is published"):
        datasets.sft_dataset(curation)
    assert find_version(one.lake.home, "sft_dataset").version == before
    made = datasets.sft_dataset(Curation(one.lake, one.settings, over(one)))
    rows = provenance(find_version(one.lake.home, made.name))
    assert {row.task_id for row in rows} == {"b", "c"}


def test_goldens_written_anew_with_the_same_words_or_gone_are_no_change(flow: MakeFlow) -> None:
    one = flow({"r": [*group("a", (1.0, 0.0), 1), *group("b", (1.0, 0.0), 9)]}, [{"task_id": "a"}])
    one.ingest()
    file = one.root / "eval" / "goldens.jsonl"
    seen = over(one)
    file.write_bytes(file.read_bytes())
    os.utime(file, (1, 1))
    seen.require_unchanged()
    file.unlink()
    seen.require_unchanged()
    file.mkdir()
    seen.require_unchanged()


def test_a_golden_file_that_goes_while_it_is_read_still_holds_out(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flow({"r": group("a", (1.0, 0.0), 1)}, [{"task_id": "a"}])
    one.ingest()
    assert [golden.task_id for golden in over(one).goldens] == ["a"]
    real = golden_files.read_goldens

    def gone(path: Path) -> Any:
        path.unlink()
        return real(path)

    monkeypatch.setattr(golden_files, "read_goldens", gone)
    assert [golden.task_id for golden in over(one).goldens] == ["a"]
    monkeypatch.undo()
    assert [golden.task_id for golden in over(one).goldens] == ["a"]


def test_a_golden_file_that_is_written_to_while_it_is_read_is_read_again_and_else_nothing_is_published(
    flow: MakeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = flow({"r": group("a", (1.0, 0.0), 1)}, [{"task_id": "a"}])
    file, real, left = one.root / "eval" / "goldens.jsonl", golden_files.read_goldens, [1]

    def moving(path: Path) -> Any:
        lines = list(real(path))
        if left[0]:
            left[0] -= 1
            with file.open("a") as stream:
                stream.write('{"task_id": "a"}\n')
        return lines

    monkeypatch.setattr(golden_files, "read_goldens", moving)
    seen = over(one)
    seen.require_all()
    assert len(seen.goldens) == 2
    left[0] = 9
    with pytest.raises(FlywheelError, match="source_changed"):
        over(one).require_all()
