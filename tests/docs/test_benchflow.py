"""docs/benchflow.md: each difference names a test that exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "benchflow.md").read_text("utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and line.count("|") == 5]
FAULTS = [int(number) for number in re.findall(r"^\| (\d+) ", PAGE, re.MULTILINE)]


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_the_named_test_exists(file: str, name: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert f"def {name or 'test_'}" in text


def test_each_difference_names_one() -> None:
    differences = [row for row in ROWS if not row.startswith("| BenchFlow |")]
    assert len(differences) > 25
    for row in differences:
        assert "`tests/" in row.rsplit("|", 2)[1], row


def test_all_faults_are_listed_each_with_its_test() -> None:
    assert list(range(1, 37)) == FAULTS
    lines = re.findall(r"^\| \d+ .*$", PAGE, re.MULTILINE)
    assert all("`tests/" in line.rsplit("|", 2)[1] for line in lines)
