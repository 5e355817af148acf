"""Dataset versions: immutable, named by all they say, whole or not there, and true to their fates."""

import errno
import json
import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trace_flywheel.lake import dataset, draft, files, shards
from trace_flywheel.lake.card import card
from trace_flywheel.lake.dataset import Version, find_version, versions
from trace_flywheel.lake.draft import drafting
from trace_flywheel.lake.ledger import fates_table, ledger_of
from trace_flywheel.lake.origins import PROVENANCE_SCHEMA
from trace_flywheel.lake.sidecar import LakeError
from trace_flywheel.lake.spool import Spools
from trace_flywheel.records.rows import Provenance
from trace_flywheel.settings import Settings

INPUTS = {"digest": "d", "runs": [{"run_id": "r", "content_digest": "c"}]}
MANIFEST = {"kind": "sft", "inputs": INPUTS, "code": {"version": "0.1.0"}, "graders": {"exact": ["1"]}}


def fate(trace: str, row: str | None = None, stage: str = "quality", reason: str = "truncated") -> dict[str, Any]:
    lost = {"stage": stage, "reason": reason, "evidence": "{}"} if row is None else {}
    return {
        "run_id": "r",
        "trace_id": trace,
        "task_id": "k",
        "kept": bool(row),
        "row_ids": [row] if row else [],
        **lost,
    }


def publish(home: Path, rows: list[str], lost: tuple[str, ...] = (), keep: int = 10, seed: int = 42) -> Version:
    settings = Settings(seed=seed).hashed()
    with drafting(home, "sft_dataset", ("messages", "prime-sft")) as making:
        with Spools(making.folder) as spools:
            for row in rows:
                line = json.dumps({"row_id": row}).encode()
                places = {name: spools.add(name, [line]) for name in ("messages", "prime-sft")}
                making.add(Provenance(row, "sft", f"task-{row}", "r", (f"t-{row}",)), places)
        fates = fates_table([fate(f"t-{r}", r) for r in rows] + [fate(t) for t in lost])
        return making.publish([fates], settings, MANIFEST, card, keep)


def test_a_version_is_a_folder_with_everything_about_it(tmp_path: Path) -> None:
    version = publish(tmp_path, ["b", "a"], lost=("t-x",))
    assert sorted(p.relative_to(version.path).as_posix() for p in version.path.rglob("*.*")) == [
        "README.md",
        "data-00000.jsonl",
        "fates.parquet",
        "layouts/prime-sft/data-00000.jsonl",
        "manifest.json",
        "provenance.parquet",
    ]
    assert [json.loads(line)["row_id"] for line in dataset.lines(version)] == ["a", "b"]
    assert [json.loads(line)["row_id"] for line in dataset.lines(version, "prime-sft")] == ["a", "b"]
    assert [p.row_id for p in dataset.provenance(version)] == ["a", "b"]
    assert version.manifest["counts"] == {"in": 3, "kept": 2, "dropped": {"quality": {"truncated": 1}}}
    assert version.manifest["funnel"] == [{"stage": "quality", "in": 3, "kept": 2, "dropped": {"truncated": 1}}]
    assert find_version(tmp_path, "sft_dataset") == Version(
        "sft_dataset", version.version, version.path, 2, version.manifest
    )


def test_files_are_durable_before_anything_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    monkeypatch.setattr(files.os, "fsync", noted)
    with drafting(tmp_path, "sft_dataset", ("messages",)) as making:
        with Spools(making.folder) as spools:
            places = {"messages": spools.add("messages", [b'{"row_id":"a"}'])}
            making.add(Provenance("a", "sft", "task-a", "r", ("t-a",)), places)
        making.write()
        assert synced == ["data-00000.jsonl"]


def test_a_file_that_could_not_be_made_durable_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    (tmp_path / "rows.jsonl").touch()

    def handed_over() -> None:
        with files.syncing() as sync_beside:
            sync_beside(tmp_path / "rows.jsonl")

    with pytest.raises(OSError, match="No space left"):
        handed_over()


def test_rows_in_another_order_are_the_same_version_and_bytes(tmp_path: Path) -> None:
    one, two = publish(tmp_path / "1", ["a", "b", "c"]), publish(tmp_path / "2", ["c", "a", "b"])
    assert one.version == two.version
    for file in sorted(p for p in one.path.rglob("*") if p.is_file()):
        assert file.read_bytes() == (two.path / file.relative_to(one.path)).read_bytes(), file


def test_publishing_the_same_rows_again_writes_nothing(tmp_path: Path) -> None:
    first = publish(tmp_path, ["a"])
    before = {p: p.stat().st_mtime_ns for p in first.path.rglob("*")}
    again = publish(tmp_path, ["a"])
    assert (first.new, again.new, again.version) == (True, False, first.version)
    assert {p: p.stat().st_mtime_ns for p in first.path.rglob("*")} == before
    assert [p.name for p in first.path.parent.iterdir() if p.name != "latest"] == [first.version]


