"""What the rows of a dataset are made from, as keys, in the order in which they are made: no text is read for it.

A row is a function of the redacted rollout (its place in a partition of known content), of the grade that the index
holds, and of what a table says of it: its group, its task's pass rate, its pair. All this is in its key; what all rows
of a dataset share (layouts, rules, goldens, code) is in one digest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.dataset_rows import GROUP, NUMBERS, RATES
from trace_flywheel.flow.frame import Index
from trace_flywheel.flow.freshness import CODE
from trace_flywheel.flow.funnel import Curated
from trace_flywheel.flow.manifest import code_version
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.publish import MAX_LAYOUT_BYTES
from trace_flywheel.records.canonical import content_id
from trace_flywheel.redaction.policy import fingerprint
from trace_flywheel.redaction.second_gate import gate_version
from trace_flywheel.settings import Settings
from trace_flywheel.trainers.layout import Kind, Layout

KEY = 16
BLOCK = 8_192
"""Rows whose keys are worked out at a time; each takes half a kilobyte meanwhile."""
GRADE = ("verdict", "reward", "grader", "grader_version")
PAIR = ("prefix", "delta", "delta_source", "rejected_is_min", "group_size", "sigma", "group_id")
"""What the row of a pair says of it."""


class Wanted(NamedTuple):
    """The rows of a dataset, in the order in which they are made."""

    sources: np.ndarray
    """The frame rows that each is made from: one, or a pair's chosen and rejected."""
    keys: np.ndarray
    near: np.ndarray
    """The same without the numbers in which alone an RL row may differ from one that stands (`renumbered`)."""
    numbers: np.ndarray
    """Of pairs their lines in the table of pairs, of others the frame rows."""

    def left(self, curated: Curated, found: np.ndarray) -> Curated:
        """What was decided, of the rows alone that were not found."""
        numbers = np.sort(self.numbers[~found])
        if curated.pairs is None:
            return replace(curated, kept=numbers)
        table = curated.pairs.table.iloc[numbers]
        members = np.union1d(table["chosen"].to_numpy(np.int64), table["rejected"].to_numpy(np.int64))
        return replace(curated, kept=members, pairs=msgspec.structs.replace(curated.pairs, table=table))


def wanted(curated: Curated) -> Wanted:
    """The rows that were chosen."""
    index, rows = curated.index, in_order(curated.index, curated.kept)
    if curated.pairs is None:
        tables = {"rl": (curated.groups, GROUP), "prompt": (curated.rates, RATES)}
        table, names = tables.get(curated.kind, (None, ()))
        told = _rollouts(index, rows) | ({} if table is None else {name: table[name].iloc[rows] for name in names})
        keys = _keys(told, len(rows))
        rest = {name: values for name, values in told.items() if name not in NUMBERS}
        return Wanted(rows[:, None], keys, _keys(rest, len(rows)) if len(rest) < len(told) else keys, rows)
    table = curated.pairs.table
    sides = np.stack([table["chosen"].to_numpy(np.int64), table["rejected"].to_numpy(np.int64)], axis=1)
    read = np.zeros(len(index.frame), dtype=np.int64)
    read[rows] = np.arange(len(rows))
    numbers = np.lexsort((np.arange(len(table)), read[sides].max(axis=1, initial=0)))  # made as its second is read
    sides, table = sides[numbers], table.iloc[numbers]
    told = {name: table[name] for name in PAIR}
    for side, name in enumerate(("chosen", "rejected")):
        told |= {f"{name}.{key}": value for key, value in _rollouts(index, sides[:, side]).items()}
    keys = _keys(told, len(table))
    return Wanted(sides, keys, keys, numbers)


def in_order(index: Index, rows: np.ndarray) -> np.ndarray:
    """Frame rows in the order in which their texts are read."""
    part, position = (index.frame[name].to_numpy()[rows] for name in ("part", "position"))
    run = pd.factorize(index.frame["run_id"].iloc[rows], sort=True)[0]
    ordered: np.ndarray = rows[np.lexsort((position, part, run))]
    return ordered


def shared(kind: Kind, layouts: Sequence[Layout], settings: Settings, holdout: Holdout) -> str:
    """Digest of what all rows of a dataset depend on."""
    policy = policy_of(settings)
    rules = [policy.digest(), fingerprint(policy.key, "lines") if policy.key else None]
    if policy.second_gate != "none":
        rules.append(gate_version())  # another one may find what this one did not
    told = [
        kind,
        {one.NAME: one.VERSION for one in layouts},
        MAX_LAYOUT_BYTES,
        settings.redaction.supervise_placeholders,
    ]
    return content_id([CODE, code_version(), rules, holdout.digest(), told])


def _rollouts(index: Index, rows: np.ndarray) -> dict[str, pd.Series]:
    """What is said of the rollouts at these frame rows."""
    asked = ("run_id", "part", "position", *GRADE)
    frame = index.frame[[*asked, "superseded"]].iloc[rows]  # of all columns it would be a second copy
    content = {run.run_id: run.facts["of"] for run in index.runs}
    told = {name: frame[name] for name in asked}
    return told | {"content": frame["run_id"].map(content), "later": frame["superseded"].notna().astype(bool)}


def _keys(told: Mapping[str, pd.Series], n: int) -> np.ndarray:
    """A hash of every line of a table, whatever its columns' own index is."""
    names = repr([(name, _numbers(values)) for name, values in told.items()]).encode()
    seed = blake2b(names, digest_size=KEY).digest()
    found = []
    for start in range(0, n, BLOCK):
        fields = [_bytes_of(values.iloc[start : start + BLOCK]) for values in told.values()]
        lines = np.hstack(fields)
        width, data = lines.shape[1], lines.tobytes()
        found.append(
            b"".join(
                blake2b(data[at : at + width], digest_size=KEY, key=seed).digest() for at in range(0, len(data), width)
            )
        )
    return np.frombuffer(b"".join(found), dtype=f"S{KEY}")


def _numbers(values: pd.Series) -> str:
    """The kind of numbers that a column is of; empty for texts and all else."""
    return values.dtype.kind if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf" else ""


def _bytes_of(values: pd.Series) -> np.ndarray:
    """A column as bytes, of one width, that are equal where the values are."""
    if kind := _numbers(values):
        numbers: Any = values.to_numpy(dtype=np.float64 if kind == "f" else np.int64)
        if kind == "f":
            numbers = np.where(np.isnan(numbers), np.nan, numbers)
        return np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8)
    codes, distinct = pd.factorize(values)
    digests = [_digest(value) for value in distinct] + [bytes(KEY)]
    packed = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, KEY)
    told: np.ndarray = packed[codes]
    return told


def _digest(value: Any) -> bytes:
    return blake2b(repr((type(value).__name__, value)).encode("utf-8", "surrogatepass"), digest_size=KEY).digest()
