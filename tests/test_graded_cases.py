"""Eval runs whose right outcome was worked out by hand, judged by the published conformance script."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.flow.conftest import Flow


def _script(shared: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("graded", shared / "conformance" / "graded.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _traces(graded: Any, case: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in case.glob("input/runs/*/results.json"):
        raw = file.read_text("utf-8")
        document = json.loads(raw) if raw[0] == "[" or raw.startswith('{"results"') else graded.lines(raw)
        rows = document["results"] if isinstance(document, dict) else document
        found |= {row["trace_id"]: row for row in rows}
    return found


@pytest.mark.corpus
def test_every_graded_case_has_its_right_outcome(shared_dir: Path, tmp_path: Path) -> None:
    graded = _script(shared_dir)
    cases = sorted((shared_dir / "conformance" / "graded-cases").iterdir())
    assert cases
    faults = {}
    for case in cases:
        place = tmp_path / case.name
        place.mkdir()
        toml, own = place / "flywheel.toml", case / "flywheel.toml"
        toml.write_text(own.read_text().replace("@CASE@", case.as_posix()) if own.exists() else "")
        made = Flow(case / "input", place / "home", config=toml).run()
        answer = {"ledger": {name: one.ledger.as_json() for name, one in made.items()}}
        sets = {kind: graded.Dataset(place / "home", name) for kind, name in graded.SETS.items()}
        expected = json.loads((case / "expected.json").read_text("utf-8"))
        faults[case.name] = list(graded.judge(expected, sets, answer, _traces(graded, case)))
    assert {name: found for name, found in faults.items() if found} == {}
