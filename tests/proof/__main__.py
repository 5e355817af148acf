"""`make proof`: the demo in a fresh home, and for each invariant of the project what was looked at and how often.

    python -m tests.proof [--kills N]

Everything is read back from the files that the run left, not from what it says about itself. Exit 1 when one fails.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.harden import crashes, home
from tests.proof.invariants import INVARIANTS, Evidence
from trace_flywheel.cli.main import main as flywheel


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=3, help="refreshes killed at random moments")
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "home"
        if flywheel(["demo", "--home", str(own)]):
            return 1
        evidence = Evidence(own, own / "demo-runs")
        print()
        broken = 0
        for name, check in INVARIANTS.items():
            said, faults = check(evidence)
            broken += _tell(name, said, faults)
        copies = list(crashes.same_bytes(0, 1, Path(folder) / "copies"))
        files = len(home.newest(own))
        said = f"{files} files of a home fed in another order, hash seed and number of processes"
        broken += _tell("determinism", said, copies)
        killed = list(crashes.killed(0, kills, Path(folder) / "killed"))
        said = f"{kills} refreshes killed; what was published stayed whole, and the end is the same bytes"
        broken += _tell("atomicity", said, killed)
    print(f"\n{'all invariants hold' if not broken else f'{broken} invariant(s) broken'}")
    return 1 if broken else 0


def _tell(name: str, said: str, faults: list[str]) -> bool:
    print(f"{'BROKEN' if faults else 'holds ':6}  {name:<16}{said}", flush=True)
    for fault in faults[:10]:
        print(f"        {fault}", flush=True)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
