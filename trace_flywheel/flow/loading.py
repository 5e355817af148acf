"""Loading what stays: modules are no garbage, and Python's collector need not look for any among them.

It walks all that was ever made, again and again while thousands of modules are loaded and once more when the process
ends: with Dagster's that is over a second.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """A block of imports, during which nothing is collected. Where it loaded any, what stands at its end is never
    walked again; what is made later is collected as ever."""
    collects, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:
            gc.freeze()
        if collects:
            gc.enable()
