"""Small charts for Dagster's pages: SVG in a `data:` address inside Markdown, drawn from numbers, without a library.

Deterministic text: the same numbers give the same picture. Colours are readable on Dagster's light and dark pages.
"""

import base64
import html
from collections.abc import Mapping, Sequence

from trace_flywheel.flow.glance import Bins

WIDTH, ROW, LABEL = 560, 24, 170
INK, BAR, SECOND = "#6b7280", "#4f43dd", "#c4bdf7"


def bars(values: Mapping[str, float], title: str, reference: Mapping[str, float] | None = None) -> str:
    """Horizontal bars in the mapping's order, each with its value; `reference` draws a target mark on each."""
    top = max([*values.values(), *(reference or {}).values(), 0.0]) or 1.0
    span = WIDTH - LABEL - 70
    lines = []
    for i, (label, value) in enumerate(values.items()):
        y = 34 + i * ROW
        lines.append(_text(LABEL - 8, y + 12, label, "end"))
        lines.append(_bar(LABEL, y, span * value / top, ROW - 8, BAR))
        lines.append(_text(LABEL + span * value / top + 6, y + 12, f"{value:g}"))
        if reference and label in reference:
            x = LABEL + span * reference[label] / top
            lines.append(f'<line x1="{x:.1f}" y1="{y - 3}" x2="{x:.1f}" y2="{y + ROW - 5}" stroke="{INK}" />')
    return _image(title, 40 + ROW * max(len(values), 1), lines)


def histogram(values: Bins, title: str) -> str:
    """Counts over equal intervals from the least to the largest value."""
    if not values.n:
        return _image(title, 64, [_text(12, 48, "no values")])
    low, high, counts, bins = values.low, values.high, values.counts, len(values.counts)
    height, step = 110, (WIDTH - 40) / bins
    top = max(counts)
    lines = []
    for i, count in enumerate(counts):
        tall = height * count / top
        x = 20 + i * step
        lines.append(_bar(x, 40 + height - tall, step - 4, tall, BAR if count else SECOND))
        if count:
            lines.append(_text(x + step / 2 - 2, 36 + height - tall, str(count), "middle"))
    lines.append(_text(20, 40 + height + 18, f"{low:g}"))
    lines.append(_text(WIDTH - 24, 40 + height + 18, f"{high:g}", "end"))
    return _image(title, height + 68, lines)


def funnel(steps: Sequence[tuple[str, int]], title: str) -> str:
    """What is left after each step, widest first."""
    return bars({name: float(count) for name, count in steps}, title)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" fill="{colour}" />'


def _image(title: str, height: float, lines: Sequence[str]) -> str:
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" font-family="sans-serif" '
        f'font-size="12" fill="{INK}"><text x="12" y="20" font-size="13" font-weight="bold">{html.escape(title)}</text>'
        + "".join(lines)
        + "</svg>"
    )
    return f"![{title}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
