"""Who works on a run holds it against those that share the home's lock, and holds nobody else back."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trace_flywheel.lake.run_lock import working_on


@pytest.fixture
def holding(tmp_path: Path) -> Callable[[Sequence[str]], threading.Event]:
    """Hold runs in a thread of its own, as another process would; the event is set when it has them."""

    def begin(runs: Sequence[str], then: threading.Event | None = None) -> threading.Event:
        has = threading.Event()

        def hold() -> None:
            with working_on(tmp_path, runs):
                has.set()
                if then is not None:
                    then.wait(60)

        threading.Thread(target=hold, daemon=True).start()
        return has

    return begin


def test_one_run_is_worked_on_by_one(holding, capsys: pytest.CaptureFixture[str]) -> None:
    ended = threading.Event()
    assert holding(["d/a", "d/b"], ended).wait(30)
    assert holding(["d/c", "d/d"]).wait(30), "other runs wait for nobody"
    second = holding(["d/b", "d/c"])
    assert not second.wait(0.3)
    assert "another flywheel works on d/b; waiting for it" in capsys.readouterr().err
    ended.set()
    assert second.wait(30)


def test_ranges_that_overlap_in_whatever_order_end(holding) -> None:
    runs = [f"d/{n}" for n in range(200)]
    begun = [holding(order) for order in (runs, runs[::-1], runs[100:], runs[::2], runs[150::-1])]
    assert all(one.wait(60) for one in begun)
