"""Charts: the numbers are in them, the bytes do not change, and text cannot break the markup."""

import base64
import re

import pytest

from trace_flywheel.flow.glance import Bins
from trace_flywheel.orchestration.pictures import bars, funnel, histogram


def svg(markdown: str) -> str:
    data = re.fullmatch(r"!\[.*\]\(data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)\)", markdown)
    assert data is not None
    return base64.b64decode(data[1]).decode()


def test_bars_show_each_label_with_its_value() -> None:
    drawn = svg(bars({"single": 3, "multi": 5}, "Depth"))
    assert ">single<" in drawn
    assert ">multi<" in drawn
    assert ">5<" in drawn
    widths = [float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"', drawn)]
    assert widths[0] / widths[1] == pytest.approx(3 / 5, abs=0.01)


def test_a_reference_draws_one_mark_for_each_target() -> None:
    assert svg(bars({"a": 1, "b": 2}, "t", {"a": 2.0})).count("<line ") == 1


def test_a_histogram_counts_every_value_once() -> None:
    drawn = svg(histogram(Bins(4, 0.0, 1.0, (2, 2)), "Rewards"))
    assert re.findall(r'text-anchor="middle">(\d+)<', drawn) == ["2", "2"]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0]])
def test_a_histogram_without_spread_is_drawn(values: list[float]) -> None:
    assert "<svg" in svg(histogram(Bins.of(values), "Rewards"))


def test_labels_are_escaped() -> None:
    assert "<script>" not in svg(bars({"<script>": 1}, "<b>"))


def test_the_same_numbers_give_the_same_picture() -> None:
    assert funnel([("in", 9), ("kept", 2)], "Funnel") == funnel([("in", 9), ("kept", 2)], "Funnel")
