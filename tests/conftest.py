"""Shared fixtures. Corpus and browser tests skip where their material is missing, and fail instead under
`FLYWHEEL_REQUIRE_ALL`, so that CI can never pass by skipping them."""

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

hypothesis_settings.register_profile(
    "flywheel", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("flywheel")


def missing(reason: str) -> None:
    """Skip, or fail where everything is required."""
    if os.environ.get("FLYWHEEL_REQUIRE_ALL"):
        pytest.fail(f"required here: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder that FLYWHEEL_CORPUS names (corpus, conformance cases, fixtures)."""
    value = os.environ.get("FLYWHEEL_CORPUS")
    if not value or not Path(value).is_dir():
        missing("FLYWHEEL_CORPUS names no folder")
    return Path(str(value))


@pytest.fixture(scope="session")
def corpus(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`corpus("harbor-jobs-refresh")`: that source unpacked in a temporary folder, once a session."""
    base = tmp_path_factory.mktemp("corpus")

    def unpack(source: str) -> Path:
        target = base / source
        if not target.exists():
            with tarfile.open(shared_dir / "corpus" / f"{source}.tar.xz") as tar:
                tar.extractall(base, filter="data")
        return target

    return unpack


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the developer's settings or writes into the checkout's home."""
    for name in [
        n for n in os.environ if n.startswith("FLYWHEEL_") and n not in {"FLYWHEEL_CORPUS", "FLYWHEEL_REQUIRE_ALL"}
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FLYWHEEL_HOME", str(tmp_path / "home"))
