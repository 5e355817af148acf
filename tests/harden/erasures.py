"""An erasure that is killed between two changes of the file system, or finds the disk full, wherever that is.

Whatever was done until then: readers find whole versions, a refresh publishes nothing of what is to go, and the erasure
asked for again ends with the same files as one that nobody disturbed.
"""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.flow.conftest import Flow, group, sentence, trace, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.lake.dataset import fates, find_version, names, provenance
from trace_flywheel.lake.fingerprints import key_of
from trace_flywheel.lake.index import LINES
from trace_flywheel.lake.lock import MARK

CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"})
CANARY = sentence(2)
REASON = ("--reason", "request 17")
Disturbed = Callable[[int, Path, Path, tuple[str, ...]], tuple[str, list[str]]]
"""Of the number of changes that an erasure makes, home, root and how it is asked for: what was done, and its faults."""


def killed(seed: int, rounds: int, work: Path) -> Iterator[str]:
    """Faults of `rounds` erasures, each killed once or twice."""
    rng = random.Random(seed)

    def disturbed(total: int, home: Path, root: Path, way: tuple[str, ...]) -> tuple[str, list[str]]:
        kills = [rng.randint(1, total) for _ in range(rng.choice((1, 1, 1, 2)))]
        for at in kills:
            _in_a_process(partial(_until, at, home, root, way))
        return f"killed at {kills}", []

    yield from _rounds(rng, rounds, work, disturbed)


def disk_full(seed: int, rounds: int, work: Path) -> Iterator[str]:
    """Faults of `rounds` erasures that could not write a file above some size."""
    rng = random.Random(seed)

    def disturbed(total: int, home: Path, root: Path, way: tuple[str, ...]) -> tuple[str, list[str]]:
        limit = int(10 ** rng.uniform(1.5, 4.5))
        return f"files of {limit} bytes", _in_a_process(partial(_limited, limit, home, root, way))

    yield from _rounds(rng, rounds, work, disturbed)


def _rounds(rng: random.Random, rounds: int, work: Path, disturbed: Disturbed) -> Iterator[str]:
    """Faults of erasures that are disturbed, each in a copy of one home."""
    work.mkdir(exist_ok=True)
    root, before = _home(work)
    value = work / "value.txt"
    value.write_text(CANARY + "\n")
    ways = (("--value-from", str(value)), ("--trace", "a-1", "--run", "r1"))
    undisturbed = {}
    for way in ways:
        shutil.copytree(before, home := work / "home")
        total = _changes(home, root, way)
        undisturbed[way] = (total, files(home))
        yield from (f"{way[0]}, undisturbed: {fault}" for fault in _left(home))
        shutil.rmtree(home)
    for number in range(rounds):
        way = ways[number % len(ways)]
        total, expected = undisturbed[way]
        shutil.copytree(before, home := work / "home")
        how, faults = disturbed(total, home, root, way)
        refreshed = rng.random() < 0.4
        told = f"{way[0]}, {how}" + ", refreshed" * refreshed
        faults += _in_a_process(partial(_ended, home, root, way, refreshed))
        yield from (f"{told}: {fault}" for fault in faults)
        if not refreshed:
            yield from (f"{told}: {name} is another file" for name in _other(expected, files(home)))
        shutil.rmtree(home)


def files(home: Path) -> dict[str, str]:
    """Digests of all files of a home, by path. Of the lock whether its last writer ended well, not who that was."""
    found = sorted(p for p in home.rglob("*") if p.is_file())
    held = {p: p.read_bytes()[MARK if p == home / "lock" else 0 :] for p in found}
    return {p.relative_to(home).as_posix(): hashlib.sha256(data).hexdigest() for p, data in held.items()}


def holding(home: Path, text: str) -> list[str]:
    """Files below a home that hold a text, in tables or outside."""
    found = []
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            with suppress(pa.ArrowInvalid):  # its writer was killed
                data += json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
        if text.encode() in data:
            found.append(path.relative_to(home).as_posix())
    return found


