"""Text as agents write and read it: prose with code, log lines and listings in between. Seeded, and no two alike."""

import random
import re
import string

WORDS = """the value of each sample and file was read from disk before a run so that result count time model data
    test error line step task path build cache index query table column server client config module function
    return import class self none true false list dict string number array parse write open close check
    update remove""".split()  # noqa: SIM905  # a list of one word a line says no more
CODE = (
    "def load(path: str) -> dict:",
    "    with open(path) as f:",
    "        return json.load(f)",
    "total = sum(row['count'] for row in rows)",
    "INFO  worker-3  batch 118 done in 0.482s (max_tokens=4096)",
    "-rw-r--r-- 1 root root 18433 Nov  4 17:49 data/decay.csv",
    "commit 4f1c2b7d9e0a8b6c5d4e3f2a1b0c9d8e7f6a5b4c",
    '{"id": 4711, "name": "sample", "ok": true, "score": 0.75}',
    "https://docs.example.org/en/latest/api/module.html#section-2",
)


def text(rng: random.Random, size: int) -> str:
    """About `size` characters."""
    lines: list[str] = []
    length = 0
    while length < size:
        line = rng.choice(CODE) if rng.random() < 0.3 else " ".join(rng.choices(WORDS, k=12)) + "."
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)[:size]


def secret(rng: random.Random) -> str:
    """A token of a format that every scanner knows; put together here, so that no scanner finds it in this file."""
    return "gh" + "p_" + "".join(rng.choices(string.ascii_letters + string.digits, k=36))


def shingles(words: str) -> set[tuple[str, ...]]:
    """Word 5-shingles, case-folded: the plain definition that kernels are held against."""
    tokens = words.lower().split()
    return {tuple(tokens[i : i + 5]) for i in range(max(1, len(tokens) - 4))} if tokens else set()


def jaccard(left: str, right: str) -> float:
    """Exact Jaccard of two texts' shingles."""
    a, b = shingles(left), shingles(right)
    return len(a & b) / len(a | b) if a | b else 1.0


def with_block_replaced(rng: random.Random, answer: str, words: int) -> str:
    """The text with a run of `words` words that nothing else holds."""
    pieces = re.split(r"(\s+)", answer)
    places = [i for i, piece in enumerate(pieces) if piece.strip()]
    start = rng.randrange(max(1, len(places) - words))
    for i in places[start : start + words]:
        pieces[i] = f"new{rng.randrange(10**9)}"
    return "".join(pieces)
