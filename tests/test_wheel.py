"""The wheel holds everything that an installed flywheel needs, and works outside the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
PARTS = ("trace_flywheel", "schemas", "pyproject.toml", "README.md")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that no build folder appears in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        source = CHECKOUT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((folder / "dist").glob("*.whl"))


def test_schemas_data_and_definitions_are_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"trace_flywheel/schemas/{p.name}" for p in (CHECKOUT / "schemas").glob("*.json")}
    wanted |= {
        p.relative_to(CHECKOUT).as_posix()
        for p in (CHECKOUT / "trace_flywheel").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert "trace_flywheel/orchestration/definitions.py" in names
    assert wanted - names == set()
    assert not [n for n in names if n.startswith(("tests/", "definitions.py"))]


def test_an_installed_flywheel_works_elsewhere(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(site), "FLYWHEEL_HOME": str(tmp_path / "home")}
    code = (
        "import trace_flywheel, trace_flywheel.orchestration.definitions as d; print(trace_flywheel.__file__, d.defs)"
    )
    for command in (["-c", code], ["-m", "trace_flywheel.cli.main", "doctor"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=elsewhere, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert str(site) in done.stdout
