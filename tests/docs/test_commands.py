"""Every command that README and docs show runs as shown, and every command of the table is shown."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trace_flywheel.cli.demo import funnel
from trace_flywheel.cli.main import COMMANDS
from trace_flywheel.flow.names import NAMES
from trace_flywheel.sample.write import write_sample
from trace_flywheel.trainers.registry import layouts

CHECKOUT = Path(__file__).parents[2]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
SERVED = "flywheel ui"
"""Runs until it is stopped; tests/ui does that."""


def shown(page: Path) -> list[str]:
    """Commands of a page: lines that begin with `$` in its console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the sample lies as `runs`, refreshed into the default home."""
    folder = tmp_path_factory.mktemp("docs")
    write_sample(folder / "runs")
    write_side_files(folder)
    run(folder, "flywheel refresh --root runs")
    return folder


def write_side_files(folder: Path) -> None:
    """What people write: a correction and a judgment of the first recording, and labelled prompts."""
    trace = min((folder / "runs" / "recordings").iterdir()).stem
    labels = {"What year?": "single", "Find it, then count": "multi", "Tea or coffee?": "comparison", "A poem": "other"}
    files = {
        "corrections.jsonl": [{"trace_id": trace, "content": "There are 113 words in it."}],
        "scores.jsonl": [{"target": {"trace_id": trace}, "value": 0.9}],
        "labels.jsonl": [{"prompt": prompt, "label": label} for prompt, label in labels.items()],
    }
    for name, rows in files.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    assert program == "flywheel"
    done = subprocess.run(
        [sys.executable, "-m", "trace_flywheel.cli.main", *arguments],
        cwd=folder,
        env={"PATH": "", "PYTHONPATH": str(CHECKOUT), "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_in_their_order(page: Path, workplace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(workplace, folder)
    for command in shown(page):
        if not command.startswith(SERVED):
            run(folder, command)


def test_every_command_is_shown_somewhere() -> None:
    used = {shlex.split(command)[1] for page in PAGES for command in shown(page)}
    assert set(COMMANDS) - used == set()


def test_the_page_on_commands_shows_them_all_and_names_every_layout() -> None:
    page = CHECKOUT / "docs" / "commands.md"
    assert set(COMMANDS) - {shlex.split(command)[1] for command in shown(page)} == set()
    text = page.read_text("utf-8")
    assert [name for name in layouts() if f"`{name}`" not in text] == []


def test_the_readme_leads_to_every_page() -> None:
    text = (CHECKOUT / "README.md").read_text("utf-8")
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in text] == []


def test_every_dataset_is_explained() -> None:
    for page in ("concepts.md", "operating.md"):
        text = (CHECKOUT / "docs" / page).read_text("utf-8")
        assert [name for name in NAMES.values() if name not in text] == [], page


def test_links_and_pictures_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_funnel_of_the_readme_is_the_samples(workplace: Path, tmp_path: Path) -> None:
    shown_there = re.search(r"```text\n(.*?)```", (CHECKOUT / "README.md").read_text("utf-8"), re.DOTALL)
    assert shown_there is not None
    document = json.loads(run(workplace, "flywheel refresh --root runs --json").stdout)
    assert shown_there[1].strip() in "\n".join(funnel(document))
