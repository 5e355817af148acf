"""How a hint calls this program."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.cli.main import COMMANDS, load, main
from trace_flywheel.cli.options import program


def test_a_hint_calls_the_program_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / ".venv" / "bin" / "flywheel"
    own.parent.mkdir(parents=True)
    own.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", "/usr/bin")
    assert program() == ".venv/bin/flywheel"
    monkeypatch.setenv("PATH", str(own.parent))
    assert program() == "flywheel"
    monkeypatch.setattr(sys, "argv", ["-m"])
    assert program() == "flywheel"


def numeric_options() -> Iterator[tuple[list[str], str, bool]]:
    """(command, option, whether it takes fractions) of every option of every command that takes a number."""
    todo: list[tuple[list[str], Any]] = [([name], load(name)) for name in COMMANDS]
    while todo:
        words, command = todo.pop()
        todo += [([*words, name], inner) for name, inner in getattr(command, "commands", {}).items()]
        for param in command.params:
            kind = param.type_descriptor.annotation
            if kind in (int, float):
                yield words, max(param.opts, key=len), kind is float


MEANT = {
    "--min-reward": {"-1", "0"},
    "--workers": {"0"},
    "--timeout": {"0"},
    "--expected-rows": {"0"},
    "--min-f1": {"0"},
    "--l2": {"0"},
    "--seed": {"-1", "0"},
    "--minhash-threshold": {"0"},
    "--minhash-perms": {"0"},
    "--min-margin": {"0"},
    "--min-confidence": {"0"},
}
"""Values that look like nonsense and are not."""
NUMERIC = [
    (words, option, value)
    for words, option, fractions in numeric_options()
    for value in ("-1", "0", "nan", "inf", "-inf", "1e999", *(() if fractions else ("0.5",)))
]


def test_the_options_that_take_numbers_are_found() -> None:
    found = {(words[0], option) for words, option, _ in NUMERIC}
    assert {("convert", "--expected-rows"), ("validate", "--expected-rows"), ("stream", "--timeout")} <= found
    assert {option for _, option, _ in NUMERIC} >= set(MEANT)


@pytest.mark.parametrize(("words", "option", "value"), NUMERIC, ids=lambda part: str(part))
def test_a_number_that_makes_no_sense_is_wrong_usage(
    words: list[str],
    option: str,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = f"Invalid value for '{option}'"
    if value in MEANT.get(option, ()):
        main([*words, option, value])
        assert refused not in capsys.readouterr().err
        return
    assert main([*words, option, value]) == 2
    assert refused in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    [
        ["traces-to-data", "in", "--out", "out.jsonl", "--judge-threshold", "nan"],
        ["traces-to-data", "in", "--out", "out.jsonl", "--judge-threshold", "a=inf"],
        ["traces-to-data", "in", "--out", "out.jsonl", "--min-signal", "tool_use=nan"],
        ["depth", "filter", "in.jsonl", "--out", "out.jsonl", "--target-mix", "single=nan"],
        ["depth", "filter", "in.jsonl", "--out", "out.jsonl", "--target-mix", "single=-1,multi=2"],
        ["depth", "filter", "in.jsonl", "--out", "out.jsonl", "--target-mix", "single=0"],
        ["depth", "filter", "in.jsonl", "--out", "out.jsonl", "--target-mix", "single=1", "--shortage", "upsample(0)"],
    ],
    ids=" ".join,
)
def test_nor_does_one_inside_a_text(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in.jsonl").write_text("")
    assert main(given) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "in.jsonl"]
