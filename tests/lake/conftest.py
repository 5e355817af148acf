"""Homes over an object store: a bucket of its own for each test, on a real server that the module's tests share."""

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lake.s3 import Door, s3_server
from trace_flywheel.settings import Settings, load_settings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture
def url(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A bucket of its own."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    bucket = "".join(c if c.isalnum() else "-" for c in request.node.name)[:50].strip("-").lower()
    urllib.request.urlopen(urllib.request.Request(f"{server}/{bucket}", method="PUT")).close()
    return f"s3://{bucket}/team one/home"


@pytest.fixture
def door(server: str, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """Between the homes and the server."""
    made = Door(server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.address)
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Callable[..., Settings]:
    def make(name: str, remote: str = "", **more: Any) -> Settings:
        return load_settings(
            home=tmp_path / name,
            roots=(tmp_path / "jobs",),
            ingest={"workers": 1},
            lake={"remote": remote},
            layouts=("messages",),
            **more,
        )

    return make
