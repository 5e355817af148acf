"""Charts: the numbers are in them, the bytes do not change, and text cannot break the markup."""

import base64
import json
import re

import pytest

from trace_flywheel.flow.glance import Bins
from trace_flywheel.orchestration.metadata import _of_classifier
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


def test_a_classifiers_page_names_its_classes_in_one_order_however_its_report_was_kept() -> None:
    """Read back from a lake, the report's keys are sorted."""
    f1 = {"single": 0.9, "multi": 0.8, "comparison": 0.7, "other": 0.6}
    counts = {true: {guess: 10 * i + j for j, guess in enumerate(f1)} for i, true in enumerate(f1)}
    report = {"classes": {name: {"f1": value} for name, value in f1.items()}, "confusion": counts}
    report |= {"macro_f1": 0.75, "by": "five folds"}
    kept = json.loads(json.dumps(report, sort_keys=True))
    shown, again = (_of_classifier({"held_out": one, "before": None}) for one in (report, kept))
    assert shown == again
    text = str(shown["confusion"].value)
    assert "| labelled | single | multi | comparison | other |" in text
    assert "| multi | 10 | 11 | 12 | 13 |" in text


def test_a_classifiers_picture_marks_the_one_before() -> None:
    classes = {name: {"f1": 0.5} for name in ("single", "multi", "comparison", "other")}
    counts = {true: dict.fromkeys(classes, 1) for true in classes}
    report = {"classes": classes, "confusion": counts, "macro_f1": 0.5, "by": "five folds"}
    alone, beside = (str(_of_classifier({"held_out": report, "before": b})["f1"].value) for b in (None, report))
    assert "where the classifier before stood" in beside
    assert "where the classifier before stood" not in alone
    assert alone.partition("base64,")[2] != beside.partition("base64,")[2]
