"""One kernel of a rival over lines of text: `plain.py KERNEL TEXTS [LIMIT]`. Runs in the rivals' environment.

TEXTS holds a JSON string (of `jsonschema` a row) a line. Prints CPU seconds and bytes as JSON; reading is not counted.
"""

import json
import re
import sys
import time
from pathlib import Path


def shingles(text):
    words = text.lower().split()
    return {" ".join(words[i : i + 5]).encode() for i in range(max(1, len(words) - 4))}


def update(texts):
    from datasketch import MinHash

    for text in texts:
        made = MinHash(num_perm=128)
        for shingle in shingles(text):
            made.update(shingle)


def datasketch(texts):
    """As well as its API allows."""
    import xxhash
    from datasketch import MinHash

    for _ in MinHash.generator(map(shingles, texts), num_perm=128, hashfunc=xxhash.xxh32_intdigest):
        pass


def rensa(texts):
    from rensa import RMinHash

    for text in texts:
        made = RMinHash(num_perm=128, seed=42)
        made.update([s.decode() for s in shingles(text)])
        made.digest()


def regexes(texts):
    patterns = [re.compile(pattern) for _, pattern in json.loads(Path(sys.argv[4]).read_text())]
    for text in texts:
        for pattern in patterns:
            pattern.findall(text)


def jsonschema(rows):
    from jsonschema import Draft202012Validator

    check = Draft202012Validator(json.loads(Path(sys.argv[4]).read_text()))
    for row in rows:
        check.validate(row)


KERNELS = {"update": update, "datasketch": datasketch, "rensa": rensa, "re": regexes, "jsonschema": jsonschema}

if __name__ == "__main__":
    lines = Path(sys.argv[2]).read_text().splitlines()[: int(sys.argv[3])]
    items = [json.loads(line) for line in lines]
    size = sum(
        len(item.encode()) if isinstance(item, str) else len(line) for item, line in zip(items, lines, strict=True)
    )
    start = time.process_time()
    KERNELS[sys.argv[1]](items)
    print(json.dumps({"cpu": time.process_time() - start, "bytes": size, "items": len(items)}))