def _home(work: Path) -> tuple[Path, Path]:
    """(root, home): three runs, one of which said something else when the first versions were made."""
    rows = {"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": [trace("a-0", "b", 1.0, 50)]}
    rows["r3"] = [*group("c", (1.0, 0.0, 0.5, 0.6), 30), trace("unsure", "d", None, 40, "unsure")]
    root, home = write_runs(work / "data", rows), work / "before"
    Flow(root, home).run()
    rows["r1"][0]["messages"][1]["content"] = sentence(77)
    write_runs(root, rows)
    key_of(Flow(root, home).lake.root)  # so that fingerprints are the same in all copies
    Flow(root, home).run()
    with redirect_stdout(StringIO()):
        main(["export", "kto_dataset", "--format", "kto", "--out", str(home / "mine"), "--home", str(home)])
    return root, home


def _erase(home: Path, root: Path, way: tuple[str, ...]) -> int:
    os.environ["FLYWHEEL_ROOTS"] = json.dumps([str(root)])
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return main(["purge", *way, *REASON, "--home", str(home)])


def _until(at: int, home: Path, root: Path, way: tuple[str, ...]) -> list[str]:
    """Erase, and be killed before the change number `at`."""
    _counting(lambda number: os.kill(os.getpid(), signal.SIGKILL) if number == at else None)
    _erase(home, root, way)
    return []


def _limited(limit: int, home: Path, root: Path, way: tuple[str, ...]) -> list[str]:
    """Erase while no file may grow above a size; what is wrong with how it ends."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    os.environ["FLYWHEEL_ROOTS"] = json.dumps([str(root)])
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as said:
        code = main(["purge", *way, *REASON, "--home", str(home)])
    if code == 0 or (code == 1 and "found no room" in said.getvalue().splitlines()[-1]):
        return []
    return [f"ended with {code}: {said.getvalue()[-200:]}"]


def _changes(home: Path, root: Path, way: tuple[str, ...]) -> int:
    """How many changes an erasure makes."""

    def counted() -> list[str]:
        seen: list[int] = []
        _counting(seen.append)
        code = _erase(home, root, way)
        return [str(len(seen))] if code == 0 else []

    (told,) = _in_a_process(counted)
    return int(told)


def _counting(change: Callable[[int], Any]) -> None:
    """Call with 1, 2 … before every change of the file system that Python makes in this process from now on."""
    number = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal number
        written = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in CHANGES or written:
            number += 1
            change(number)

    sys.addaudithook(hook)


def _ended(home: Path, root: Path, way: tuple[str, ...], refreshed: bool) -> list[str]:
    """Faults of a home in which an erasure was killed; the erasure is asked for again."""
    faults = []
    for name in names(home):
        version = find_version(home, name)
        if fates(version).num_rows == 0 or len(list(provenance(version))) != version.rows:
            faults.append(f"{name}: its newest version is not whole")
    begun = (home / "lake" / "purged.jsonl").is_file()
    if refreshed:
        Flow(root, home).run()
        newest = [find_version(home, name).path for name in names(home)]
        if begun:
            faults += [f"a refresh published {found}" for path in newest for found in holding(path, CANARY)]
    code = _erase(home, root, way)
    if code and not (way[0] == "--trace" and not _left(home)):  # it had ended, so that nothing was left to erase
        faults.append(f"the erasure ended with {code}")
    return faults + _left(home)


def _left(home: Path) -> list[str]:
    faults = [f"{path} holds it" for path in holding(home, CANARY)]
    faults += [f"{p.relative_to(home)} is left over" for p in home.rglob(".tmp-*")]
    return faults + (["it is not ended"] if (home / "lake" / "purging").exists() else [])


def _other(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """Files that differ. What is known of a version's lines an erasure forgets: it may be unknown, never another."""
    differ = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return [name for name in differ if not _is_forgotten(name, expected) and not _is_forgotten(name, found)]


def _is_forgotten(name: str, files: dict[str, str]) -> bool:
    """Whether it is of a table of lines that is not there."""
    table = "/".join(name.split("/")[:2])
    return table.endswith(LINES) and f"{table}/current" not in files


def _in_a_process(work: Callable[[], list[str]]) -> list[str]:
    """What `work` says in a fork of this process; nothing where it is killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            said = work()
        except BaseException as error:
            said = [f"{type(error).__name__}: {error}"]
        with os.fdopen(writer, "w") as stream:
            json.dump(said, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return list(json.loads(text)) if text else []
