"""Names of the files that hold a version's rows, by split."""

from trace_flywheel.records.rows import Split

SPLITS: tuple[Split, ...] = ("train", "eval", "held_out")
"""In the order of a version's rows."""


def shard_stem(split: str) -> str:
    """How the names of a split's shards begin: those of train sort before all others, as their rows do."""
    return "data-" if split == "train" else f"data-{split}-"
