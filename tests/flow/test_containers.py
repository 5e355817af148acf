"""Tables and folders: they appear whole or not at all, and a row read back is the row written."""

import json

import pyarrow.parquet as pq
import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.flow import containers
from trace_flywheel.flow.containers import opened, table_lines
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.registry import layout

VERL, OPENENV = layout("verl-sft"), layout("openenv-episodes")


@pytest.fixture
def job(tmp_path, benchflow_trial):
    for name, reward in (("half-life__1", 1.0), ("half-life__2", 0.0)):
        benchflow_trial(tmp_path / "job", name, reward=reward)
    return tmp_path / "job"


def converted(job, out, *flags):
    return main(["convert", str(job), "--out", str(out), *flags])


@pytest.mark.parametrize("alone", [False, True])
def test_a_table_of_rows_reads_back_as_written(job, tmp_path, monkeypatch, alone):
    monkeypatch.setattr(containers, "ALONE_BYTES", 0 if alone else 1_000_000)
    out = tmp_path / "rows.parquet"
    assert converted(job, out, "--format", "verl-sft") == 0
    rows = [line.value for line in table_lines(out)]
    assert [row["task_id"] for row in rows] == ["half-life", "half-life"]
    assert rows[0]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"command":  "ls"}'
    assert not [fault for row in rows for fault in VERL.validate(row)]
    with opened(VERL, tmp_path / "again.parquet") as file:
        file.writelines(json.dumps(row).encode() + b"\n" for row in rows)
    assert pq.read_table(tmp_path / "again.parquet") == pq.read_table(out)


@pytest.mark.parametrize("alone", [False, True])
def test_a_table_tells_what_was_asked_for_beside_its_rows(job, tmp_path, monkeypatch, alone):
    """As every other layout does: advantages and who speaks are no keys of verl's, which ignores more columns."""
    monkeypatch.setattr(containers, "ALONE_BYTES", 0 if alone else 1_000_000)
    flags = ["--group-advantage", "loo", "--reward-vector", "--subagent-rows"]
    assert converted(job, tmp_path / "rows.parquet", "--format", "verl-sft", *flags) == 0
    assert converted(job, tmp_path / "rows.jsonl", "--format", "skyrl-sft", *flags) == 0
    told = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    table = pq.read_table(tmp_path / "rows.parquet")
    beside = ["advantage", "group", "reward_vector", "advantage_vector"]
    roles = ["agent_role", "parent_tool_call_id", "subagent_type", "subagent_description"]
    assert table.column_names == ["messages", "tools", "task_id", "row_id", "reward", *beside, *roles]
    rows = table.to_pylist()
    assert [row["advantage"] for row in rows] == [1.0, -1.0]
    for row, same in zip(rows, told, strict=True):
        assert (row["advantage"], row["advantage_vector"]) == (same["advantage"], same["advantage_vector"])
        assert (json.loads(row["group"]), json.loads(row["reward_vector"])) == (same["group"], same["reward_vector"])
    assert converted(job, tmp_path / "plain.parquet", "--format", "verl-sft") == 0
    plain = pq.read_table(tmp_path / "plain.parquet")
    assert plain == table.select(plain.column_names)


def test_a_process_that_cannot_write_the_table_leaves_what_was_there(tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "ALONE_BYTES", 0)
    out = tmp_path / "rows.parquet"
    out.write_bytes(b"before")
    with pytest.raises(FlywheelError, match=r"rows.parquet: JSONDecodeError"), opened(VERL, out) as file:
        file.write(b"no row\n")
    assert out.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_an_empty_table_has_its_columns(tmp_path):
    with opened(VERL, tmp_path / "rows.parquet"):
        pass
    table = pq.read_table(tmp_path / "rows.parquet")
    assert (table.num_rows, table.column_names[:2]) == (0, ["messages", "tools"])


def test_validate_reads_tables(job, tmp_path, capsys):
    out = tmp_path / "rows.parquet"
    converted(job, out, "--format", "verl-sft")
    capsys.readouterr()
    assert main(["validate", str(out), "--format", "verl-sft", "--require-tool-calls"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    (tmp_path / "no.parquet").write_text("{}\n")
    assert main(["validate", str(tmp_path / "no.parquet"), "--format", "verl-sft"]) == 1
    assert "is no Parquet file" in capsys.readouterr().err


def test_episodes_are_a_folder(job, tmp_path, capsys):
    out = tmp_path / "episodes"
    assert converted(job, out, "--format", "openenv-episodes") == 0
    assert sorted(path.name for path in out.iterdir()) == ["metadata.json", "results.jsonl"]
    assert json.loads((out / "metadata.json").read_text())["episodes"] == 2
    assert main(["validate", str(out), "--format", "openenv-episodes"]) == 0
    capsys.readouterr()
    assert converted(job, out, "--format", "openenv-episodes") == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(("target", "name"), [(VERL, "rows.parquet"), (OPENENV, "episodes")])
def test_nothing_is_left_of_a_failure(tmp_path, target, name):
    def fail():
        with opened(target, tmp_path / name) as file:
            file.write(b"{}\n")
            raise FlywheelError("no")

    with pytest.raises(FlywheelError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_prompts_are_written_once(job, tmp_path):
    out = tmp_path / "prompts.jsonl"
    manifest = tmp_path / "manifest.json"
    assert converted(job, out, "--format", "rl-prompts", "--manifest", str(manifest)) == 0
    assert len(out.read_text().splitlines()) == 1
    (drop,) = json.loads(manifest.read_text())["drops"]
    assert (drop["stage"], drop["reason"]) == ("exact_duplicate", "exact_duplicate")
    assert drop["evidence"]["rollout"].endswith("half-life__1")


def test_kto_comes_from_rollouts_too(job, tmp_path):
    out = tmp_path / "kto.jsonl"
    assert converted(job, out, "--format", "kto") == 0
    assert [json.loads(line)["label"] for line in out.read_text().splitlines()] == [True, False]


def test_a_table_is_cut_into_row_groups_by_rows_and_bytes(tmp_path, monkeypatch):
    """The rows are the same however many pieces they come in; a row group holds no more than its bound."""
    monkeypatch.setattr(containers, "PIECE_BYTES", 100)
    monkeypatch.setattr(containers, "GROUP_BYTES", 1_000)
    lines = [json.dumps({"task_id": f"t{n}", "reward": n / 2, "row_id": "x" * n}).encode() for n in range(50)]
    with opened(VERL, tmp_path / "rows.parquet") as file:
        file.writelines(line + b"\n" for line in lines)
    table = pq.ParquetFile(tmp_path / "rows.parquet")
    groups = [table.metadata.row_group(g).num_rows for g in range(table.num_row_groups)]
    assert len(groups) > 2
    assert table.read(["task_id"]).column(0).to_pylist() == [f"t{n}" for n in range(50)]
    assert max(sum(map(len, lines[sum(groups[:g]) : sum(groups[: g + 1])])) for g in range(len(groups))) < 1_200
