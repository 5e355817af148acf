"""What is loaded in one block is left alone by Python's collector, and nothing else is."""

import gc
import subprocess
import sys
import weakref

import pytest

from trace_flywheel.flow.loading import loading


class Ring:
    def __init__(self) -> None:
        self.itself = self


CODE = """
import gc, sys, weakref
from trace_flywheel.flow.loading import loading

class Ring:
    def __init__(self):
        self.itself = self

before = gc.get_freeze_count()
with loading():
    collected = gc.get_stats()[0]["collections"]
    import asyncio, pydantic, pydantic.main
    print(gc.get_stats()[0]["collections"] - collected)
print(gc.get_freeze_count() - before > 10_000)
ring = weakref.ref(Ring())
gc.collect()
print(ring() is None)
"""


def test_modules_that_were_loaded_are_never_walked_and_what_comes_later_is_collected() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True", "True"]


def test_where_nothing_is_loaded_nothing_is_kept() -> None:
    frozen = gc.get_freeze_count()
    with loading():
        ring = weakref.ref(Ring())
    assert gc.get_freeze_count() == frozen
    gc.collect()
    assert ring() is None


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was_after_a_fault(on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(ImportError), loading():
            import trace_flywheel.nothing  # noqa: F401
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()
