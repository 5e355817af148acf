"""Partitions change whole or not at all, private text is private, and the same content has the same name."""

import shutil
import stat
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.lake import landing, store
from trace_flywheel.lake.codec import DROP_SCHEMA, SCHEMA
from trace_flywheel.lake.columns import table
from trace_flywheel.lake.index import INDEX_SCHEMA
from trace_flywheel.lake.ledger import FATES_SCHEMA
from trace_flywheel.lake.parts import RolloutParts, TableFile, read_rollouts, write_table
from trace_flywheel.lake.quarantine import quarantine, quarantines, release
from trace_flywheel.lake.sidecar import FORMAT, LONG_NAME, LakeError, Part, Sidecar, encode_run, file_mode
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source


def rollout(trace: str, text: str = "hello") -> Rollout:
    return Rollout("r/run", trace, "task", Source("eval_run", "results.json", "0" * 64), (Message("user", text),))


def write(lake: Lake, asset: str, *rollouts: Rollout, drops: tuple[Drop, ...] = (), run_id: str = "r/run") -> Sidecar:
    with lake.generation(asset, run_id) as folder:
        parts = RolloutParts(folder, "part", file_mode(asset))
        for item in rollouts:
            parts.add(item)
        staged = lake.stage(
            folder,
            asset,
            run_id,
            parts=parts.close(),
            drops=drops,
            entered=len(rollouts) + len(drops),
            inputs_digest="in",
            source_fingerprint="fp",
        )
        return lake.land([staged])[0]


def texts(lake: Lake, asset: str) -> list[str]:
    sidecar = lake.sidecar(asset, "r/run")
    assert sidecar
    return [
        str(r.messages[0].content) for part in sidecar.parts for _, r in read_rollouts(lake.part_path(sidecar, part))
    ]


def test_a_partition_reads_back_with_its_drops_and_counts(tmp_path: Path) -> None:
    drop = Drop(Stage.READ, "bad_json", {"line": 3}, trace_id="t9", path="x.json")
    sidecar = write(Lake(tmp_path), "graded_traces", rollout("t1"), drops=(drop,))
    lake = Lake(tmp_path)
    assert texts(lake, "graded_traces") == ["hello"]
    assert lake.drops(sidecar) == (drop,)
    assert (sidecar.counts.entered, sidecar.counts.kept) == (2, 1)
    assert sidecar.counts.dropped == {"read": {"bad_json": 1}}
    assert [s.run_id for s in lake.sidecars("graded_traces")] == ["r/run"]


