"""Tools that the product is measured against, each in an environment of its own, made on first use and kept.

Nothing of them is imported by the product, and nothing of the product is installed beside them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent


class Environment(NamedTuple):
    """A virtual environment: its packages with exact versions, and the Python that it needs."""

    name: str
    packages: tuple[str, ...]
    python: str | None = None
    """`3.12`; None: the Python that runs the benchmarks."""


BENCHFLOW = Environment("benchflow", ("benchflow==0.7.12.dev2426",), "3.12")
SKETCHES = Environment(
    "sketches",
    ("datasketch==2.0.0", "rensa==0.5.0", "xxhash==4.1.0", "pandas==3.1.1", "jsonschema==4.26.0", "numpy==2.4.6"),
)


def cache_folder() -> Path:
    """Where environments are kept: `FLYWHEEL_BENCH_CACHE`, else below the user's cache folder."""
    given = os.environ.get("FLYWHEEL_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "flywheel-bench"


def made(environment: Environment, python: str | None = None) -> Path | None:
    """The folder of its programs; made where it is not there yet. None where its Python is not installed."""
    folder = cache_folder() / environment.name
    mark = folder / "packages.txt"
    wanted = "\n".join(environment.packages)
    if mark.is_file() and mark.read_text() == wanted:
        return folder / "bin"
    interpreter = python or (_found(environment.python) if environment.python else sys.executable)
    if interpreter is None:
        return None
    print(f"installing {', '.join(environment.packages)} into {folder} ...", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*map(str, pip), *environment.packages], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{environment.name} cannot be installed:\n{done.stderr[-2000:]}")
    mark.write_text(wanted)
    return folder / "bin"


def _found(version: str) -> str | None:
    """A Python of this minor version: on the path, else among pyenv's."""
    if (named := shutil.which(f"python{version}")) and _runs(named, version):
        return named
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))]
    found = [p for root in roots for p in sorted((root / "versions").glob(f"{version}.*/bin/python"))]
    return next((str(path) for path in reversed(found) if _runs(str(path), version)), None)


def _runs(python: str, version: str) -> bool:
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version
