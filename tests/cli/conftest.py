"""One home with published datasets, made once: the commands only read it."""

from pathlib import Path

import pytest

from tests.flow.conftest import Flow, group, trace, write_runs


@pytest.fixture(scope="session")
def published_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("published")
    rows = [*group("a", (1.0, 0.9, 0.2, 0.0), 1), trace("unsure", "b", 1.0, 30, "unsure")]
    home = base / "home"
    Flow(write_runs(base / "data", {"r1": rows}), home, mix={"target": {"other": 1.0}}).run()
    return home
