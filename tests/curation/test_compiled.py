import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from datasketch import MinHash

from trace_flywheel.curation.sketch import shingle_hashes, sketch

ANSWER = """
import json, sys
if sys.argv[1] == "plain":
    sys.modules["numba"] = None
import numpy as np, pandas as pd
from trace_flywheel.curation import compiled
from trace_flywheel.curation.dedup import near_duplicates
from trace_flywheel.curation.sketch import Spans
words = [f"w{i * 7919 % 211}" for i in range(200)]
texts = [" ".join([*words[:k], "new", *words[k + 1:]]) for k in (10, 60, 120)]
texts += [" ".join(words[100:]), "几个 汉字 在这里吧"]
spans = Spans.of_texts(texts)
frame = pd.DataFrame({"run_id": "r", "trace_id": [f"t{i}" for i in range(5)]})
answer = near_duplicates(frame, np.ones(5, bool), np.arange(5), Spans.of_texts(["p"] * 5), spans, 0.85)
print(json.dumps([compiled.COMPILED, spans.values.tolist(), spans.sketches.tolist(), answer.to_dict("list")]))
"""


def run(mode: str, **environment: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", ANSWER, mode],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
    )
    answer: list[object] = json.loads(done.stdout)
    return answer


def test_same_numbers_without_a_compiler() -> None:
    plain, fast = run("plain"), run("compiled")
    assert (plain[0], fast[0]) == (False, True)
    assert plain[1:] == fast[1:]


def test_folder_that_cannot_be_written_is_no_fault() -> None:
    assert run("compiled", NUMBA_CACHE_DIR="/dev/null/x") == run("compiled")


def test_the_compiler_is_loaded_by_the_first_loop_that_runs() -> None:
    code = """
import sys
import numpy as np
from trace_flywheel.curation import dedup, near_kernel
before = "numba" in sys.modules
same = near_kernel.jaccard(np.array([1, 2, 2, 3]), np.array([0, 2, 4]), 0, 1)
print(before, "numba" in sys.modules, round(same, 2))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == [b"False", b"True", b"0.33"]


@pytest.mark.slow
def test_sketching_is_a_hundred_times_faster_than_update_per_shingle() -> None:
    """A ratio within one run: the machine's speed cancels out."""
    words = [f"word{i * 7919 % 10007}" for i in range(4000)]
    text = " ".join(words)
    sketch(shingle_hashes(text))
    start = time.process_time()
    for _ in range(50):
        ours = sketch(shingle_hashes(text))
    fast = (time.process_time() - start) / 50
    start = time.process_time()
    slow_hash = MinHash(num_perm=128, scheme="affine32")
    for i in range(len(words) - 4):
        slow_hash.update(" ".join(words[i : i + 5]).encode())
    slow = time.process_time() - start
    assert ours.dtype == np.uint32
    assert slow > 100 * fast
