"""Imports go down a floor, never up, and rooms of floor 2 do not know each other. The core never imports Dagster."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "trace_flywheel"
FLOOR = {
    "records": 0,  # below settings, whose error is one of the records'
    "settings": 1,
    "sources": 2,
    "redaction": 2,
    "curation": 2,
    "trainers": 2,
    "sample": 3,
    "lake": 3,
    "flow": 4,
    "api": 5,
    "orchestration": 5,
    "cli": 6,  # `refresh` and `ui` start what `orchestration` defines
}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "trace_flywheel" else None


def imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_go_down_only(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    room = relative.parts[0].removesuffix(".py")
    if room in {"__init__", "py"}:
        return
    floor = FLOOR[room]
    for name in imports(path):
        target = room_of(name)
        if target is None or target not in FLOOR or target == room:
            continue
        assert FLOOR[target] < floor, f"{relative} (floor {floor}) imports {name} (floor {FLOOR[target]})"
        if room == "lake":
            assert target in {"records", "settings"}, f"{relative}: the lake knows records only, not {name}"
    if floor < 5:
        assert not any(n.split(".")[0] == "dagster" for n in imports(path)), f"{relative}: the core imports dagster"


def test_every_module_says_what_it_is() -> None:
    silent = [
        p for p in MODULES if p.read_text("utf-8").strip() and not ast.get_docstring(ast.parse(p.read_text("utf-8")))
    ]
    assert not silent