def test_other_rows_settings_or_fates_are_another_version(tmp_path: Path) -> None:
    made = [publish(tmp_path, ["a"]), publish(tmp_path, ["a", "b"]), publish(tmp_path, ["a"], seed=7)]
    made.append(publish(tmp_path, ["a"], lost=("t-new",)))
    assert len({v.version for v in made}) == 4
    assert (tmp_path / "datasets/sft_dataset/latest").read_text().strip() == made[-1].version


def test_old_versions_are_pruned_and_the_newest_stays(tmp_path: Path) -> None:
    made = [publish(tmp_path, [str(i)], keep=2) for i in range(4)]
    assert [v.version for v in versions(tmp_path, "sft_dataset")] == [made[3].version, made[2].version]


def test_a_version_of_a_clock_that_was_set_back_is_the_newest(tmp_path: Path) -> None:
    first = publish(tmp_path, ["a"], keep=3)
    ahead = 4_000_000_000  # by the clock that was right again afterwards
    os.utime(first.path, (ahead, ahead))
    second, third = (publish(tmp_path, ["a", other], keep=3) for other in "bc")
    assert [v.version for v in versions(tmp_path, "sft_dataset")] == [v.version for v in (third, second, first)]
    fourth = publish(tmp_path, ["d"], keep=3)
    assert [v.version for v in versions(tmp_path, "sft_dataset")] == [v.version for v in (fourth, third, second)]
    dataset.remove(fourth.path)
    assert find_version(tmp_path, "sft_dataset").version == third.version


def test_a_version_whose_fates_lose_a_name_is_no_newer_for_it(tmp_path: Path) -> None:
    first, second = publish(tmp_path, ["a"], lost=("t-x",)), publish(tmp_path, ["b"])
    dataset.forget(first, {("r", "t-x")})
    assert [v.version for v in versions(tmp_path, "sft_dataset")] == [second.version, first.version]


@pytest.mark.parametrize("step", ["settle", "TableFile", "write_shard"])
def test_a_publication_killed_at_any_step_leaves_the_version_before(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = publish(tmp_path, ["a"])

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(draft, step, killed)
    with pytest.raises(KeyboardInterrupt):
        publish(tmp_path, ["b"])
    assert find_version(tmp_path, "sft_dataset").version == first.version
    assert [p.name for p in first.path.parent.iterdir() if p.is_dir()] == [first.version]


def test_fates_that_do_not_account_for_the_rows_stop_the_publication(tmp_path: Path) -> None:
    with drafting(tmp_path, "sft_dataset", ()) as making:
        with Spools(making.folder) as spools:
            making.add(Provenance("a", "sft", "k", "r", ("t",)), {"messages": spools.add("messages", [b"{}"])})
        with pytest.raises(AssertionError, match="fates keep 0 rows, 1 were written"):
            making.publish([fates_table([fate("t")])], {}, MANIFEST, card, 10)
    assert not (tmp_path / "datasets/sft_dataset/latest").exists()


def test_a_fate_without_a_reason_is_a_bug(tmp_path: Path) -> None:
    lost = {**fate("t"), "stage": None, "reason": None}
    with pytest.raises(AssertionError, match="neither kept nor dropped"):
        ledger_of(fates_table([lost]))


def test_shards_are_cut_by_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 2)
    version = publish(tmp_path, ["a", "b", "c"])
    assert [(f["path"], f["rows"]) for f in version.manifest["files"]] == [
        ("data-00000.jsonl", 2),
        ("data-00001.jsonl", 1),
        ("layouts/prime-sft/data-00000.jsonl", 2),
        ("layouts/prime-sft/data-00001.jsonl", 1),
    ]


def test_an_empty_set_is_published_with_its_fates(tmp_path: Path) -> None:
    version = publish(tmp_path, [], lost=("t",))
    assert list(dataset.lines(version)) == []
    assert pq.read_table(version.path / "fates.parquet").num_rows == 1
    assert pq.read_table(version.path / "provenance.parquet").schema == PROVENANCE_SCHEMA


def test_the_card_loads_with_datasets_and_says_what_is_required(tmp_path: Path) -> None:
    text = (publish(tmp_path, ["a"]).path / "README.md").read_text()
    assert text.startswith('---\npretty_name: "sft_dataset"\n')
    assert '- config_name: default\n  data_files: "data-*.jsonl"\n  default: true\n' in text
    assert '- config_name: prime-sft\n  data_files: "layouts/prime-sft/data-*.jsonl"\n' in text
    for field in ("Provenance", "Counts", "Synthetic and real", "Deduplication", "Template", "Packing", "Conversion"):
        assert f"## {field}" in text
    assert str(tmp_path) not in text


