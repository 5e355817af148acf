"""Near-duplicates on a Ray cluster of two nodes on this machine, one of which is killed with its work."""

import importlib.util
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, trace, write_runs
from trace_flywheel.curation.dedup import near_duplicates
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.flow import near_ray
from trace_flywheel.flow.columns import Columns
from trace_flywheel.flow.near_ray import RayError, near_duplicates_on_ray
from trace_flywheel.settings import Settings

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "l", "st")]
CHECKOUT = Path(__file__).parents[2]
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None and not os.environ.get("CLUSTER_REQUIRED"), reason="needs the extra `ray`"
)


def index_files(folder: Path, files: int, rows: int) -> tuple[pd.DataFrame, Columns]:
    """Index files with near repeats inside and across them, and the frame that goes with them."""
    rng = random.Random(3)
    answers = [rng.choices(WORDS, k=80) for _ in range(files * rows // 3)]
    records: list[dict[str, Any]] = []
    paths = []
    for number in range(files):
        prompts, said = [], []
        for _ in range(rows):
            chosen = rng.randrange(len(answers))
            prompts.append(f"please do task number {chosen % 40} of this set today")
            text = list(answers[chosen])
            if rng.random() < 0.6:
                text[rng.randrange(80)] = rng.choice(WORDS)
            said.append(" ".join(text))
        columns: dict[str, Any] = {}
        for name, texts in (("prompt", prompts), ("supervised", said)):
            spans = Spans.of_texts(texts)
            columns[f"{name}_sketch"] = pa.array([row.tobytes() for row in spans.sketches], pa.binary(512))
            columns[f"{name}_shingles"] = pa.array(
                [spans.values[a:b] for a, b in zip(spans.offsets, spans.offsets[1:], strict=False)],
                pa.list_(pa.uint32()),
            )
        run = folder / f"run-{number}"
        (run / "data").mkdir(parents=True)
        paths.append(run / "data" / "part-0.parquet")
        pq.write_table(pa.table(columns), paths[-1])
        records += [{"run_id": f"run-{number}", "trace_id": f"t{at}", "at": at, "file": number} for at in range(rows)]
    frame = pd.DataFrame(records)
    file, at = (frame.pop(name).to_numpy(dtype=np.int32) for name in ("file", "at"))
    return frame, Columns(tuple(paths), file, at)


def published(flow: Flow) -> dict[str, bytes]:
    top = flow.settings.home / "datasets"
    return {p.relative_to(top).as_posix(): p.read_bytes() for p in top.rglob("*") if p.is_file()}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that runs no task and a worker node; `add_node` gives more."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(CHECKOUT), *filter(None, sys.path)]))
    # Every answer of a task is an object on its node, so that a node that dies takes it along.
    kept_on_nodes = {"max_direct_call_object_size": 0, "health_check_timeout_ms": 2000, "health_check_period_ms": 500}
    memory = {"object_store_memory": 200 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": kept_on_nodes, **memory})
    made.first = made.add_node(num_cpus=1, **memory)
    made.more = memory
    yield made
    made.shutdown()


@needs_ray
@pytest.mark.ray
@pytest.mark.slow
def test_two_nodes_and_one_that_is_killed_give_what_one_process_gives(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, columns = index_files(tmp_path, files=4, rows=300)
    alive = np.random.default_rng(0).random(len(frame)) < 0.9
    rank = np.random.default_rng(1).permutation(len(frame))
    wanted = near_duplicates(frame, alive, rank, *columns.spans(alive), 0.85)
    assert len(wanted) > 100
    monkeypatch.setattr(near_ray, "SHARD", 150)
    monkeypatch.setattr(near_ray, "BATCH", 60)
    components = near_ray._components
    lost = []

    def killed_meanwhile(ray: Any, n: int, keys: list[list[Any]]) -> np.ndarray:
        answers = [answer for shard in keys for answer in shard]
        ray.wait(answers, num_returns=len(answers), timeout=120, fetch_local=False)
        on = ray.experimental.get_object_locations(answers)
        lost.append(sum(node["node_ids"] == [cluster.first.node_id] for node in on.values()))
        cluster.remove_node(cluster.first, allow_graceful=False)
        return components(ray, n, keys)

    cluster.add_node(num_cpus=1, **cluster.more)
    two = near_duplicates_on_ray(frame, alive, rank, columns, 0.85, cluster.address)
    pd.testing.assert_frame_equal(two, wanted)

    monkeypatch.setattr(near_ray, "_components", killed_meanwhile)
    one_died = near_duplicates_on_ray(frame, alive, rank, columns, 0.85, cluster.address)
    pd.testing.assert_frame_equal(one_died, wanted)
    assert lost[0] > 0, "the node that died held answers"

    monkeypatch.setattr(near_ray, "_components", components)
    # The published files too, made by a process that connects to the cluster itself, as `flywheel refresh` does.
    rng = random.Random(4)
    said = [" ".join(rng.choices(WORDS, k=80)) for _ in range(30)]
    near = [f"{text} {rng.choice(WORDS)}" for text in said]
    rows = [trace(f"t-{n}", f"task {n % 5}", 1.0, n) for n in range(60)]
    for row, text in zip(rows, said + near, strict=True):
        row["messages"] = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": text}]
    root = write_runs(tmp_path / "data", {"r": rows})
    everything = {"selection": {"keep_fraction": 1.0, "max_per_task": 100}}
    one = Flow(root, tmp_path / "one", **everything)
    apart = Flow(root, tmp_path / "on-ray", **everything, dedup={"ray_address": cluster.address})
    made = [flow.run()["sft_dataset"] for flow in (one, apart)]
    assert made[0].version == made[1].version
    assert published(one) == published(apart)
    assert made[0].ledger.as_json()["dropped"] == {"near_duplicate": {"near_duplicate": 30}}


@needs_ray
@pytest.mark.ray
def test_a_cluster_that_does_not_answer_is_named() -> None:
    frame = pd.DataFrame({"run_id": ["r"], "trace_id": ["t"]})
    nothing = Columns((), np.zeros(0, np.int32), np.zeros(0, np.int32))
    with pytest.raises(RayError, match=r"dedup\.ray_address: no cluster answers at '127\.0\.0\.1:1'"):
        near_duplicates_on_ray(frame, np.zeros(1, bool), np.zeros(1, np.int64), nothing, 0.85, "127.0.0.1:1")


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    frame = pd.DataFrame({"run_id": ["r"], "trace_id": ["t"]})
    nothing = Columns((), np.zeros(0, np.int32), np.zeros(0, np.int32))
    with pytest.raises(RayError, match=r"pip install 'trace-flywheel\[ray\]'"):
        near_duplicates_on_ray(frame, np.zeros(1, bool), np.zeros(1, np.int64), nothing, 0.85, "auto")


def test_where_rows_are_compared_is_no_part_of_a_version() -> None:
    assert Settings(dedup={"ray_address": "auto"}).hashed() == Settings().hashed()
