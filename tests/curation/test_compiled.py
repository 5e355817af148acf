import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from datasketch import MinHash
from hypothesis import given, settings
from hypothesis.strategies import DataObject, data, integers, permutations

from trace_flywheel.curation import compiled
from trace_flywheel.curation.dedup import matches
from trace_flywheel.curation.sketch import Spans, shingle_hashes, sketch

ANSWER = """
import json, os, sys
if sys.argv[1] == "plain":
    sys.modules["numba"] = None
import numpy as np, pandas as pd
from trace_flywheel.curation import compiled
compiled.PATIENCE = -1.0
if "THEN" in os.environ:
    os.environ["NUMBA_DISABLE_JIT"] = os.environ["THEN"]
from trace_flywheel.curation.dedup import near_duplicates
from trace_flywheel.curation.sketch import Spans
words = [f"w{i * 7919 % 211}" for i in range(200)]
texts = [" ".join([*words[:k], "new", *words[k + 1:]]) for k in (10, 60, 120)]
texts += [" ".join(words[100:]), "几个 汉字 在这里吧"]
spans = Spans.of_texts(texts)
frame = pd.DataFrame({"run_id": "r", "trace_id": [f"t{i}" for i in range(5)]})
answer = near_duplicates(frame, np.ones(5, bool), np.arange(5), Spans.of_texts(["p"] * 5), spans, 0.85)
print(json.dumps([compiled.COMPILED, spans.values.tolist(), spans.sketches.tolist(), answer.to_dict("list"),
                  "numba" in sys.modules]))
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
    assert plain[1:4] == fast[1:4]


@pytest.mark.parametrize("how", ["before", "told to numba alone"])
def test_numba_that_is_switched_off_is_no_fault(how: str, tmp_path: Path) -> None:
    # The second is what `disable_jit` in numba's own file of settings does.
    switch = {"NUMBA_DISABLE_JIT": "1"} if how == "before" else {"THEN": "1"}
    off = run("off", NUMBA_CACHE_DIR=str(tmp_path), **switch)
    assert off[0] is (how != "before")
    assert off[1:4] == run("plain")[1:4]
    assert not list(tmp_path.glob("*.loop"))


def test_folder_that_cannot_be_written_is_no_fault() -> None:
    assert run("compiled", NUMBA_CACHE_DIR="/dev/null/x")[:4] == run("compiled")[:4]


def test_what_one_process_compiled_the_next_runs_without_the_compiler(tmp_path: Path) -> None:
    made, loaded = (run("compiled", NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert (made[4], loaded[4]) == (True, False)
    assert made[:4] == loaded[:4]
    for kept in tmp_path.glob("*.loop"):
        kept.write_bytes(kept.read_bytes()[:-1])
    torn = run("compiled", NUMBA_CACHE_DIR=str(tmp_path))
    assert torn == made


def test_the_compiler_is_loaded_by_the_first_loop_that_runs(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from trace_flywheel.curation import dedup, near_kernel
before = "numba" in sys.modules
same = near_kernel.shared(np.array([1, 2, 2, 3]), 0, 2, np.array([1, 2, 2, 3]), 2, 4)
blas = any(name.startswith("scipy.linalg") for name in sys.modules)
import scipy.linalg.cython_blas  # loads all the same when somebody wants it
print(before, "numba" in sys.modules, round(same, 2), blas)
"""
    said = []
    for _ in range(2):
        command, environment = [sys.executable, "-c", code], {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, check=True, cwd=Path(__file__).parents[2], env=environment)
        said.append(done.stdout.split())
    assert said == [[b"False", b"True", b"0.33", b"False"], [b"False", b"False", b"0.33", b"False"]]


SMALL = """
import sys
from trace_flywheel.curation.dedup import near_prompts
from trace_flywheel.curation.depth import DepthModel
from trace_flywheel.curation.depth_features import features
from trace_flywheel.curation.folding import folded_texts
from trace_flywheel.curation.sketch import Spans
import numpy as np
texts = [f"a small job of few words, and this is text {i} of it, " * 5 for i in range(40)]
spans = Spans.of_texts(texts)
near_prompts(np.arange(40) >= 20, np.arange(40) < 20, spans, 0.85)
features(texts)
folded_texts([texts[0].encode()])
DepthModel.of_seed_set().label(texts)
print("numba" in sys.modules, "scipy.sparse" in sys.modules)
"""


def test_a_small_job_loads_no_compiler_and_no_library_of_matrices() -> None:
    done = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == [b"False", b"False"]