def test_the_card_names_the_types_of_columns_by_configuration(tmp_path: Path) -> None:
    columns = {"messages": {"group": "json", "messages": "list: json"}, "prime-sft": {"reward": "float64"}}
    text = card({**publish(tmp_path, ["a"]).manifest, "columns": columns})
    assert text.partition("\n---\n")[0].partition("dataset_info:\n")[2] == (
        '- config_name: default\n  features:\n  - name: "group"\n    dtype: json\n'
        '  - name: "messages"\n    list: json\n'
        '- config_name: prime-sft\n  features:\n  - name: "reward"\n    dtype: float64'
    )


def test_an_exported_table_or_folder_is_what_its_card_points_to(tmp_path: Path) -> None:
    manifest = publish(tmp_path, ["a"]).manifest
    for path, named in (("data-00000.parquet", "data-*.parquet"), ("episodes/results.jsonl", "episodes/results.jsonl")):
        assert f'  data_files: "{named}"\n' in card({**manifest, "files": [{"path": path, "rows": 1}]})


def test_the_card_shows_the_mix_and_the_first_thresholds(tmp_path: Path) -> None:
    manifest = publish(tmp_path, ["a"]).manifest
    mix = {"share": {"single": 0.3}, "supply": {"single": 4, "other": 1}, "kept": {"single": 3, "other": 1}}
    text = card({**manifest, "facts": {"mix": mix, "thresholds": {f"t{i:03d}": 1.0 for i in range(60)}}})
    assert "| single | 30% | 4 | 3 |" in text
    assert "| other | natural | 1 | 1 |" in text
    assert '"t049": 1.0}  # and 10 more in manifest.json' in text


def test_an_unknown_dataset_or_version_is_answered_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"no dataset 'x' .*none; run `flywheel refresh`"):
        find_version(tmp_path, "x")
    version = publish(tmp_path, ["a"])
    with pytest.raises(LakeError, match="there are: sft_dataset"):
        find_version(tmp_path, "x")
    with pytest.raises(LakeError, match=version.version):
        find_version(tmp_path, "sft_dataset@zzz")
    assert find_version(tmp_path, f"sft_dataset@{version.version[:6]}").version == version.version


def test_fates_have_one_order(tmp_path: Path) -> None:
    rows = [fate("b"), fate("a", "x"), fate("a")]
    assert fates_table(rows) == fates_table(rows[::-1])
    assert isinstance(fates_table(rows), pa.Table)


def test_a_file_that_is_not_as_its_manifest_says_is_named(tmp_path: Path) -> None:
    version = publish(tmp_path, ["a", "b"])
    assert dataset.altered(version) is None
    other = version.path / "layouts" / "prime-sft" / "data-00000.jsonl"
    other.chmod(0o644)
    other.write_bytes(b"{}\n")
    assert dataset.altered(version) == "layouts/prime-sft/data-00000.jsonl"
    (version.path / "data-00000.jsonl").unlink()
    assert dataset.altered(version) == "data-00000.jsonl"


def test_fates_are_the_same_bytes_in_whatever_pieces_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "GROUP", 3)
    fates = fates_table([fate(f"t-{n}") for n in range(7)])
    made = []
    for n, cuts in enumerate(([0, 7], [0, 1, 1, 5, 7], [0, 3, 6, 7], list(range(8)))):
        with drafting(tmp_path / str(n), "sft_dataset", ()) as making:
            pieces = [fates.slice(a, b - a) for a, b in pairwise(cuts)]
            made.append(making.publish(pieces, Settings().hashed(), MANIFEST, card, 10))
    assert len({version.version for version in made}) == 1
    files = {(version.path / "fates.parquet").read_bytes() for version in made}
    assert len(files) == 1
    assert pq.ParquetFile(made[0].path / "fates.parquet").metadata.num_row_groups == 3


def test_where_somebody_removed_the_newest_version_the_one_before_stands(tmp_path: Path) -> None:
    """As `doctor` advises of a damaged one; what is left says that it was made from something else."""
    older, newer = publish(tmp_path, ["a"]), publish(tmp_path, ["a", "b"])
    shutil.rmtree(newer.path)
    assert find_version(tmp_path, "sft_dataset").version == older.version
    shutil.rmtree(older.path)
    assert dataset.names(tmp_path) == ()
    with pytest.raises(LakeError, match="no dataset 'sft_dataset'"):
        find_version(tmp_path, "sft_dataset")
    assert publish(tmp_path, ["a", "b"]).version == newer.version
    assert dataset.names(tmp_path) == ("sft_dataset",)


@pytest.mark.parametrize(
    "name", ["data-00000.jsonl", "layouts/prime-sft/data-00000.jsonl", "README.md", "fates.parquet"]
)
def test_what_stands_under_the_name_of_a_version_gives_way_where_it_is_another(tmp_path: Path, name: str) -> None:
    version = publish(tmp_path, ["a", "b"])
    path = version.path / name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"x")
    (version.path / "notes.txt").write_text("seen")
    assert publish(tmp_path, ["a", "b"]).new
    assert path.read_bytes() == data
    (version.path / "notes.txt").write_text("seen")
    assert not publish(tmp_path, ["a", "b"]).new
    assert (version.path / "notes.txt").exists()
