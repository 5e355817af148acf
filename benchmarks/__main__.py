"""`make bench`: convert on a generated job, measured as whole processes.

Prints wall seconds, user CPU and peak memory. With more than one worker only the wall time says something: the CPU of
the workers is not this process's.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.jobs import write_job

VARIANTS = (
    ("prime-sft", ["--workers", "1"]),
    ("prime-sft, 2 workers", ["--workers", "2"]),
    ("prime-sft, not redacted", ["--workers", "1", "--no-redact"]),
    ("trl-sft", ["--format", "trl-sft", "--workers", "1"]),
    ("prime-sft, one row a call", ["--row-mode", "exchange", "--workers", "1"]),
    ("prime-sft, one row a call, 2 workers", ["--row-mode", "exchange", "--workers", "2"]),
    ("prime-sft, grpo advantages", ["--group-advantage", "grpo", "--group-by", "task,agent,model", "--workers", "1"]),
)


def measured(arguments: list[str]) -> tuple[float, float, float]:
    """(wall seconds, user CPU seconds, peak MB) of a `flywheel` command."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "trace_flywheel.cli.main", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"flywheel {' '.join(arguments)} failed")
    return time.perf_counter() - start, usage.ru_utime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = write_job(folder / "jobs", trials)
        size = sum(file.stat().st_size for file in job.rglob("*.jsonl")) / 1e6
        print(f"{trials} trials, {size:.0f} MB of captures")
        for label, arguments in VARIANTS:
            wall, user, peak = measured(["convert", str(folder / "jobs"), "--out", str(folder / "rows"), *arguments])
            rows = (folder / "rows").stat().st_size / 1e6
            print(f"{label:38} {wall:7.2f} s wall {user:7.2f} s user {peak:6.0f} MB peak {rows:7.0f} MB out")


if __name__ == "__main__":
    main()