def test_the_compiler_pays_once_its_twin_has_taken_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_spent", {})
    monkeypatch.setattr(compiled, "PATIENCE", 1.0)
    monkeypatch.setattr(compiled, "_kept_before", lambda _: False)
    monkeypatch.setattr(compiled._Declared, "loaded", False)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    assert [compiled.pays("a", 0.5), compiled.pays("a", 0.5), compiled.pays("a", 0.1)] == [False, False, True]
    assert [compiled.pays("b", 0.9), compiled.pays("c", 1.5)] == [False, True]
    monkeypatch.setitem(sys.modules, "numba", sys)
    assert [compiled.pays("d", 0.25), compiled.pays("d", 0.01)] == [False, True]
    monkeypatch.setattr(compiled, "_kept_before", lambda _: True)
    assert [compiled.pays("e", 0.09), compiled.pays("e", 0.02)] == [False, True]
    monkeypatch.setattr(compiled._Declared, "loaded", True)
    assert [compiled.pays("f", 0.009), compiled.pays("f", 0.002)] == [False, True]
    monkeypatch.setattr(compiled, "COMPILED", False)
    assert not compiled.pays("c", 9.0)


@settings(max_examples=30, deadline=None)
@given(data())
def test_the_greedy_pass_is_the_same_in_plain_python(given: DataObject) -> None:
    n = given.draw(integers(1, 12))
    words = [f"w{i}" for i in range(30)]
    texts = [" ".join([*words[: (k := given.draw(integers(0, 3)))], "x", *words[k + 1 :]]) for _ in range(n)]
    owner = np.array([given.draw(integers(0, 3)) for _ in range(n)])
    rank, spans = np.array(given.draw(permutations(range(n)))), Spans.of_texts(texts)
    answers = []
    for patience in (1e9, -1.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "PATIENCE", patience)
            answers.append(matches(owner, rank, spans, spans, 0.6))
    assert answers[0][0].tolist() == answers[1][0].tolist()
    assert answers[0][1].tolist() == answers[1][1].tolist()


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    """Each tells whether it needed the compiler."""
    code = """
import sys
from trace_flywheel.curation.near_kernel import alike
alike(1, 2, 0.5)
print("numba" in sys.modules)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    root = Path(__file__).parents[2]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env=environment) for _ in range(3)]
    said = sorted(process.communicate()[0].split() for process in processes)
    assert said == [[b"False"], [b"False"], [b"True"]]


@pytest.mark.slow
def test_sketching_is_a_hundred_times_faster_than_update_per_shingle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ratio within one run: the machine's speed cancels out."""
    monkeypatch.setattr(compiled, "PATIENCE", -1.0)
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


@pytest.mark.skipif(not compiled.COMPILED, reason="nothing is compiled here")
def test_a_kind_of_which_no_loop_is_kept_waits_for_the_compiler_as_long_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops of another kind that are kept say nothing of it."""
    monkeypatch.setattr(compiled, "_spent", {})
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiled, "PATIENCE", 1.0)
    monkeypatch.setattr(compiled._Declared, "loaded", True)
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    (tmp_path / "trace_flywheel.curation.sketch._fill-0.loop").touch()
    compiled._kept_before.cache_clear()
    try:
        assert compiled.pays("sketch", 0.02)
        assert not compiled.pays("depth_kernel", 0.9)
        assert compiled.pays("depth_kernel", 0.2)
    finally:
        compiled._kept_before.cache_clear()


OUTER = """
from inner import inner
from trace_flywheel.curation.compiled import compiled, plain
@compiled
def outer(n: int) -> int:
    return inner(n) + 1
print(outer(3), plain(outer)(3))
"""
INNER = """
from trace_flywheel.curation.compiled import compiled
@compiled
def inner(n: int) -> int:
    return n * {factor}
"""


@pytest.mark.skipif(not compiled.COMPILED, reason="nothing is compiled here")
def test_a_changed_loop_in_another_file_changes_the_loops_that_call_it(tmp_path: Path) -> None:
    (tmp_path / "outer.py").write_text(OUTER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    environment.pop("NUMBA_CACHE_DIR", None)
    for second, (factor, both) in enumerate(((10, b"31"), (20, b"61"), (20, b"61"))):
        (tmp_path / "inner.py").write_text(INNER.format(factor=factor))
        os.utime(tmp_path / "inner.py", (second, second))  # Python itself takes one of the same second for unchanged
        done = subprocess.run(
            [sys.executable, "outer.py"], cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=True
        )
        assert done.stdout.split() == [both, both]
