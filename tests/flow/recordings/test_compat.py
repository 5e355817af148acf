"""`--compat posttrainllm` gives the original's rows: its fixtures, ours for the edges, and what is ours in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import answer, call, record, rows_of, user
from trace_flywheel.flow.recordings.compat import Sketch
from trace_flywheel.flow.recordings.report import Report
from trace_flywheel.flow.recordings.traces_to_data import Request, traces_to_data

RUNS: list[tuple[str, str, dict[str, Any]]] = [
    ("traces-default", "traces", {"task": "math-and-geo"}),
    ("traces-no-task-flag", "traces", {}),
    ("traces-threshold-0.6", "traces", {"task": "math-and-geo", "sketch": Sketch(0.6)}),
    ("traces-no-tool-echo-drop", "traces", {"task": "all", "echo_drop": False}),
    ("traces-trajectory", "traces", {"task": "t", "export": "trajectory"}),
    ("traces-trajectory-threshold-0.6", "traces", {"task": "t", "export": "trajectory", "sketch": Sketch(0.6)}),
    ("traces-trajectory-near-dedup-off", "traces", {"task": "t", "export": "trajectory", "sketch": Sketch(1.01)}),
    ("edge-answer-only", "edge", {}),
    ("edge-answer-only-near-dedup-off", "edge", {"sketch": Sketch(1.01)}),
    ("edge-trajectory", "edge", {"export": "trajectory"}),
    ("edge-trajectory-near-dedup-off", "edge", {"export": "trajectory", "sketch": Sketch(1.01)}),
    (
        "edge-trajectory-ids-in-key-near-dedup-off",
        "edge",
        {"export": "trajectory", "sketch": Sketch(1.01, ids_in_key=True)},
    ),
]


def compat(folder: Path, out: Path, **options: Any) -> Report:
    return traces_to_data(Request(**{"folder": folder, "out": out, "sketch": Sketch(), **options}))


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "folder", "options"), RUNS, ids=[run[0] for run in RUNS])
def test_its_fixtures_give_its_rows_and_counts(
    shared_dir: Path, tmp_path: Path, name: str, folder: str, options: dict[str, Any]
) -> None:
    out = tmp_path / "out.jsonl"
    report = compat(shared_dir / "atraj" / "fixtures" / folder, out, **options)
    expected = shared_dir / "atraj" / "expected"
    assert out.read_bytes() == (expected / f"{name}.jsonl").read_bytes()
    wanted = json.loads((expected / "traces-counts.json").read_text())[name]
    told = report.as_dict()
    assert {key: told[key] for key in wanted["stats"]} == wanted["stats"]
    assert [{k: d[k] for k in ("max_estimate", "source_atraj")} for d in told["rollouts_dropped"]] == wanted[
        "near_dropped"
    ]
    assert told["not_harvested"].get("tool_echo", 0) == wanted["tool_echo_dropped_not_reported_upstream"]


def test_any_version_and_role_load_and_rows_have_its_byte_form(tmp_path: Path) -> None:
    record(tmp_path / "in", "a", {"role": "critic", "content": "hm"}, user("where is a/b?"), answer("é"), version=99)
    compat(tmp_path / "in", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text("utf-8") == (
        r'{"messages":[{"content":"where is a\/b?","role":"user"},'
        r'{"content":"{\"answer\": \"\\u00e9\"}","role":"assistant"}],"source_atraj":"a.atraj","task":null}' + "\n"
    )


def test_a_tools_text_is_rebuilt_with_escaped_slashes(tmp_path: Path) -> None:
    record(tmp_path / "in", "a", user("q"), *call("ls", "a/b"), answer("done"))
    compat(tmp_path / "in", tmp_path / "out.jsonl", export="trajectory")
    assert rows_of(tmp_path / "out.jsonl")[1]["messages"][2]["content"] == (
        r'{"exit_code":0,"stderr":"","stdout":"a\/b","tool":"ls"}'
    )


def test_secrets_go_and_token_ids_that_spell_them(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    record(
        tmp_path / "in", "a", user("q"), answer(f"use {token}", output_ids=[1]), user("r"), answer("no", output_ids=[2])
    )
    report = compat(tmp_path / "in", tmp_path / "out.jsonl", export="trajectory")
    first, second = rows_of(tmp_path / "out.jsonl")
    assert token not in (tmp_path / "out.jsonl").read_text()
    assert "output_ids" not in first["messages"][-1]
    assert second["messages"][-1]["output_ids"] == [2]
    assert sum(report.redactions.values()) == 1


def test_where_every_file_fails_the_output_is_empty_as_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "bad.atraj").write_text("{")
    report = compat(tmp_path / "in", tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b""
    assert [row["path"] for row in report.failed] == ["bad.atraj"]
