"""What a command costs: wall, CPU and peak memory of it and of every process below it; rounds of several, interleaved.

Peaks are the kernel's high-water marks (VmHWM), read from /proc while the command runs: of the command itself and of
the largest of its workers. CPU is that of all of them.
"""

import os
import statistics
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

POLL = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    wall: float
    """Seconds."""
    cpu: float
    """Seconds of user and system time, workers included."""
    peak: float = 0.0
    """MB (2^20) of the main process."""
    workers: float = 0.0
    """MB of the largest worker; 0 without any."""
    out: str = ""
    """What it printed."""


class Ratio(NamedTuple):
    """How many times as much the rival takes, round by round."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.1f} ({self.low:.1f}-{self.high:.1f})"


class _Watch(threading.Thread):
    """Peaks and CPU of a process tree, while it lives."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.root, self.over = pid, threading.Event()
        self.peaks: dict[int, float] = {}
        self.cpu: dict[int, float] = {}

    def run(self) -> None:
        while not self.over.wait(POLL):
            for pid in _below(self.root):
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                    stat = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                for line in status.splitlines():
                    if line.startswith("VmHWM:"):
                        self.peaks[pid] = int(line.split()[1]) / 1024
                self.cpu[pid] = (int(stat[11]) + int(stat[12])) / TICKS


def _below(root: int) -> list[int]:
    """The process and all its descendants."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except OSError:  # the process, or a thread of it, has ended meanwhile
            continue
    return found


def cost_of(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Cost:
    """Run it to its end. A command that fails ends the benchmark with what it said."""
    start = perf_counter()
    given = {**os.environ, **(env or {})}
    given.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its bytecode, and so have the rivals
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=given)
    watch = _Watch(process.pid)
    watch.start()
    errors: list[bytes] = []
    assert process.stdout is not None
    assert process.stderr is not None
    drain = threading.Thread(target=lambda e=process.stderr: errors.append(e.read()))
    drain.start()
    out = process.stdout.read().decode()
    drain.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = perf_counter() - start
    watch.over.set()
    watch.join()
    if status:
        said = b"".join(errors).decode(errors="replace")[-2000:]
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{said}")
    # What the process waited for is in its usage; of the rest the last look counts.
    own = usage.ru_utime + usage.ru_stime
    others = sum(cpu for pid, cpu in watch.cpu.items() if pid != process.pid)
    waited = own > watch.cpu.get(process.pid, own) + 0.5 * others and others > 0
    workers = max((peak for pid, peak in watch.peaks.items() if pid != process.pid), default=0.0)
    main = max(watch.peaks.get(process.pid, 0.0), usage.ru_maxrss / 1024 if not workers else 0.0)
    return Cost(wall, own if waited else own + others, main, workers, out)


def interleaved(contestants: Mapping[str, Callable[[], Cost]], rounds: int) -> dict[str, list[Cost]]:
    """Every contestant once a round, so that whatever else the machine does meets all of them."""
    costs: dict[str, list[Cost]] = {name: [] for name in contestants}
    for number in range(rounds):
        order = list(contestants)
        for name in order if number % 2 == 0 else reversed(order):
            costs[name].append(contestants[name]())
    return costs


def ratio(rival: Sequence[float], own: Sequence[float]) -> Ratio:
    """Of figures taken in the same rounds."""
    each = [r / max(o, 1e-9) for r, o in zip(rival, own, strict=True)]
    return Ratio(statistics.median(each), min(each), max(each))


def median(costs: Sequence[Cost], what: str) -> float:
    return statistics.median(getattr(cost, what) for cost in costs)
