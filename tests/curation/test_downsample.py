"""The original's target mix: its numbers, its rounding, its order."""

import json
from pathlib import Path

import pytest

from trace_flywheel.curation.depth import short_label
from trace_flywheel.curation.downsample import CLASSES, downsample


def mix_of(text: str) -> dict[str, float]:
    return {short_label(name): float(share) for name, share in (part.split("=") for part in text.split(","))}


def rows(*supply: int) -> list[str]:
    return [name for name, n in zip(CLASSES, supply, strict=True) for _ in range(n)]


@pytest.mark.parametrize(
    ("supply", "mix", "feasible", "kept"),
    [
        ((100, 100, 100, 100), "single=0.3,multi=0.5,comparison=0.2", 200, (60, 100, 40, 0)),
        ((700, 200, 0, 40), "single=0.3,multi=0.5,comparison=0.2", 0, (0, 0, 0, 0)),
        ((5, 3, 3, 0), "single=0.5,multi=0.25,comparison=0.25", 10, (5, 3, 3, 0)),  # rounding passes the size
        ((1, 1, 1, 0), "single=0.3,multi=0.5,comparison=0.2", 2, (1, 1, 0, 0)),  # and loses a class
        ((7, 7, 7, 7), "single=0.1,multi=0.2,comparison=0.3,other=0.4", 17, (2, 3, 5, 7)),
    ],
)
def test_its_arithmetic(supply: tuple[int, ...], mix: str, feasible: int, kept: tuple[int, ...]) -> None:
    found = downsample(rows(*supply), mix_of(mix), 42)
    assert (found.feasible, tuple(found.kept.values()), len(found.order)) == (feasible, kept, sum(kept))


def test_output_is_grouped_by_class_and_seeded() -> None:
    classes = rows(20, 20, 20, 20)
    first, again, other = (downsample(classes, {"single": 1, "multi": 1}, seed).order for seed in (1, 1, 2))
    assert [classes[i] for i in first] == ["single"] * 20 + ["multi"] * 20
    assert first == again != other


@pytest.mark.parametrize("target", [{}, {"single": 0.0}, {"single": 2.0, "multi": -1.0}])
def test_a_target_it_would_crash_on_is_refused(target: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least one above zero"):
        downsample(rows(1, 1, 1, 1), target, 1)


@pytest.mark.corpus
def test_all_of_its_numbers_and_rows(shared_dir: Path) -> None:
    expected = shared_dir / "atraj" / "expected"
    for case in json.loads((expected / "mix-arithmetic.json").read_text()):
        found = downsample(rows(*case["supply"]), mix_of(case["mix"]), 42)
        assert (found.feasible, list(found.kept.values())) == (case["feasible_n"], case["emitted"])
    scored = (expected / "classifier-scored-heldout.jsonl").read_text().splitlines()
    classes = [short_label(json.loads(line)["reasoning_depth"]) for line in scored]
    for name, case in json.loads((expected / "classifier.json").read_text())["filter"].items():
        wanted = (expected / f"classifier-filter-{name}.jsonl").read_text().splitlines()
        assert [scored[i] for i in downsample(classes, mix_of(case["mix"]), 42).order] == wanted
