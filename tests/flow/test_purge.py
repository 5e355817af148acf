"""Erasure: no byte of the text and no name is left below the home, and nothing else is lost."""

import json
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, group, sentence, trace
from trace_flywheel.cli.main import main
from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version, names, provenance, remove, versions

MakeFlow = Callable[..., Flow]


@pytest.fixture
def one(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> Flow:
    made = flow({"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": [trace("a-0", "b", 1.0, 50)]})
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(made.root)]))
    made.run()
    return made


def purge(one: Flow, *words: str) -> int:
    return main(["purge", *words, "--reason", "request 17", "--home", str(one.settings.home)])


def left(one: Flow, text: str) -> list[str]:
    """Files below the home that hold a text, in tables or outside."""
    found = []
    for path in sorted(p for p in one.settings.home.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data = json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
        if text.encode() in data:
            found.append(path.relative_to(one.settings.home).as_posix())
    return found


def test_a_trace_of_a_run_is_erased_and_its_namesake_stays(one: Flow) -> None:
    secret = sentence(1)
    assert left(one, secret)
    assert purge(one, "--trace", "a-0", "--run", "r1") == 0
    assert left(one, secret) == []
    assert left(one, sentence(50))
    for name in names(one.settings.home):
        version = find_version(one.settings.home, name)
        assert not [p for p in provenance(version) if p.run_id.endswith("r1") and "a-0" in p.trace_ids]
        fates = fates_of(find_version(one.settings.home, name)).to_pylist()
        assert len(fates) == 5
        assert [f["reason"] for f in fates if f["trace_id"] is None] == ["purged"]
    assert {
        f["trace_id"] for f in fates_of(find_version(one.settings.home, "sft_dataset")).to_pylist() if f["kept"]
    } == {"a-0", "a-1"}
    (stone,) = [json.loads(line) for line in (one.lake.root / "purged.jsonl").read_text().splitlines()]
    assert set(stone) == {"address", "run_id", "content", "reason", "row"}
    assert "a-0" not in json.dumps(stone)


def test_what_was_erased_is_not_read_back_and_the_rest_needs_no_work(one: Flow) -> None:
    assert purge(one, "--trace", "a-1") == 0
    assert one.pending().todo == ()
    after = one.run()
    assert {made.status for name, made in after.items() if name != "balanced_mix"} == {"unchanged"}
    results = one.root / "runs" / "r1" / "results.json"
    results.write_text(results.read_text() + " ")
    again = one.run()
    assert left(one, sentence(2)) == []
    assert again["rl_dataset"].ledger.dropped["read"] == {"purged": 1}
    assert again["rl_dataset"].ledger.entered == 5
    assert again["rl_dataset"].rows == 3  # no group is withheld for an erased member, and b is alone


def test_a_value_is_erased_wherever_it_stands_and_never_shown(
    one: Flow, tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    file = one.root.parent / "value.txt"
    file.write_text(sentence(3).split()[4] + "\n")
    assert purge(one, "--value-from", str(file)) == 0
    assert left(one, file.read_text().strip()) == []
    shown = capsys.readouterr()
    assert file.read_text().strip() not in shown.out + shown.err
    assert "\n1 rollouts erased; " in shown.out


def test_a_version_without_a_row_of_it_stays_and_forgets_the_name(one: Flow) -> None:
    before = find_version(one.settings.home, "sft_dataset").version
    assert purge(one, "--trace", "a-2") == 0
    found = {v.version: v for v in versions(one.settings.home, "sft_dataset")}
    assert len(found) == 2
    fates = pq.read_table(found[before].path / "fates.parquet")["trace_id"].to_pylist()
    assert sorted(fates, key=str) == [None, "a-0", "a-0", "a-1", "a-3"]
    assert left(one, '"a-2"') == []


def test_usage_and_nothing_found(one: Flow, capsys: pytest.CaptureFixture[str]) -> None:
    assert purge(one) == 2
    assert purge(one, "--trace", "a", "--value-from", "x") == 2
    assert purge(one, "--run", "r1") == 2
    capsys.readouterr()
    assert purge(one, "--trace", "nobody") == 1
    assert "no rollout in the lake fits" in capsys.readouterr().err
    short = one.root.parent / "short.txt"
    short.write_text("abc\n")
    assert purge(one, "--value-from", str(short)) == 1
    assert not (one.lake.root / "purged.jsonl").exists()


def test_removing_versions_moves_latest_and_ends_with_none(one: Flow) -> None:
    version = find_version(one.settings.home, "kto_dataset")
    remove(version.path)
    assert "kto_dataset" not in names(one.settings.home)


def test_the_rows_that_change_are_shown_first_and_a_dry_run_stops_there(
    one: Flow, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name: find_version(one.settings.home, name).version for name in names(one.settings.home)}
    (sft,) = [p for p in provenance(find_version(one.settings.home, "sft_dataset")) if p.task_id == "a"]
    trace_id, run = sft.trace_ids[0], sft.run_id
    capsys.readouterr()
    assert purge(one, "--trace", trace_id, "--run", run, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 rollouts to erase\n")
    assert f"sft_dataset: 1 rows go, 1 come\n  - {run}/{trace_id}\n  + {run}/" in shown
    assert {name: find_version(one.settings.home, name).version for name in names(one.settings.home)} == before
    assert not (one.lake.root / "purged.jsonl").exists()
    assert purge(one, "--trace", trace_id, "--run", run) == 0
    assert capsys.readouterr().out.startswith(shown)
    now = {f"{p.run_id}/{p.trace_ids[0]}" for p in provenance(find_version(one.settings.home, "sft_dataset"))}
    come = shown.partition("sft_dataset:")[2].partition("  + ")[2].splitlines()[0]
    assert come in now
    assert f"{run}/{trace_id}" not in now
