"""A version whose rows were copied from the one before is the version that is made from nothing, byte for byte."""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.flow.conftest import Flow, Row, trace, write_runs
from tests.flow.test_spread import DATASETS, answers, corpus, published
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import datasets, pieces, reused, row_keys
from trace_flywheel.flow.erasable import find_trace
from trace_flywheel.flow.publish import layouts_for
from trace_flywheel.flow.purge import purge
from trace_flywheel.flow.row_keys import shared
from trace_flywheel.lake import lines
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.lake.index import LINES
from trace_flywheel.lake.pointers import pointers
from trace_flywheel.lake.store import Lake
from trace_flywheel.lake.withdrawn import note
from trace_flywheel.records.grading import Withdrawal
from trace_flywheel.settings import Settings

OPTIONS: dict[str, Any] = {
    "mix": {"shortage": "renormalize"},
    "pairs": {"min_group": 2},
    "splits": {"eval": 0.3},
    "ingest": {"workers": 1},
}


def flow_of(folder: Path, **more: Any) -> Flow:
    return Flow(folder / "data", folder / "home", **{**OPTIONS, **more})


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of job folders and the home that published them."""
    folder = tmp_path_factory.mktemp("before")
    write_runs(folder / "data", finished(corpus(), "2026-01-05T00:00:00Z"), [{"task_id": "held"}])
    flow_of(folder).run()
    return folder


def finished(runs: dict[str, list[Row]], at: str) -> dict[str, list[Row]]:
    """The attempts, ended at a time, but for two tasks whose attempts are told apart by having none."""
    told = {"finished_at": at}
    return {
        run: [r if r["task_id"] in ("twin", "other") else {**r, **told} for r in rows] for run, rows in runs.items()
    }


@pytest.fixture
def home(before: Path, tmp_path: Path) -> Path:
    """The same, to be changed: its folders keep their times, by which they are known."""
    shutil.copytree(before, tmp_path / "now", symlinks=True)
    return tmp_path / "now"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The dataset of each row that was made from its text."""
    seen: list[str] = []

    def counted(make: Any) -> Any:
        def one(draft: Any, *rest: Any) -> Iterator[Any]:
            for row in make(draft, *rest):
                seen.append(draft.name)
                yield row

        return one

    for name in ("_finished", "_finished_here"):
        monkeypatch.setattr(datasets, name, counted(getattr(datasets, name)))
    return seen


def anew(flow: Flow) -> dict[str, bytes]:
    """What the same lake publishes where nothing was published before."""
    lines.forget(flow.lake)
    shutil.rmtree(flow.settings.home / "datasets")
    flow.run()
    return published(flow.settings.home)


def assert_as_anew(flow: Flow) -> None:
    copied = published(flow.settings.home)
    assert anew(flow) == copied


def test_rows_are_found_however_few_are_looked_for_at_a_time(
    home: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pieces, reused, row_keys):
        monkeypatch.setattr(module, "BLOCK", 2)
    write_another(home)
    flow = flow_of(home)
    flow.run()
    assert Counter(made) == {"sft_dataset": 1, "dpo_dataset": 2, "kto_dataset": 2, "rl_dataset": 4, "rl_prompts": 1}
    assert_as_anew(flow)


def write_another(home: Path) -> None:
    """One run more, of a task of its own."""
    write_runs(home / "data", {"r9": answers("t9", (1.0, 0.5, 0.2, 0.0), 900)})


class Case(NamedTuple):
    """What changes, and the rows that are made again: of SFT, pairs, unpaired answers, RL, prompts."""

    name: str
    made: tuple[int, int, int, int, int] | None
    """None: all of them. Of pairs always one is, which says what another says and never had lines."""
    change: Callable[[Path], None] = lambda _: None
    options: dict[str, Any] = {}


def more(run: str, *rows: Any) -> Callable[[Path], None]:
    return lambda folder: write_runs(folder / "data", {run: list(rows)}) and None


def later(folder: Path) -> None:
    rows = answers("t9", (1.0, 0.5, 0.2, 0.0), 900)
    write_runs(folder / "data", finished({"r9": rows}, "2026-01-09T12:00:00Z"))


def grown(folder: Path) -> None:
    """A run has one more rollout, of a task of its own."""
    path = folder / "data" / "runs" / "r1" / "results.json"
    path.write_text(json.dumps([*json.loads(path.read_text()), trace("late", "late", 1.0, 77)]))


def withdrawn(folder: Path) -> None:
    note(Lake(folder / "home"), Withdrawal("asked", trace="t2-0"))


def leaked(folder: Path) -> None:
    """A golden that says what an attempt says."""
    said = corpus()["r2"][1]["messages"]
    golden = {"task_id": "else", "prompt": said[0]["content"], "answer": said[1]["content"]}
    write_runs(folder / "data", {}, [{"task_id": "held"}, golden])


