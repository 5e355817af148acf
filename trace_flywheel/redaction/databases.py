"""Hyperscan's databases, kept from process to process where Python keeps the bytecode of this package.

To compile them takes 0.3 s, to load them 0.2 ms. One that is kept is named by all that it is made of and begins with
its own digest: what is cut, damaged, of other rules or for another processor is compiled anew. Whoever can write there
can change the rules themselves, and a scanner proves every detector on its canary wherever its databases come from.
Where nothing can be written, every process compiles.
"""

import hashlib
import importlib.util
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hyperscan

FOLDER = Path(importlib.util.cache_from_source(__file__)).parent
MOST = 64
"""Files that may stand there: sets of rules come and go."""
UNFINISHED = 86_400
"""Seconds after which a file that was not finished is nobody's work."""


def database_of(expressions: Sequence[tuple[int, str]]) -> Any:
    """A database of (id, expression)."""
    made_of = json.dumps([version("hyperscan"), hyperscan.HS_MODE_BLOCK, *expressions])
    path = FOLDER / f"detectors-{hashlib.sha256(made_of.encode()).hexdigest()[:32]}.hs"
    kept = _kept(path)
    if kept is None:
        kept = _compiled(expressions)
        _keep(path, hyperscan.dumpb(kept))
    return kept


def _compiled(expressions: Sequence[tuple[int, str]]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[expression.encode() for _, expression in expressions],
        ids=[identity for identity, _ in expressions],
        flags=[0] * len(expressions),
    )
    return database


def _kept(path: Path) -> Any:
    with suppress(OSError, hyperscan.error):
        if not path.is_file():  # a pipe would never end
            return None
        held = path.read_bytes()
        if hashlib.sha256(held[32:]).digest() == held[:32]:
            database = hyperscan.loadb(held[32:], hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            return database
    return None


def _keep(path: Path, dump: bytes) -> None:
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        for left in path.parent.glob("detectors-*.part"):  # of a killed process
            if time.time() - left.stat().st_mtime >= UNFINISHED:
                left.unlink()
        if len(list(path.parent.glob("detectors-*.hs"))) >= MOST:
            return
        handle, name = tempfile.mkstemp(prefix="detectors-", suffix=".part", dir=path.parent)
        with open(handle, "wb") as file:
            file.write(hashlib.sha256(dump).digest() + dump)
        Path(name).replace(path)
