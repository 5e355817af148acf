"""The audit finds each promise broken, by tampering with a published version."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import cleared
from trace_flywheel.flow.audit import FAULTS_SHOWN, PROMISES, audit, shown
from trace_flywheel.flow.cleared import is_known
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.datasets import dpo_dataset, sft_dataset
from trace_flywheel.flow.ingest import ingest
from trace_flywheel.flow.tables import grouped_advantages
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.dataset import Version, read_version
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.golden import Golden
from trace_flywheel.redaction.policy import policy_named
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sample.plan import secrets
from trace_flywheel.sample.write import write_sample
from trace_flywheel.settings import load_settings

NO_GOLDENS = Holdout((), 0.5)
STANDARD = policy_named("standard")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the sample's SFT rows and pairs."""
    folder = tmp_path_factory.mktemp("audit")
    write_sample(folder / "jobs")
    settings = load_settings(home=folder / "home", roots=(folder / "jobs",), ingest={"workers": 1})
    lake = Lake(settings.home)
    seen = watch(settings, lake)
    ingest(seen.todo, lake, settings, seen.inputs, workers=1)
    curation = Curation(lake, settings, seen.inputs)
    grouped_advantages(curation)
    return {"sft": sft_dataset(curation).path, "dpo": dpo_dataset(curation).path}


@pytest.fixture
def version(published: dict[str, Path], tmp_path: Path) -> Version:
    """A copy of the SFT rows to tamper with."""
    return read_version(Path(shutil.copytree(published["sft"], tmp_path / published["sft"].name)))


def broken(version: Version, holdout: Holdout = NO_GOLDENS) -> set[str]:
    return {promise for promise, faults in audit(version, Crew(holdout, 1), STANDARD).items() if faults}


