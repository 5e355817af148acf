"""`make harden`: a long hostile run against the embedded sample. Exit 1 when one promise breaks.

    python -m tests.harden [--seed N] [--fuzz N] [--kills N] [--erasures N] [--full N] [--copies N]
                          [--examples N] [--values N]

Each part says how much it tried and every fault that it found, with the seed that repeats it. A number of 0 leaves a
part out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.harden import crashes, erasures, readers, secrets

CHECKOUT = Path(__file__).parents[2]


def fuzzed(seed: int, rounds: int, work: Path) -> Iterator[str]:
    """Faults of `rounds` damaged copies of the sample."""
    for number in range(seed, seed + rounds):
        yield from readers.round_of(number, work / "fuzz")


def properties(examples: int) -> Iterator[str]:
    """The property tests that fail on `examples` examples each, drawn anew."""
    files = [p for p in sorted((CHECKOUT / "tests").rglob("test_*.py")) if "hypothesis" in p.read_text("utf-8")]
    command = [sys.executable, "-m", "pytest", "-q", "--hypothesis-profile=harden", "-m", "not corpus and not ui"]
    done = subprocess.run(
        [*command, *map(str, files)],
        cwd=CHECKOUT,
        env={**_environment(), "HARDEN_EXAMPLES": str(examples)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        yield done.stdout[-4000:]


def _environment() -> dict[str, str]:
    """Without the user's settings, which would decide what a test sees."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FLYWHEEL_")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harden", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="where the drawing begins")
    parser.add_argument("--fuzz", type=int, default=1500, help="damaged copies of the sample")
    parser.add_argument("--kills", type=int, default=25, help="refreshes killed at random moments")
    parser.add_argument(
        "--erasures", type=int, default=25, help="erasures killed at random changes of the disk, or on a full one"
    )
    parser.add_argument("--full", type=int, default=15, help="refreshes on a full disk")
    parser.add_argument("--copies", type=int, default=4, help="homes that must hold the same bytes")
    parser.add_argument("--examples", type=int, default=1000, help="examples of each property test")
    parser.add_argument("--values", type=int, default=20, help="secrets of each kind in each syntax, and near misses")
    asked = parser.parse_args()
    parts = (
        ("damaged folders through every reader and layout", asked.fuzz, fuzzed),
        ("refreshes killed", asked.kills, crashes.killed),
        ("erasures killed", asked.erasures, erasures.killed),
        ("erasures on a full disk", asked.erasures, erasures.disk_full),
        ("refreshes on a full disk", asked.full, crashes.disk_full),
        ("homes from shuffled copies", asked.copies, crashes.same_bytes),
        ("values of each kind of secret in each syntax", asked.values, secrets.round_of),
        ("examples of each property", asked.examples, lambda seed, rounds, work: properties(rounds)),
    )
    broken = 0
    for name, rounds, part in parts:
        if not rounds:
            continue
        began, found = time.monotonic(), 0
        with tempfile.TemporaryDirectory() as folder:
            for fault in part(asked.seed, rounds, Path(folder)):
                found += 1
                print(f"  {fault}", flush=True)
        print(f"{rounds} {name}: {found} fault(s), {time.monotonic() - began:.0f} s", flush=True)
        broken += found
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
