"""In which order Dagster takes the steps that are ready: datasets as `names.IN_TURN` says, each followed by what looks
at it.

Rows of the next datasets are made meanwhile (`flow.coming`), so nobody waits for a look; and when the last dataset is
made, little is left to do. Whoever runs steps side by side begins them in this order.
"""

from collections.abc import Mapping, Sequence

from trace_flywheel.flow import apart, names

_FIRST = 100
"""Priority of the first dataset; what all of them wait for comes before it."""


def made(what: apart.What) -> Mapping[str, str]:
    """Tags of the step that makes an asset over all runs."""
    return _tags(_FIRST + 10 if what in ("advantages", "classifier") else _turn(what))


def looked_at(kind: names.Kind) -> Mapping[str, str]:
    """Tags of a step that looks at a dataset."""
    return _tags(_turn(kind) - 5)


def _turn(kind: str) -> int:
    turns: Sequence[str] = names.IN_TURN
    return _FIRST - 10 * turns.index(kind)


def _tags(priority: int) -> Mapping[str, str]:
    return {"dagster/priority": str(priority)}