def scanned(version: Version, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that an audit scans."""
    seen: list[bytes] = []
    rules = redactor("standard")
    real = rules.scan_line
    monkeypatch.setattr(rules, "scan_line", lambda line: seen.append(line) or real(line))
    audit(version, Crew(NO_GOLDENS, 1), STANDARD)
    monkeypatch.undo()
    return seen


def test_only_files_that_are_byte_for_byte_what_was_written_here_are_not_scanned(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = version.manifest["files"]
    assert scanned(version, monkeypatch) == []
    monkeypatch.setattr(cleared, "_files", {(STANDARD, file["sha256"]): None for file in files[1:]})
    assert scanned(version, monkeypatch) == (version.path / files[0]["path"]).read_bytes().splitlines()
    monkeypatch.setattr(cleared, "_files", {(policy_named("off"), file["sha256"]): None for file in files})
    assert len(scanned(version, monkeypatch)) == sum(file["rows"] for file in files)


def test_a_secret_in_a_file_that_was_written_here_is_found(version: Version) -> None:
    """Its manifest still names the bytes that were written."""
    file = version.manifest["files"][-1]
    assert is_known(STANDARD, file["sha256"])
    with (version.path / file["path"]).open("ab") as stream:
        stream.write(json.dumps({"task_id": secrets()["github_token"]}).encode() + b"\n")
    assert broken(version) == {"no_secret_left", "card_matches_files"}


def edit(version: Version, change: Callable[[list[dict]], list[dict]]) -> None:
    """Change the canonical rows, and the manifest with them where only the content is to be wrong."""
    path = version.path / "data-00000.jsonl"
    rows = change([json.loads(line) for line in path.read_bytes().splitlines()])
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


@pytest.mark.parametrize("name", ["sft", "dpo"])
def test_a_published_version_keeps_every_promise(published: dict[str, Path], name: str) -> None:
    faults = audit(read_version(published[name]), Crew(NO_GOLDENS, 1), STANDARD)
    assert faults == {promise: [] for promise in PROMISES}


def test_a_secret_put_back_is_found_and_not_repeated(version: Version) -> None:
    token = secrets()["github_token"]

    def leak(rows: list[dict]) -> list[dict]:
        rows[0]["messages"][-1]["content"] = f"use {token}"
        return rows

    edit(version, leak)
    faults = audit(version, Crew(NO_GOLDENS, 1), STANDARD)
    assert faults["no_secret_left"]
    assert token not in str(faults)


def test_a_golden_is_found_by_id_and_by_text(version: Version) -> None:
    rows = [json.loads(line) for line in (version.path / "data-00000.jsonl").read_bytes().splitlines()]
    by_id = Golden(task_id=rows[0]["task_id"], statement="nothing alike")
    long = next(r for r in rows if len(r["messages"][1]["content"].split()) > 12)
    by_text = Golden(task_id="another", statement=long["messages"][1]["content"])
    assert broken(version, Holdout((by_id,), 0.5)) == {"no_golden"}
    assert broken(version, Holdout((by_text,), 0.5)) == {"no_golden"}


@pytest.mark.parametrize(
    ("of_row", "of_golden", "held"),
    [(None, "office", True), ("office", None, True), ("office", "office", True), ("office", "other", False)],
)
def test_a_golden_id_is_found_where_a_side_names_no_suite(
    version: Version, of_row: str | None, of_golden: str | None, held: bool
) -> None:
    path = version.path / "provenance.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    task = rows[0]["task_id"]
    for row in rows:
        row["suite"] = of_row if row["task_id"] == task else "elsewhere"
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    for golden in (Golden(task, of_golden), Golden("x", of_golden, aliases=((of_golden, task),))):
        assert bool(audit(version, Crew(Holdout((golden,), 0.5), 1), STANDARD)["no_golden"]) is held


def test_a_row_without_grader_or_source_hash_is_found(version: Version) -> None:
    path = version.path / "provenance.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0]["grader"] = None
    rows[1]["source"] = ["file-without-hash"]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    faults = audit(version, Crew(NO_GOLDENS, 1), STANDARD)["provenance_complete"]
    assert [fault.split(": ")[1] for fault in faults] == ["grader", "source hash"]


def test_rows_in_another_order_than_their_provenance_are_found(version: Version) -> None:
    edit(version, lambda rows: rows[::-1])
    assert {"provenance_complete", "card_matches_files"} <= broken(version)


def test_a_row_that_stands_twice_is_found(version: Version) -> None:
    path = version.path / "provenance.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)
    assert "row_ids_unique" in broken(version)


def test_a_lost_fate_is_found(version: Version) -> None:
    path = version.path / "fates.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    assert "ledger_conserves" in broken(version)


def test_a_card_of_other_numbers_is_found(version: Version) -> None:
    card = version.path / "README.md"
    card.write_text(card.read_text().replace(f"{version.rows} rows", "999 rows"))
    assert broken(version) == {"card_matches_files"}
    edited = msgspec.structs.replace(version, rows=version.rows + 1)
    assert "card_matches_files" in broken(edited)


def test_many_faults_are_counted_not_listed() -> None:
    assert shown([]) == "none"
    assert shown(["a", "b"]) == "a; b"
    assert shown([str(i) for i in range(FAULTS_SHOWN + 2)]).endswith("; and 2 more")


def test_a_file_that_was_cut_or_is_away_is_told_as_any_other_difference(version: Version) -> None:
    """A line that is no JSON any more is no reason to look no further."""
    path = version.path / "data-00000.jsonl"
    data = path.read_bytes()
    for kept in (data[:-20], b"[1]\n" + data, b"\xff\xfe\n", b""):
        path.write_bytes(kept)
        assert "card_matches_files" in broken(version)
        assert "card_matches_files" in broken(version, Holdout((Golden("x", statement="nothing alike"),), 0.5))
    path.unlink()
    faults = audit(version, Crew(NO_GOLDENS, 1), STANDARD)
    assert faults["card_matches_files"][0] == "data-00000.jsonl: there is no such file"
    assert faults["provenance_complete"]


@pytest.mark.parametrize("name", ["provenance.parquet", "fates.parquet", "README.md"])
def test_what_is_beside_the_rows_and_cannot_be_read_is_told(version: Version, name: str) -> None:
    (version.path / name).write_bytes(b"\xff" * 50)
    assert "card_matches_files" in broken(version)
    (version.path / name).unlink()
    assert "card_matches_files" in broken(version)
