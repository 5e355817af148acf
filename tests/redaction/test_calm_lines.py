"""Text that names, measures, hashes or shows the form of secrets without holding one stays as it is, to the byte."""

import json
import sysconfig
from pathlib import Path

import pytest

from trace_flywheel.redaction.redact import redactor

LINES = (Path(__file__).parent / "calm_lines.txt").read_text("utf-8").splitlines()


def test_there_are_many() -> None:
    assert len(set(LINES)) == len(LINES) >= 200


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "in JSON"])
@pytest.mark.parametrize("line", LINES)
def test_a_line_stays(line: str, wrapped: bool) -> None:
    text = json.dumps({"output": f"$ cat file\n{line}\n"}) if wrapped else line
    assert redactor("all").redact_value(text) == (text, {})


def test_all_lines_together_stay() -> None:
    """A line may not complete a finding that begins on the one before."""
    text = "\n".join(LINES)
    assert redactor("all").redact_value(text) == (text, {})


@pytest.mark.slow
def test_the_standard_library_stays() -> None:
    """Every module that Python ships, but its tests, some of which do hold passwords."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = [p for p in sorted(root.rglob("*.py")) if not {"test", "tests", "site-packages"} & set(p.parts)]
    lines, touched = 0, {}
    for path in files:
        text = path.read_text("utf-8", "replace")
        lines += text.count("\n")
        if (clean := redactor("none").redact_value(text)[0]) != text:
            touched[path.name] = [a for a, b in zip(text.split("\n"), clean.split("\n"), strict=False) if a != b]
    assert lines > 200_000
    assert touched == {}
