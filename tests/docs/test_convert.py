"""docs/convert.md names every layout."""

from pathlib import Path

from trace_flywheel.trainers.registry import layouts

PAGE = (Path(__file__).parents[2] / "docs" / "convert.md").read_text("utf-8")


def test_each_layout_is_on_the_page() -> None:
    for name in layouts():
        assert PAGE.count(f"| `{name}` |") == 1
