"""The published cases: `flywheel convert` against the rows that BenchFlow wrote for the same folders."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.corpus
@pytest.mark.slow
def test_every_case_of_the_main_path_agrees(shared_dir: Path, tmp_path: Path) -> None:
    flywheel = tmp_path / "flywheel"
    flywheel.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trace_flywheel.cli.main "$@"\n')
    flywheel.chmod(0o755)
    must_match = (shared_dir / "conformance" / "must-match.txt").read_text().splitlines()
    cases = sorted({line.split()[1].split("/")[0] for line in must_match if line.startswith("flow ")})
    checkout = Path(__file__).parents[1]
    command = [sys.executable, str(shared_dir / "conformance" / "run.py"), "--tag", "flow", *cases]
    done = subprocess.run(
        [*command, "--flywheel", str(flywheel)],
        env={"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " 0 must-match variants differ" in done.stdout
