"""The standing index of a corpus, alone: `python -m benchmarks.standing_index --rows 1000000`.

Writes a seeded corpus of rows of about 1.4 KB (a prompt of 60 words, an answer of 250), indexes it, and measures, each
in a process of its own: making the index, opening it, checking 1,000 new rows (300 near-duplicates of known rows with
known exact Jaccard, 100 copies, 600 of nobody) with their sketching, and bringing it up to date after 1,000 more rows.
Memory is what the process has of its own (anonymous), beyond what it had with all libraries loaded.
"""

import argparse
import json
import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from trace_flywheel.curation.message_hashes import exact_hash
from trace_flywheel.curation.sketch import Spans, shingle_hashes
from trace_flywheel.curation.standing import Corpus
from trace_flywheel.flow.corpora import open_corpora
from trace_flywheel.flow.corpus_segments import Comparison
from trace_flywheel.lake.segments import shelves
from trace_flywheel.records.message import Message

WORDS = np.array([f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "l", "st", "ck", "d", "m")])
PROMPT, ANSWER = 60, 250
NEAR, COPIES, NEW = 300, 100, 600
THRESHOLD = 0.85


def texts(rng: np.random.Generator, rows: int, words: int) -> Iterator[str]:
    for start in range(0, rows, 1000):
        for ids in rng.integers(0, len(WORDS), (min(1000, rows - start), words)):
            yield " ".join(WORDS[ids].tolist())


def write_corpus(path: Path, rows: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    with path.open("ab") as file:
        for prompt, answer in zip(texts(rng, rows, PROMPT), texts(rng, rows, ANSWER), strict=True):
            turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
            file.write(orjson.dumps({"messages": turns}) + b"\n")
    return path


def questions(path: Path, rows: int, seed: int) -> tuple[list[tuple[str, str]], np.ndarray, np.ndarray]:
    """New rows, the corpus row that each is made from (-1: none), and the Jaccard of the answers."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(rows, NEAR + COPIES, replace=False))
    wanted, known = set(chosen.tolist()), []
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if number in wanted:
                known.append([m["content"] for m in orjson.loads(line)["messages"]])
    asked, shares = [], []
    for i, (prompt, answer) in enumerate(known):
        words = answer.split()
        run, at = 0 if i % 4 == 3 else int(rng.integers(1, 19)), int(rng.integers(20, ANSWER - 40))
        words[at : at + run] = [f"edit{n}" for n in rng.integers(10**9, size=run)]
        asked.append((prompt, " ".join(words)))
        left, right = set(shingle_hashes(answer).tolist()), set(shingle_hashes(" ".join(words)).tolist())
        shares.append(len(left & right) / len(left | right))
    asked += zip(texts(rng, NEW, PROMPT), texts(rng, NEW, ANSWER), strict=True)
    return asked, np.append(chosen, np.full(NEW, -1)), np.append(shares, np.zeros(NEW))


def own_memory() -> float:
    """Anonymous MB of this process."""
    found = re.search(r"^Anonymous: +(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) / 1e3 if found else float("nan")


def measured(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What a fresh process measures."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_in_process, (work, arguments))


def _in_process(work: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:  # all loops are compiled, all libraries loaded
        opened(write_corpus(Path(name) / "small.jsonl", 50, 1), Path(name))
        check(open_corpora([Path(name) / "small.jsonl"], Path(name), Comparison()).corpus, [("a b c d e f", "g")])
    before = own_memory()
    start, cpu = time.perf_counter(), time.process_time()
    found = work(*arguments)
    took = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    return {**took, "own_mb": own_memory() - before, **found}


def opened(path: Path, home: Path) -> dict[str, Any]:
    return {"rows": open_corpora([path], home, Comparison()).rows}


def check(corpus: Corpus | None, asked: list[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray]:
    """(row that equals each, row near to it), sketches included."""
    assert corpus is not None
    hashes = [exact_hash((Message("user", p), Message("assistant", a)), ()) for p, a in asked]
    equal = corpus.equal(hashes)
    near, _ = corpus.near(Spans.of_texts(p for p, _ in asked), Spans.of_texts(a for _, a in asked), THRESHOLD)
    return equal, near


def checked(path: Path, home: Path, asked: list[tuple[str, str]], of: np.ndarray, share: np.ndarray) -> dict[str, Any]:
    corpus = open_corpora([path], home, Comparison()).corpus
    took = []
    for _ in range(2):
        start = time.process_time()
        equal, near = check(corpus, asked)
        took.append(time.process_time() - start)
    is_near, found = share >= THRESHOLD, near >= 0
    just = is_near & (share < 0.88)
    return {
        "first_cpu_seconds": took[0],
        "again_cpu_seconds": took[1],
        "recall": float((near[is_near] == of[is_near]).mean()),
        "recall_85_88": float((near[just] == of[just]).mean()) if just.any() else None,
        "near_85_88": int(just.sum()),
        "precision": float((share[found] >= THRESHOLD).mean()),
        "copies_found": int(((equal == of) & (share == 1)).sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.standing_index", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="keep corpus and index here")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder: Path = given.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        path, home = folder / "corpus.jsonl", folder / "home"
        if not path.exists():
            write_corpus(path, given.rows, 7)
        size = path.stat().st_size
        print(json.dumps({"rows": given.rows, "corpus_mb": size / 1e6}))
        print(
            json.dumps(
                {
                    "step": "make the index",
                    **(made := measured(opened, path, home)),
                    "mb_per_cpu_s": size / 1e6 / made["cpu_seconds"],
                }
            )
        )
        states = [state for shelf in shelves(home / "lake") if (state := shelf.state()) is not None]
        print(
            json.dumps({"index_mb": sum(s.size for s in states) / 1e6, "segments": [len(s.segments) for s in states]})
        )
        time.sleep(2.1)  # a file that changed this moment is not trusted
        print(json.dumps({"step": "look at its bytes again", **measured(opened, path, home)}))
        print(json.dumps({"step": "open", **measured(opened, path, home)}))
        print(
            json.dumps({"step": "check 1,000 rows", **measured(checked, path, home, *questions(path, given.rows, 8))})
        )
        write_corpus(path, 1000, 9)
        print(json.dumps({"step": "1,000 rows more", **measured(opened, path, home)}))


if __name__ == "__main__":
    main()
