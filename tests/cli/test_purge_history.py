"""After an erasure no file of a home that was fed by `flywheel refresh` holds the text: Dagster's history neither."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.flow.conftest import group, sentence, trace, write_runs
from trace_flywheel.cli.main import main


def holding(home: Path, text: str) -> list[str]:
    found = []
    for path in sorted(p for p in home.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data += json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
        if text.encode() in data:
            found.append(path.relative_to(home).as_posix())
    return found


def test_no_byte_of_a_home_holds_what_was_erased(tmp_path: Path) -> None:
    rows = {"r1": group("a", (1.0, 0.9, 0.2, 0.0), 1), "r2": [trace("b-0", "b", 1.0, 50)]}
    root, home = write_runs(tmp_path / "data", rows), tmp_path / "home"
    refresh = ["refresh", "--root", str(root), "--home", str(home)]
    assert main(refresh) == 0
    canary = sentence(1).split()[1]
    before = holding(home, canary)
    assert any(path.startswith("dagster/") for path in before)
    assert any(path.startswith("lake/graded_traces/") for path in before)
    assert main(["purge", "--trace", "a-0", "--reason", "request", "--home", str(home)]) == 0
    assert holding(home, canary) == []
    assert holding(home, sentence(2).split()[1])
    assert main(refresh) == 0
    assert holding(home, canary) == []
