"""What was erased comes back from no copy, whatever its run, names and bytes, and an erased value in no rollout."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import Flow, Row, group, sentence, trace, write_runs
from tests.flow.test_purge import left, purge
from trace_flywheel.cli.main import main
from trace_flywheel.flow import export as exporting
from trace_flywheel.flow.why import why
from trace_flywheel.lake import dataset
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version, provenance
from trace_flywheel.lake.quarantine import quarantines

MakeFlow = Callable[..., Flow]


@pytest.fixture(params=[True, False], ids=["raw text kept", "no raw text"])
def one(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Flow:
    lake = {"keep_raw": request.param}
    made = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": [trace("a-0", "b", 1.0, 50)]}, lake=lake)
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(made.root)]))
    monkeypatch.setenv("FLYWHEEL_LAKE__KEEP_RAW", str(request.param).lower())
    made.run()
    return made


def renamed(row: Row, trace_id: str, task_id: str) -> Row:
    """The same words under other names, keys in another order."""
    turned = [dict(reversed(message.items())) for message in row["messages"]]
    return dict(reversed({**row, "trace_id": trace_id, "task_id": task_id, "messages": turned}.items()))


def rollouts(one: Flow, name: str = "rl_dataset") -> list[tuple[str, str]]:
    version = find_version(one.settings.home, name)
    return sorted((p.run_id.rsplit("/", 1)[-1], p.trace_ids[0]) for p in provenance(version))


def test_no_copy_brings_back_what_was_erased(one: Flow) -> None:
    assert purge(one, "--trace", "a-1") == 0
    runs = one.root / "runs"
    shutil.copytree(runs / "r1", runs / "r1-again")
    (runs / "r1").rename(runs / "elsewhere")
    rows = [renamed(trace("x", "a", 0.9, 2), "copy-x1", "c"), trace("new", "c", 0.1, 60)]
    write_runs(one.root, {"r3": rows, "r4": [{**trace("x", "a", 0.9, 2), "trace_id": "y", "task_id": "d"}]})
    (runs / "r3" / "results.json").write_text(json.dumps(rows, indent=4, ensure_ascii=True))
    made = one.run()
    assert left(one, sentence(2)) == []
    assert left(one, sentence(3))
    assert left(one, sentence(60))
    # r1 (still in the lake), its copy, its new name, r3 and r4 each lose one
    assert made["rl_dataset"].ledger.dropped["read"] == {"purged": 5}
    assert made["rl_dataset"].ledger.entered == made["rl_dataset"].ledger.kept + sum(
        n for reasons in made["rl_dataset"].ledger.dropped.values() for n in reasons.values()
    )
    assert quarantines(one.lake) == ()
    assert one.pending().todo == ()
    (fate, *_) = [f for f in why(one.lake, "copy-x1") if f["dataset"] == "rl_dataset"]
    assert (fate["stage"], fate["reason"]) == ("read", "purged")
    assert fate["evidence"]["by"] == "content"
    assert fate["evidence"]["reason"] == "request 17"
    assert left(one, '"copy-x1"') == []
    (first,) = [f for f in why(one.lake, "a-1", "r1") if f["dataset"] == "rl_dataset"]
    assert first["evidence"]["by"] == "address"


def test_copies_that_stand_already_go_too_and_are_shown_first(flow: MakeFlow, monkeypatch: Any, capsys: Any) -> None:
    rows = {"r1": group("a", (1.0, 0.0), 1), "r2": [trace("z", "b", 1.0, 1), trace("w", "b", 1.0, 70)]}
    rows["r1"][0]["messages"][0] = rows["r2"][0]["messages"][0]
    one = flow(rows)
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(one.root)]))
    one.run()
    assert purge(one, "--trace", "a-0", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 rollouts to erase\n")
    assert "- data/runs/r1/a-0\n" in shown or "- data/runs/r2/z\n" in shown
    assert purge(one, "--trace", "a-0") == 0
    assert left(one, sentence(1)) == []
    assert left(one, sentence(70))
    assert len((one.lake.root / "purged.jsonl").read_text().splitlines()) == 2


def test_a_value_that_was_erased_enters_in_no_spelling(one: Flow, tmp_path: Path, capsys: Any) -> None:
    value = 'Zoë "Quill" Ångström\nof 12 Elm'
    file = tmp_path / "value.txt"
    file.write_text(value + "\n")
    assert purge(one, "--value-from", str(file), "--dry-run") == 0
    assert not (one.lake.root / "purged.jsonl").exists()
    assert purge(one, "--value-from", str(file)) == 0
    kept = (one.lake.root / "purged.jsonl").read_text()
    assert "Quill" not in kept
    assert "ngstr" not in kept

    def said(trace_id: str, text: Any, **more: Any) -> Row:
        row = trace(trace_id, "v", 1.0, 80 + len(trace_id), **more)
        row["messages"][1] |= {"content": text} if isinstance(text, str) else text
        return row

    call = {"id": "c", "function": {"name": "find", "arguments": json.dumps({"who": [value]})}}
    nfd = 'Zoe\u0308 "Quill" A\u030angstro\u0308m\nof 12 Elm'
    rows = [
        said("plain", f"Ask {value}."),
        said("nfd", f"Ask {nfd}."),
        said("quoted", json.dumps({"name": value})),
        said("inside", "It said " + json.dumps({"name": value}, ensure_ascii=False)),
        said("call", {"content": None, "tool_calls": [call]}),
        said("meta", "Nothing here.", metadata={"note": value}),
        said("near", "Ask Zoë Quill."),
    ]
    write_runs(one.root, {"r5": rows})
    one.run()
    assert left(one, "Ångström") == []
    assert left(one, "ngstr") == []
    assert {t for r, t in rollouts(one) if r == "r5"} <= {"near", "meta"}
    shown = capsys.readouterr()
    assert "Quill" not in shown.out + shown.err


def test_corrections_bring_no_erased_value_in(one: Flow, tmp_path: Path) -> None:
    file = tmp_path / "value.txt"
    file.write_text("marzipan-4711\n")
    assert purge(one, "--value-from", str(file)) == 0
    fixes = tmp_path / "fixes.jsonl"
    fixes.write_text(json.dumps({"trace_id": "a-3", "content": "Say marzipan-4711 now.", "corrected_by": "ann"}) + "\n")
    again = Flow(one.root, one.settings.home, lake={"keep_raw": one.settings.lake.keep_raw}, corrections=[str(fixes)])
    made = again.run()
    assert left(one, "marzipan") == []
    assert made["sft_dataset"].ledger.dropped["read"] == {"purged": 1}


def test_what_quotes_the_value_goes_with_it(one: Flow, tmp_path: Path) -> None:
    """Drops quote the rows that they could not read, and so do quarantines."""
    broken = trace("bad", "a", 1.0, 90)
    broken["messages"][1]["tool_calls"] = [{"id": "c", "function": {"name": "f", "arguments": '{"a": marzipan-4711'}}]
    write_runs(one.root, {"r6": [broken, trace("good", "a", 0.5, 91)], "r7": [broken]})
    one.run()
    file = tmp_path / "value.txt"
    file.write_text("marzipan-4711\n")
    assert purge(one, "--value-from", str(file)) == 0
    assert left(one, "marzipan") == []
    one.run()
    assert left(one, "marzipan") == []


def test_exports_below_the_home_go_too(one: Flow) -> None:
    home = one.settings.home
    for name, source in (("mine", "sft_dataset"), ("pairs", "dpo_dataset")):
        layout = "trl-sft" if name == "mine" else "trl-dpo"
        out = str(home / "exports" / name)
        assert main(["export", source, "--format", layout, "--out", out, "--home", str(home)]) == 0
    away = str(home.parent / "away")
    assert main(["export", "sft_dataset", "--format", "trl-sft", "--out", away, "--home", str(home)]) == 0
    assert purge(one, "--trace", "a-3") == 0
    assert left(one, sentence(4)) == []
    assert (home / "exports" / "mine").is_dir() == all(sentence(4) not in p.read_text() for p in home.rglob("*.jsonl"))
    assert not (home / "exports" / "pairs").exists()
    assert Path(away).is_dir()


def test_a_refresh_tells_of_an_erasure_that_was_killed(one: Flow, capsys: Any) -> None:
    (one.lake.root / "purging").write_text("")
    assert main(["refresh", "--home", str(one.settings.home)]) == 0
    assert "an erasure was killed" in capsys.readouterr().err
    assert purge(one, "--trace", "a-3") == 0
    capsys.readouterr()
    assert main(["refresh", "--home", str(one.settings.home)]) == 0
    assert "an erasure was killed" not in capsys.readouterr().err


def test_a_prompt_without_an_answer_is_nobody_s_own(one: Flow) -> None:
    """Attempts that failed before their first answer say the same; erasing one erases no other, a value does."""
    prompt = {"role": "user", "content": "Mend the frobnicator of gate 7."}
    silent = [
        {**trace(name, "s", 0.0, 1), "messages": [prompt, *more]}
        for name, more in (
            ("s-0", []),
            ("s-1", []),
            ("s-2", [{"role": "assistant", "content": ""}]),
            ("s-3", [{"role": "assistant", "content": " "}]),
        )
    ]
    write_runs(one.root, {"r8": silent, "r9": [{**silent[i], "trace_id": f"t-{i}"} for i in (0, 3)]})
    one.run()
    assert purge(one, "--trace", "s-0") == 0
    assert purge(one, "--trace", "s-3") == 0
    one.run()
    names = {f["trace_id"] for f in fates_of(find_version(one.settings.home, "rl_dataset")).to_pylist()}
    assert {"s-1", "s-2", "t-0", "t-3"} <= names
    assert not {"s-0", "s-3"} & names
    file = one.root.parent / "value.txt"
    file.write_text("frobnicator of gate 7\n")
    assert purge(one, "--value-from", str(file)) == 0
    assert left(one, "frobnicator") == []


def test_an_export_that_an_erasure_overtakes_is_not_left(
    one: Flow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows were read before; it takes its name when the erasure has looked for exports already."""
    home = one.settings.home
    words = ["export", "sft_dataset", "--format", "messages", "--out", str(home / "mine"), "--home", str(home)]
    version = find_version(home, "sft_dataset")
    real = exporting.settle

    def overtaken(folder: Path, final: Path) -> None:
        dataset.remove(version.path)
        real(folder, final)

    monkeypatch.setattr(exporting, "settle", overtaken)
    assert main(words) == 1
    assert "removed while it was exported" in capsys.readouterr().err
    assert not list(home.rglob("mine*"))
    assert not list(home.glob(".tmp-*"))
