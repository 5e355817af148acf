"""What a mix does when a class has too few rows for its share, as it is written in settings and on the command line."""

import re
from typing import Literal

Shortage = Literal["fail", "shrink", "renormalize", "upsample"]
_PLAIN: dict[str, Shortage] = {"fail": "fail", "shrink": "shrink", "renormalize": "renormalize"}
_UPSAMPLE = re.compile(r"upsample\(([1-9][0-9]{0,5})\)")


def shortage_of(text: str) -> tuple[Shortage, int]:
    """(policy, how often a row may stand). `ValueError` for what is none of
    `fail`, `shrink`, `renormalize`, `upsample(N)`."""
    if (plain := _PLAIN.get(text)) is not None:
        return plain, 1
    if times := _UPSAMPLE.fullmatch(text):
        return "upsample", int(times[1])
    raise ValueError(f"{text!r} is none of fail, shrink, renormalize, upsample(N) with N from 1")
