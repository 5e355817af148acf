"""`make bench`: the product against its rivals, side by side in one run. See docs/benchmarks.md.

Gates are ratios of figures taken in the same rounds; absolute figures are told and never judged.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.report import document, table
from benchmarks.suites import Asked, Result

SUITES = ("kernels", "convert", "memory", "end-to-end", "scaling")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=str(__doc__).splitlines()[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--rollouts", type=int, default=200, help="of the generated corpora")
    parser.add_argument("--rounds", type=int, default=3, help="of interleaved measurements")
    parser.add_argument("--sample", type=int, default=40, help="rollouts for the straightforward build")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where corpora are written; a temporary folder else")
    parser.add_argument("--no-rivals", action="store_true", help="install and run no rival")
    parser.add_argument("--python312", metavar="PYTHON", help="for bench train convert; found by itself")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.suites if name not in SUITES]
    if unknown:
        parser.error(f"{unknown[0]}: no suite; there are {', '.join(SUITES)}")
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        for name in given.suites or SUITES:
            work = Path(folder) / name
            work.mkdir()
            asked = Asked(
                work, given.rollouts, given.rounds, given.sample, given.seed, not given.no_rivals, given.python312
            )
            suite = import_module(f"benchmarks.suites.{name.replace('-', '_')}")
            for result in suite.measure(asked):
                results.append(result)
                print(f"{result.what}: {result.own} {result.ratio or ''}", file=sys.stderr, flush=True)
    machine = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    if given.json:
        given.json.write_text(json.dumps(document(results, machine, given.rollouts, given.rounds), indent=1) + "\n")
    print(table(results))
    return int(any(result.passed is False for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
