"""The command table: fast help, exit codes, one line for a user's error."""

import inspect
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

from trace_flywheel.cli import main as cli
from trace_flywheel.records.errors import FlywheelError

WRITTEN = [name for name in cli.COMMANDS if find_spec(f"trace_flywheel.cli.{name.replace('-', '_')}")]


def test_help_lists_every_command_with_its_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, line in cli.COMMANDS.items():
        assert name in shown
        assert line in shown


def test_help_imports_no_command_and_nothing_heavy() -> None:
    code = (
        "import sys; from trace_flywheel.cli.main import main, COMMANDS; main(['--help']);"
        "heavy = {'dagster', 'pandas', 'numba', 'pyarrow', 'sklearn', 'pydantic'} & set(sys.modules);"
        "own = [n for n in COMMANDS if 'trace_flywheel.cli.' + n in sys.modules];"
        "sys.exit(f'imported: {heavy} {own}' if heavy or own else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("argv", [["nope"], ["--nope"], []], ids=["command", "option", "nothing"])
def test_wrong_usage_exits_2(argv: list[str]) -> None:
    assert cli.main(argv) == 2


def test_a_users_error_is_one_line_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refresh() -> None:
        raise FlywheelError("runs/:\n no such folder; give another with --root")

    monkeypatch.setattr(cli, "import_of", lambda name: refresh)
    assert cli.main(["refresh"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "flywheel: runs/: no such folder; give another with --root\n"
    assert captured.out == ""


def test_an_unreadable_file_is_one_line_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "import_of", lambda name: lambda: Path("/nowhere/at/all").read_bytes())
    assert cli.main(["refresh"]) == 1
    assert capsys.readouterr().err == "flywheel: /nowhere/at/all: No such file or directory\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("name", WRITTEN)
def test_each_command_has_a_help_page_and_documented_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert cli.COMMANDS[name].split(".")[0].split()[0] in capsys.readouterr().out
    found = cli.import_of(name)
    functions = [c.callback for c in found.registered_commands] if isinstance(found, typer.Typer) else [found]
    for parameter in (p for function in functions for p in inspect.signature(function).parameters.values()):
        assert getattr(parameter.annotation, "__metadata__", None), f"{name}: {parameter.name} is undocumented"


@pytest.mark.parametrize(
    ("environment", "words", "said"),
    [
        ({}, ["--config", "nowhere.toml"], "nowhere.toml: no such settings file"),
        ({}, ["--config", "bad.toml"], "bad.toml: not valid TOML"),
        ({"FLYWHEEL_SELECTION__KEEP_FRACTION": "abc"}, [], "selection.keep_fraction"),
        ({"FLYWHEEL_FOO__BAR": "1"}, [], "FLYWHEEL_FOO__BAR"),
        ({"FLYWHEEL_ROOTS": "jobs"}, [], "roots"),
    ],
)
def test_settings_that_make_no_sense_are_wrong_usage(tmp_path, monkeypatch, capsys, environment, words, said) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("x = [")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["datasets", *words]) == 2
    assert said in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.toml"]


def called(*words: str, encoding: str) -> "subprocess.CompletedProcess[bytes]":
    """The command line in a process with this encoding of its output."""
    code = f"import sys; from trace_flywheel.cli.main import main; sys.exit(main({list(words)!r}))"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, cwd=Path(__file__).parents[2], timeout=120
    )


@pytest.mark.parametrize(
    ("encoding", "told"),
    [
        ("ascii", b"\\u00e9\\u4e16\\ud83d\\ude00"),
        ("latin-1:strict", b"\xe9\\u4e16\\ud83d\\ude00"),
        ("utf-8:strict", "é世😀".encode()),
    ],
)
def test_what_stdout_cannot_say_is_escaped(encoding: str, told: bytes, tmp_path: Path) -> None:
    (tmp_path / "é世😀").mkdir()
    done = called("doctor", "--home", str(tmp_path / "é世😀"), "--json", encoding=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert told in done.stdout
    home = next(one for one in json.loads(done.stdout.decode(encoding.split(":")[0])) if one["what"] == "home")
    assert home["found"] == str(tmp_path / "é世😀")


def test_a_name_may_be_bytes_that_are_no_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"r\xff")
    folder.mkdir()
    (folder / "a.json").write_text('{"a": 1}')
    done = called("redact", f"{folder}/a.json", "--out", f"{folder}/b.json", encoding="utf-8:strict")
    assert (done.returncode, done.stdout.count(b"r\\udcff/b.json")) == (0, 1), done.stderr
    done = called("datasets", "--home", str(folder), encoding="utf-8:strict")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.count(b"\n") == done.stderr.count(b"the home's path is not UTF-8") == 1


@pytest.mark.parametrize(("said", "found"), [(None, "1"), ("4", "4")])
def test_no_threads_for_matrices_unless_the_environment_says_so(
    said: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", said or "")
    if said is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    assert cli.main(["--version"]) == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == found


def test_no_python_that_is_started_takes_a_module_of_the_current_folder_for_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    assert cli.main(["--version"]) == 0
    assert os.environ["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize("words", [["sources", ""], ["refresh", "--root", ""], ["refresh", "--root="], ["convert", ""]])
def test_an_empty_word_is_wrong_usage_not_the_working_folder(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    assert capsys.readouterr().err.startswith("flywheel: an argument is empty, as of a variable that is not set")
    assert not list(tmp_path.iterdir())


def test_streams_that_the_caller_closed_take_no_files_number(tmp_path: Path) -> None:
    """Else the first file that a command opens is its standard output."""
    code = (
        "import os, sys; from trace_flywheel.cli.main import main; done = main(['sources', sys.argv[1]]); "
        "os.write(1, b'said'); names = [os.readlink(f'/proc/self/fd/{n}') for n in (0, 1, 2)]; "
        "sys.exit(done or names != ['/dev/null'] * 3)"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(words, check=False, preexec_fn=lambda: os.closerange(0, 3), cwd=Path(__file__).parents[2])
    assert done.returncode == 0
