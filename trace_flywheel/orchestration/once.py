"""What the steps of one Dagster run look at once: they run in one process, and so they see one state of the roots.

A look at ten thousand job folders takes a second; a run of ingestion has three steps and a publication twenty.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from trace_flywheel.flow.apart import Pass
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.watch import Seen, seen_leniently, side_inputs_now
from trace_flywheel.settings import Settings

Value = TypeVar("Value")


class Once(Generic[Value]):
    """The value of the run under way; that of another run is forgotten."""

    def __init__(self, make: Callable[[str, Settings], Value]) -> None:
        self._make = make
        self._held: tuple[str, Value] | None = None
        self._known: Value | None = None

    @contextmanager
    def known(self, value: Value) -> Iterator[None]:
        """A block whose runs have this value: who has them made knows it."""
        self._known = value
        try:
            yield
        finally:
            self._known = self._held = None

    def of(self, run_id: str, settings: Settings) -> Value:
        if self._held is None or self._held[0] != run_id:
            self._held = None
            self._held = run_id, self._make(run_id, settings) if self._known is None else self._known
        return self._held[1]


looks: Once[Seen] = Once(lambda _, settings: seen_leniently(settings))
"""For ingestion: roots that are missing do not stop the others."""
inputs: Once[SideInputs] = Once(lambda _, settings: side_inputs_now(settings))
passes: Once[Pass] = Once(lambda run_id, settings: Pass(run_id, settings, inputs.of(run_id, settings)))
"""For publication and its checks: a missing root is an error."""