def test_counts_that_do_not_add_up_never_become_a_partition(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with pytest.raises(AssertionError, match="2 in, 0 kept"), lake.generation("redacted_rollouts", "r/run") as folder:
        lake.stage(
            folder, "redacted_rollouts", "r/run", parts=(), drops=(), entered=2, inputs_digest="", source_fingerprint=""
        )
    assert lake.sidecar("redacted_rollouts", "r/run") is None


@pytest.mark.parametrize(
    ("module", "step"), [(store, "write_table"), (store, "stage"), (landing, "sync"), (landing, "move")]
)
def test_a_writer_stopped_at_any_step_leaves_the_generation_before(
    module: ModuleType, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    write(lake, "redacted_rollouts", rollout("t1", "old"))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, step, killed)
    with pytest.raises(KeyboardInterrupt):
        write(lake, "redacted_rollouts", rollout("t1", "new"))
    assert not list(tmp_path.rglob(".tmp-*"))
    assert texts(Lake(tmp_path), "redacted_rollouts") == ["old"]
    monkeypatch.undo()
    write(lake, "redacted_rollouts", rollout("t1", "new"))
    assert texts(lake, "redacted_rollouts") == ["new"]


def test_the_generation_before_is_removed_and_nothing_temporary_stays(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    write(lake, "redacted_rollouts", rollout("t1", "old"))
    sidecar = write(lake, "redacted_rollouts", rollout("t1", "new"))
    assert sorted(p.name for p in lake.folder("redacted_rollouts", "r/run").iterdir()) == sorted(
        [sidecar.generation, "sidecar.json"]
    )


def test_the_same_content_has_the_same_generation_and_bytes(tmp_path: Path) -> None:
    one, two = (write(Lake(tmp_path / name), "redacted_rollouts", rollout("t1")) for name in "ab")
    assert one == two


def test_raw_text_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    write(lake, "graded_traces", rollout("t1"))
    write(lake, "redacted_rollouts", rollout("t1"))

    def modes(asset: str) -> Iterator[tuple[bool, int]]:
        for path in [lake.root / asset, *(lake.root / asset).rglob("*")]:
            yield path.is_dir(), stat.S_IMODE(path.stat().st_mode)

    assert {m for is_dir, m in modes("graded_traces") if is_dir} == {0o700}
    assert {m for is_dir, m in modes("graded_traces") if not is_dir} == {0o600}
    assert {m for is_dir, m in modes("redacted_rollouts") if not is_dir} == {0o644}


def test_a_newer_lake_is_refused_in_words(tmp_path: Path) -> None:
    write(Lake(tmp_path), "graded_traces", rollout("t1"))
    (tmp_path / "lake" / "format").write_text(f"{FORMAT + 1}\n")
    with pytest.raises(LakeError, match=r"format .2.,.*reads format 1.*use the version"):
        Lake(tmp_path)


def test_a_damaged_sidecar_is_named(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    write(lake, "graded_traces", rollout("t1"))
    (lake.folder("graded_traces", "r/run") / "sidecar.json").write_text("{")
    with pytest.raises(LakeError, match=r"sidecar.json: damaged"):
        lake.sidecar("graded_traces", "r/run")


@given(st.text(min_size=1, max_size=60).filter(lambda s: s.isprintable()))
def test_a_run_id_is_one_safe_reversible_name(run_id: str) -> None:
    name = encode_run(run_id)
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    if "~" not in name or len(name) < LONG_NAME:
        assert urllib.parse.unquote(name) == run_id


@given(st.text("aZ09_.~ +,=@/-%é\n:", max_size=40).filter(lambda s: not s.startswith(".")))
def test_a_name_that_needs_no_quoting_is_as_if_quoted(run_id: str) -> None:
    assert encode_run(run_id) == urllib.parse.quote(run_id, safe=" +,=@")


def test_run_ids_those_that_are_known(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    for run_id in ("r/a", "r/b", "r/" + "long/" * 60):
        write(lake, "graded_traces", rollout("t1"), run_id=run_id)
    (lake.root / "graded_traces" / "r%2Fnever-landed").mkdir()
    everything = {"r/a", "r/b", "r/" + "long/" * 60}
    assert lake.run_ids("graded_traces") == everything
    assert lake.run_ids("graded_traces", ["r/b", "r/" + "long/" * 60, "r/other"]) == {"r/a"}
    assert lake.run_ids("graded_traces", everything) == frozenset()
    assert lake.run_ids("rollout_index", ()) == frozenset()


def test_long_run_ids_stay_apart() -> None:
    one, two = encode_run("a/" * 300 + "1"), encode_run("a/" * 300 + "2")
    assert one != two
    assert len(one) < 255


def test_quarantine_counts_tries_of_one_state_of_a_folder(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert quarantine(lake, "r/run", "nothing read", "fp1").attempts == 1
    assert quarantine(lake, "r/run", "nothing read", "fp1").attempts == 2
    assert quarantine(lake, "r/run", "nothing read", "fp2").attempts == 1
    assert [q.run_id for q in quarantines(lake)] == ["r/run"]
    release(lake, "r/run")
    assert quarantines(lake) == ()


def test_parts_are_cut_by_the_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.lake.parts.PART_ROWS", 2)
    parts = RolloutParts(tmp_path, "part")
    places = [parts.add(rollout(f"t{i}")) for i in range(5)]
    closed = parts.close()
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert [(p.name, p.rows) for p in closed] == [
        ("part-00000.parquet", 2),
        ("part-00001.parquet", 2),
        ("part-00002.parquet", 1),
    ]
    assert [(i, r.trace_id) for i, r in read_rollouts(tmp_path / closed[1].name, frozenset({1}))] == [(1, "t3")]


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A part of 130 rollouts in three row groups: 60, 60, 10."""
    folder = tmp_path_factory.mktemp("groups")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trace_flywheel.lake.parts.BATCH_ROWS", 60)
        parts = RolloutParts(folder, "part")
        for i in range(130):
            parts.add(rollout(f"t{i}", "x" * i))
        (part,) = parts.close()
    assert pq.ParquetFile(folder / part.name).num_row_groups == 3
    return folder / part.name


@given(st.frozensets(st.integers(0, 129)))
def test_of_a_part_the_named_positions_are_read(groups: Path, wanted: frozenset[int]) -> None:
    read = [(i, r.trace_id, r.messages[0].content) for i, r in read_rollouts(groups, wanted)]
    assert read == [(i, f"t{i}", "x" * i) for i in sorted(wanted)]


def test_reading_loads_neither_pandas_nor_functions_of_arrow(groups: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from trace_flywheel.lake.parts import read_rollouts
print(len(list(read_rollouts(Path({str(groups)!r}), frozenset(range(0, 130, 3))))))
print("pandas" in sys.modules, "pyarrow.compute" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == [b"44", b"False", b"False"]


@pytest.mark.parametrize(
    "schema", [DROP_SCHEMA, FATES_SCHEMA, INDEX_SCHEMA, SCHEMA], ids=["drops", "fates", "index", "rows"]
)
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_without_rows_is_the_one_that_would_be_written(tmp_path: Path, schema: pa.Schema, mode: int) -> None:
    made = [pa.array([], type=field.type) for field in schema]
    with TableFile(tmp_path / "slow", schema, mode) as file:
        file.write(pa.Table.from_arrays(made, schema=schema))
    for name, empty in (("one", table([], schema)), ("two", pa.Table.from_arrays(made, schema=schema).slice(0, 0))):
        part = write_table(tmp_path / name, empty, mode)
        assert (tmp_path / name).read_bytes() == (tmp_path / "slow").read_bytes()
        assert part == msgspec.structs.replace(file.part, name=name)
        assert (tmp_path / name).stat().st_mode & 0o777 == mode
        assert pq.read_table(tmp_path / name).schema.equals(schema)


def test_a_mirrored_part_exists_without_a_row(tmp_path: Path) -> None:
    assert [p.rows for p in RolloutParts(tmp_path, "part-00003.parquet", cut=False).close()] == [0]
    assert isinstance(RolloutParts(tmp_path, "x").close(), tuple)
    assert Part("a", 0, "b").chunk == 0


def test_an_unpartitioned_table_is_replaced_by_its_pointer(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert lake.current("grouped_advantages") is None
    lake.put("grouped_advantages", {"groups": pa.table({"n": [1]})}, "i1", {"groups": 1})
    second = lake.put("grouped_advantages", {"groups": pa.table({"n": [2]})}, "i2", {"groups": 1})
    assert lake.table("grouped_advantages", "groups").to_pylist() == [{"n": 2}]
    assert lake.current("grouped_advantages") == second
    with pytest.raises(LakeError, match="not made yet"):
        lake.table("rl_fates", "fates")


def killed(path: Path, *_: object, **__: object) -> None:
    """In place of `rmtree`: one file of what is to go is gone when the process is."""
    if files := [file for file in Path(path).rglob("*") if file.is_file()]:
        files[0].unlink()
        raise KeyboardInterrupt


def test_an_asset_whose_removal_was_killed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same content, put again, is whole: it never finds its folder half there."""
    lake, tables = Lake(tmp_path), {name: pa.table({"n": [1, 2]}) for name in ("a", "b")}
    lake.put("gathered_index", tables, "i1", {})
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.discard("gathered_index")
    assert lake.current("gathered_index") is None
    lake.put("gathered_index", tables, "i1", {})
    assert [lake.table("gathered_index", name).num_rows for name in tables] == [2, 2]
    lake.discard("never made")


def test_content_that_comes_back_is_whole_where_its_removal_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    first = {name: pa.table({"n": [1, 2]}) for name in ("a", "b")}
    lake.put("t", first, "i1", {})
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.put("t", {name: pa.table({"n": [3]}) for name in first}, "i2", {})
    lake.put("t", first, "i1", {})
    assert [lake.table("t", name).num_rows for name in first] == [2, 2]


def test_a_table_without_rows_may_have_columns_of_any_type(tmp_path: Path) -> None:
    kinds = [pa.null(), pa.struct([("x", pa.int8())]), pa.timestamp("us"), pa.dictionary(pa.int32(), pa.string())]
    schema = pa.schema([(f"c{n}", kind) for n, kind in enumerate(kinds)])
    assert write_table(tmp_path / "t", schema.empty_table()).rows == 0
    assert pq.read_table(tmp_path / "t").schema.names == schema.names