def regraded(folder: Path) -> None:
    line = {"trace_id": "t0-4", "run_id": "r0", "verdict": "pass", "reward": 0.9, "grader": "ann"}
    (folder / "verdicts.jsonl").write_text(json.dumps(line) + "\n")


CASES = [
    Case("a run comes", (1, 2, 2, 4, 1), more("r9", *answers("t9", (1.0, 0.5, 0.2, 0.0), 900))),
    Case("a run comes whose attempts are of known tasks", (0, 1, 1, 1, 1), more("r9", *answers("wide", (0.9,), 800))),
    Case("a run grows", (2, 2, 5, 6, 1), grown),
    Case("a trace is withdrawn", (1, 2, 0, 0, 1), withdrawn),
    Case("a run is read no more", (0, 1, 0, 0, 0), lambda folder: shutil.rmtree(folder / "data" / "runs" / "r2")),
    Case("a golden comes", None, leaked),
    Case("a grade comes later", (1, 2, 1, 0, 1), regraded),
    Case("rules", None, options={"redaction": {"pii": "all"}}),
    Case("fewer layouts", (6, 7, 16, 0, 0), options={"layouts": ("messages",)}),
    Case("placeholders are taught", None, options={"redaction": {"supervise_placeholders": "keep"}}),
    Case("another threshold for goldens", None, options={"goldens": {"overlap": 0.7}}),
    Case("formula of advantages", (0, 1, 0, 32, 0), options={"groups": {"normalisation": "max-rl"}}),
    Case("a constant of that formula", (0, 1, 0, 0, 0), options={"groups": {"eps": 0.01}}),
    Case("a run ends later than all", (1, 2, 2, 4, 1), later),
    Case("other splits and another seed", (0, 1, 0, 0, 0), options={"splits": {"held_out": 0.5}, "seed": 5}),
    Case("more rows are kept", (10, 1, 0, 0, 0), options={"selection": {"keep_fraction": 1.0}}),
    Case("weights in the mix", (0, 1, 0, 0, 0), options={"mix": {"mode": "weight", "shortage": "renormalize"}}),
    Case("pairs of another rule", (0, 1, 0, 0, 0), options={"pairs": {"min_group": 2, "rule": "max-min"}}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_rest_is_copied(case: Case, home: Path, made: list[str]) -> None:
    case.change(home)
    flow = flow_of(home, **case.options)
    if case.change is regraded:
        flow = flow_of(home, grading={"verdicts": [home / "verdicts.jsonl"]})
    flow.run()
    found = tuple(made.count(name) for name in DATASETS[:5])
    assert "balanced_mix" not in made, "its rows stand in the SFT set"
    one = published(flow.settings.home)
    made.clear()
    assert anew(flow) == one
    assert found == (case.made or tuple(made.count(name) for name in DATASETS[:5]))


def spoiled(home: Path, how: str) -> None:
    """Do something to what RL lines are copied from."""
    version = find_version(home / "home", "rl_dataset").path
    table = next((home / "home" / "lake" / f"rl_dataset{LINES}").glob("*/rows.parquet"))
    if how == "a line was edited":
        path = version / "data-00000.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"user"', b'"usor"', 1))
    elif how == "a file is gone":
        (version / "data-00000.jsonl").unlink()
    elif how == "a file is a pipe":
        (version / "data-00000.jsonl").unlink()
        os.mkfifo(version / "data-00000.jsonl")
    elif how == "the version is gone":
        shutil.rmtree(version)
        (version.parent / "latest").unlink()
    elif how == "the table is torn":
        table.write_bytes(table.read_bytes()[:-40])
    elif how == "a table of places is gone":
        table.with_name("messages.parquet").unlink()
    elif how == "the pointer is torn":
        (table.parent.parent / "current").write_text("")
    elif how == "another version wrote it":
        (table.parent / "sidecar.json").write_text("{}")


@pytest.mark.parametrize(
    "how",
    [
        "a line was edited",
        "a file is gone",
        "a file is a pipe",
        "the version is gone",
        "the table is torn",
        "a table of places is gone",
        "the pointer is torn",
        "another version wrote it",
    ],
)
def test_what_is_not_as_it_was_is_made_from_text(how: str, home: Path, made: list[str]) -> None:
    """The others are copied all the same."""
    write_another(home)
    spoiled(home, how)
    flow = flow_of(home)
    curation = (flow.ingest(), flow.curation())[1]
    for make in (datasets.kto_dataset, datasets.rl_dataset):
        make(curation)
    assert (made.count("kto_dataset"), made.count("rl_dataset")) == (2, 36)
    folder = find_version(home / "home", "rl_dataset").path
    one = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert anew(flow).items() >= {f"rl_dataset/{name}": data for name, data in one.items()}.items()


def test_where_there_are_no_links_rows_are_made_from_text(
    home: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError("this file system knows no links")

    write_another(home)
    flow = flow_of(home)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", refused)
        flow.run()
    assert made.count("rl_dataset") == 36
    assert_as_anew(flow)


def damaged(version: Path, how: str) -> None:
    if how == "its provenance is torn":
        path = version / "provenance.parquet"
        path.write_bytes(path.read_bytes()[:-40])
    elif how == "its provenance is another's":
        table = lines.pq.read_table(version / "provenance.parquet")
        lines.pq.write_table(table.slice(1), version / "provenance.parquet")
    elif how == "a line was edited, and its manifest":
        path, manifest = version / "data-00000.jsonl", version / "manifest.json"
        before = path.read_bytes()
        path.write_bytes(before.replace(b'"user"', b'"usor"', 1))
        told = [hashlib.sha256(data).hexdigest() for data in (before, path.read_bytes())]
        manifest.write_text(manifest.read_text().replace(*told))


@pytest.mark.parametrize(
    "how", ["its provenance is torn", "its provenance is another's", "a line was edited, and its manifest"]
)
def test_a_version_that_was_damaged_is_restored_whole_and_spoils_no_later_one(how: str, home: Path) -> None:
    """The settings are other ones and then those of before: the version of before is the newest again."""
    first = find_version(home / "home", "rl_dataset").path
    files = {path.name: path.read_bytes() for path in first.iterdir() if path.is_file()}
    datasets.rl_dataset(flow_of(home, groups={"eps": 0.01}).curation())
    damaged(first, how)
    restored = datasets.rl_dataset(flow_of(home).curation())
    assert (restored.status, restored.path) == ("made", first)
    assert {path.name: path.read_bytes() for path in first.iterdir() if path.is_file()} == files
    write_another(home)
    flow = flow_of(home)
    flow.ingest()
    folder = datasets.rl_dataset(flow.curation()).path
    one = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert anew(flow).items() >= {f"rl_dataset/{name}": data for name, data in one.items()}.items()


def test_rows_that_another_second_gate_let_through_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules are those of the version that is installed."""

    def told(gate: str, version: str | None) -> str:
        monkeypatch.setattr("trace_flywheel.flow.row_keys.gate_version", lambda: version)
        settings = Settings.model_validate({"redaction": {"second_gate": gate}})
        return shared("sft", layouts_for("sft", ()), settings, Holdout((), 0.5))

    assert len({told("kingfisher", version) for version in (None, "1.5", "1.6")}) == 3
    assert told("none", "1.5") == told("none", "1.6")


def test_what_is_erased_is_noted_nowhere_and_the_rest_is_made_once_more(home: Path, made: list[str]) -> None:
    flow = flow_of(home)
    inputs = flow.curation().inputs
    address = find_trace(flow.lake, "t2-0")
    purge(flow.lake, flow.settings, inputs, address, "asked")
    assert made.count("rl_dataset") == 31
    tables = sorted((home / "home" / "lake").glob(f"*{LINES}/*/rows.parquet"))
    assert len(tables) == 5
    accounts = b"".join(text for path in tables for text in lines.pq.read_table(path)["account"].to_pylist())
    assert b"t2-1" in accounts
    assert b"t2-0" not in accounts
    made.clear()
    write_another(home)
    flow.run()
    assert made.count("rl_dataset") == 4
    assert_as_anew(flow)


def test_the_table_stays_in_its_home_and_holds_no_text(home: Path) -> None:
    tables = sorted(path.name for path in (home / "home" / "lake").glob(f"*{LINES}"))
    assert tables == sorted(f"{name}{LINES}" for name in DATASETS[:5])
    assert not [path for path, _ in pointers(home / "home") if LINES in path]
    said = corpus()["r2"][1]["messages"][1]["content"].split()[3].encode()
    for path in (home / "home" / "lake").glob(f"*{LINES}/*/*.parquet"):
        for row in lines.pq.read_table(path).to_pylist():
            assert not any(said in value for value in row.values())


def test_lines_that_stand_in_many_files(home: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.lake.shards.SHARD_ROWS", 3)
    flow = flow_of(home)
    anew(flow)
    files = find_version(home / "home", "rl_dataset").manifest["files"]
    assert len([file for file in files if "eval" in file["path"]]) > 1
    assert len(files) > 9
    made.clear()
    write_another(home)
    flow.run()
    assert made.count("rl_dataset") == 4
    assert_as_anew(flow)


def test_killed_before_the_table_is_written_the_one_of_the_version_before_is_good(
    home: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    write_another(home)
    flow = flow_of(home)
    flow.ingest()
    curation = flow.curation()
    with monkeypatch.context() as patch:
        patch.setattr(lines.Noted, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            datasets.rl_dataset(curation)
    made.clear()
    write_runs(home / "data", {"r10": answers("t10", (1.0, 0.5, 0.2), 700)})
    flow.run()
    assert made.count("rl_dataset") == 7
    assert_as_anew(flow)
