"""Near-duplicates on the tasks of a Ray cluster, for an index that is larger than one machine's memory.

The answer is that of one process, byte for byte: rows meet only inside components (`near_components`), and each
component is judged whole by the same greedy pass. Four rounds of tasks, of which a task that dies with its node runs
again elsewhere:

1. *keys*: a shard of rows reads its sketches from the index files and gives its band keys, 256 bytes a row.
2. *edges*: one task a band finds rows of equal key; this process joins them, 16 bytes a row.
3. *texts*: each shard reads the shingles of rows that share a component with another, parcelled by batch.
4. *judged*: a batch of whole components goes through the pass.

Every node needs the same version of this package and the home at the same path. A component has to fit one worker.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from trace_flywheel.curation.bands import BANDS
from trace_flywheel.curation.dedup import matches, near_drops, owners
from trace_flywheel.curation.near_components import Edges, keys_of, packed, shared_keys, tied
from trace_flywheel.curation.near_kernel import NONE
from trace_flywheel.curation.sketch import Spans
from trace_flywheel.flow.columns import Columns
from trace_flywheel.records.errors import FlywheelError

SHARD = 50_000
"""Rows a task reads: 0.3 GB of sketches and shingles at 6 kB a row."""
BATCH = 20_000
"""Rows a task judges, where components are smaller."""
KNOCK_SECONDS = 10


class RayError(FlywheelError):
    """The cluster that `dedup.ray_address` names cannot be used."""


def near_duplicates_on_ray(
    frame: pd.DataFrame, alive: np.ndarray, rank: np.ndarray, columns: Columns, threshold: float, address: str
) -> pd.DataFrame:
    """`dedup.near_duplicates`, with the texts of the alive rows read by the cluster's tasks. Raises `RayError`."""
    rows = np.flatnonzero(alive)
    owner, ranks = owners(frame)[rows], rank[rows]
    match = np.full(len(rows), NONE, dtype=np.int64)
    scores = np.zeros((len(rows), 2))
    shards = [slice(start, start + SHARD) for start in range(0, len(rows), SHARD)]
    with _cluster(address) as ray:
        parts = [ray.put(columns.only(rows[shard]).pruned()) for shard in shards]
        keys = [_task(ray, _keys, 2 * BANDS).remote(part) for part in parts]
        batches = packed(_components(ray, len(rows), keys), BATCH)
        pieces = _pieces(ray, parts, shards, batches)
        judged = [
            _task(ray, _judged).remote(owner[batch], ranks[batch], threshold, *of_batch)
            for batch, of_batch in zip(batches, pieces, strict=True)
        ]
        for batch, answer in zip(batches, judged, strict=True):
            found, scores[batch] = ray.get(answer)
            match[batch] = np.where(found == NONE, NONE, batch[found])
    return near_drops(frame, rows, match, scores, threshold)


def _components(ray: Any, n: int, keys: Sequence[Sequence[Any]]) -> np.ndarray:
    """Components of the rows: of their prompts' buckets first, then of supervised buckets inside those."""
    edges = _task(ray, _edges)

    def bands(side: int, within: Any) -> Iterator[Edges]:
        asked = [edges.remote(within, *(shard[side * BANDS + band] for shard in keys)) for band in range(BANDS)]
        for answer in asked:
            yield ray.get(answer)

    if not n:
        return np.zeros(0, dtype=np.int64)
    return tied(n, bands(1, ray.put(tied(n, bands(0, None)))))


def _pieces(ray: Any, parts: Sequence[Any], shards: Sequence[slice], batches: Sequence[np.ndarray]) -> list[list[Any]]:
    """For each batch the texts of its rows, a piece from every shard that holds some, in the order of the rows."""
    pieces: list[list[Any]] = [[] for _ in batches]
    for part, shard in zip(parts, shards, strict=True):
        held = [batch[(batch >= shard.start) & (batch < shard.stop)] - shard.start for batch in batches]
        asked = [number for number, wanted in enumerate(held) if len(wanted)]
        if asked:
            given = _task(ray, _texts, len(asked)).remote(part, [held[number] for number in asked])
            for number, piece in zip(asked, given if len(asked) > 1 else [given], strict=True):
                pieces[number].append(piece)
    return pieces


def _keys(columns: Columns) -> list[np.ndarray]:
    prompt, supervised = columns.spans(np.ones(len(columns.file), dtype=bool))
    return keys_of(prompt) + keys_of(supervised)


def _edges(within: np.ndarray | None, *keys: np.ndarray) -> Edges:
    return shared_keys(np.concatenate(keys), within)


def _texts(columns: Columns, wanted: Sequence[np.ndarray]) -> list[tuple[Spans, Spans]] | tuple[Spans, Spans]:
    rows = np.sort(np.concatenate(wanted))
    prompt, supervised = columns.only(rows).spans(np.ones(len(rows), dtype=bool))
    places = [np.searchsorted(rows, some) for some in wanted]
    given = [(prompt.take(place), supervised.take(place)) for place in places]
    return given if len(given) > 1 else given[0]


def _judged(
    owner: np.ndarray, rank: np.ndarray, threshold: float, *pieces: tuple[Spans, Spans]
) -> tuple[np.ndarray, np.ndarray]:
    prompt, supervised = (Spans.joined([piece[side] for piece in pieces]) for side in range(2))
    return matches(owner, rank, prompt, supervised, threshold)


def _task(ray: Any, function: Any, returns: int = 1) -> Any:
    """The function as a task that runs again when its node dies, however often."""
    return ray.remote(num_returns=returns, max_retries=-1)(function)


@contextmanager
def _cluster(address: str) -> Iterator[Any]:
    """The `ray` module, connected; a connection that stands already is used and left."""
    try:
        import ray
    except ImportError:
        raise RayError(
            "dedup.ray_address: the package ray is missing; pip install 'trace-flywheel[ray]', or leave it unset"
        ) from None
    if ray.is_initialized():
        yield ray
        return
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise RayError(f"dedup.ray_address: no cluster answers at {address!r}: {reason}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raises `OSError` where nobody listens: Ray itself asks for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
