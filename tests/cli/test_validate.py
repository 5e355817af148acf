"""`flywheel validate`: all faults on stderr with file and line, the JSON line on success, exit codes."""

import json
from pathlib import Path

import pytest

from trace_flywheel.cli.main import main

GOOD = '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n'


@pytest.fixture
def rows(tmp_path):
    file = tmp_path / "rows.jsonl"

    def write(text):
        file.write_text(text)
        return str(file)

    return write


def test_success_is_one_json_line(rows, capsys):
    assert main(["validate", rows(GOOD), "--expected-rows", "1"]) == 0
    out = capsys.readouterr().out
    assert out == '{"format": "prime-sft", "ok": true, "rows": 1, "rows_with_tool_calls": 0}\n'


def test_all_faults_with_file_and_line(rows, capsys):
    file = rows('{"messages": []}\n' + GOOD + "{\n")
    assert main(["validate", file, "--expected-rows", "2"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.rsplit(":", 1)[0].split(": ")[0] for line in printed.err.splitlines()] == [
        f"{file}:1",
        f"{file}:3",
        file,
    ]
    assert printed.err.splitlines()[2] == f"{file}: row count 3 != expected 2"


@pytest.mark.parametrize(("text", "count"), [("", "0 / 0"), (GOOD, "0 / 1")])
def test_tool_calls_are_required_of_every_row_and_of_one_at_least(rows, capsys, text, count):
    assert main(["validate", rows(text), "--require-tool-calls"]) == 1
    assert f"not all trainer rows contain tool calls: {count}" in capsys.readouterr().err


def test_an_empty_file_is_sound(rows, capsys):
    assert main(["validate", rows("")]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 0


@pytest.mark.parametrize(("argv", "code"), [(["--format", "nope"], 2), (["--frmat"], 2)])
def test_wrong_usage(rows, argv, code):
    assert main(["validate", rows(GOOD), *argv]) == code


def test_a_missing_file_and_a_folder(tmp_path, capsys):
    for path in (tmp_path / "none.jsonl", tmp_path):
        assert main(["validate", str(path)]) == 1
        assert str(path) in capsys.readouterr().err


def test_what_is_no_file_is_called_what_it_is(tmp_path, capsys):
    for path, said in [
        (tmp_path, "is a folder"),
        (Path("/dev/null"), "is no regular file"),
        (tmp_path / "x", "no such"),
    ]:
        assert main(["validate", str(path)]) == 1
        assert f"{path}: {said}" in capsys.readouterr().err
