"""What is measured, one subject a module: each gives `measure(asked) -> Iterator[Result]`."""

from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Ratio


class Asked(NamedTuple):
    """Sizes and places of one run of the benchmarks."""

    work: Path
    """A folder for what is generated and written."""
    rollouts: int = 200
    rounds: int = 3
    sample: int = 40
    """Rollouts that the straightforward build gets: it takes a tenth of a second for each."""
    seed: int = 42
    rivals: bool = True
    python312: str | None = None


class Result(NamedTuple):
    """A line of the table. `own` and `rival` are for people; only `ratio` can have a gate."""

    suite: str
    what: str
    own: str
    rival: str = ""
    ratio: Ratio | None = None
    """How many times better the product is."""
    gate: float | None = None
    """Least ratio."""

    @property
    def passed(self) -> bool | None:
        """None where there is no gate."""
        return None if self.ratio is None or self.gate is None else self.ratio.median >= self.gate
