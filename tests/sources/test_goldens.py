import json
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.golden import Golden
from trace_flywheel.sources.goldens import goldens_above, read_goldens
from trace_flywheel.sources.reader import Run


def read(tmp_path: Path, *rows: Any) -> list[Golden | Drop]:
    path = tmp_path / "goldens.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(read_goldens(path))


@pytest.mark.parametrize(
    ("row", "statement", "answer"),
    [
        ({}, "", ""),
        ({"prompt": "p", "answer": "a"}, "p", "a"),
        ({"prompt": "p", "expected": "e"}, "p", "e"),
        ({"prompt": "p", "answer": 4}, "p", "4"),
        ({"prompt": [{"role": "user", "content": "p"}]}, "p", ""),
        (
            {
                "messages": [
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": "one"},
                    {"role": "assistant", "content": "a"},
                    {"role": "user", "content": [{"type": "text", "text": "two"}]},
                ]
            },
            "one\ntwo",
            "",
        ),
    ],
)
def test_statement_and_answer(tmp_path: Path, row: dict[str, Any], statement: str, answer: str) -> None:
    (found,) = read(tmp_path, {"task_id": "t", **row})
    assert found == Golden("t", None, statement, answer, "goldens.jsonl", 1)


def test_a_line_that_is_no_golden_is_never_skipped_in_silence(tmp_path: Path) -> None:
    good, nameless, listed = read(tmp_path, {"task_id": "t", "suite": "s"}, {"prompt": "p"}, ["t"])
    assert isinstance(good, Golden)
    assert good.suite == "s"
    for drop, line in ((nameless, 2), (listed, 3)):
        assert isinstance(drop, Drop)
        assert (drop.reason, drop.evidence["line"]) == ("unknown_shape", line)


def test_a_broken_line_and_a_missing_file_are_drops(tmp_path: Path) -> None:
    path = tmp_path / "goldens.jsonl"
    path.write_text('{"task_id": "t"}\n{"task_id"')
    good, torn = read_goldens(path)
    assert isinstance(good, Golden)
    assert isinstance(torn, Drop)
    assert torn.reason == "bad_json"
    (missing,) = read_goldens(tmp_path / "none.jsonl")
    assert isinstance(missing, Drop)
    assert missing.reason == "unreadable_file"


def golden_file(folder: Path) -> Path:
    path = folder / "eval" / "goldens.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"task_id": "t"}\n')
    return path


def test_goldens_stand_above_the_runs_folder(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    run_folder = home / "runs" / "r1"
    run_folder.mkdir(parents=True)
    far, near = golden_file(tmp_path), golden_file(home)

    def above(root: Path) -> tuple[Path, ...]:
        return goldens_above(Run("r", "eval_run", root, run_folder))

    assert above(home) == (near,)
    assert above(home / "runs") == (near,)
    assert above(run_folder) == (near,)
    assert above(tmp_path / "a") == (near, far)
    assert goldens_above(Run("r", "eval_run", run_folder, run_folder / "results.json")) == (near,)


def test_aliases_are_other_names_and_a_broken_one_is_no_golden(tmp_path: Path) -> None:
    good, bad, worse = read(
        tmp_path,
        {"task_id": "t", "aliases": ["b", {"task_id": "a", "suite": "s"}, "b"]},
        {"task_id": "t", "aliases": "b"},
        {"task_id": "t", "aliases": [{"suite": "s"}]},
    )
    assert isinstance(good, Golden)
    assert good.aliases == (("s", "a"), (None, "b"))
    assert good.is_task("b", "x")
    assert good.is_task("a", None)
    assert not good.is_task("a", "x")
    assert isinstance(bad, Drop)
    assert isinstance(worse, Drop)
    assert "aliases" in bad.evidence["text"]
