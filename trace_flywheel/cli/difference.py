"""What a command is about to do to the rows of the datasets, told before it does it."""

from collections.abc import Iterable
from typing import Protocol

SHOWN = 10
"""Rows of each kind that are listed by name for people; `--json` lists all."""


class Difference(Protocol):
    """Rows that a dataset loses and gains, by name."""

    @property
    def name(self) -> str: ...
    @property
    def lost(self) -> tuple[str, ...]: ...
    @property
    def gained(self) -> tuple[str, ...]: ...


def tell(found: Iterable[Difference]) -> None:
    """Print each dataset's difference: how many rows go and come, and the first of them."""
    for one in found:
        print(f"{one.name}: {len(one.lost)} rows go, {len(one.gained)} come")
        for sign, rows in (("-", one.lost), ("+", one.gained)):
            print("".join(f"  {sign} {row}\n" for row in rows[:SHOWN]), end="")
            if len(rows) > SHOWN:
                print(f"  {sign} and {len(rows) - SHOWN} more")
