"""`flywheel ui` in a real browser: the lineage, an asset's page, its checks, and a backfill that is one run."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from trace_flywheel.sample.write import write_sample

pytestmark = [pytest.mark.ui, pytest.mark.xdist_group("ui")]

CHECKOUT = Path(__file__).parents[2]
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
START_SECONDS, PAGE_MS, BACKFILL_SECONDS = 180, 60_000, 240
"""Generous: two busy cores, and a daemon that looks every few seconds."""


def flywheel(*arguments: str, home: Path) -> list[str]:
    return [sys.executable, "-m", "trace_flywheel.cli.main", *arguments, "--home", str(home)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a UI over a home in which the sample was refreshed. Fails when the UI does not end orderly."""
    folder = tmp_path_factory.mktemp("ui")
    write_sample(folder / "jobs")
    home = folder / "home"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLYWHEEL_")}
    environment["PYTHONPATH"] = str(CHECKOUT)
    refresh = flywheel("refresh", "--root", str(folder / "jobs"), home=home)
    subprocess.run(refresh, env=environment, check=True, cwd=folder, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(flywheel("ui", "--port", str(port), home=home), env=environment, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: loaded(address), START_SECONDS, "the code location loads")
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        code = server.wait(60)
    assert code == 0, "Ctrl-C ends the UI cleanly"
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "nothing listens after the end"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not shutil.which("chromium"):
        missing("chromium is not installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed")
    with sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, served: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A page; its last state is saved as a picture in the test's temporary folder."""
    page = browser.new_page(viewport={"width": 1500, "height": 950}, base_url=served)
    page.set_default_timeout(PAGE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.screenshot(path=tmp_path / f"{request.node.name}.png")
    page.close()
    assert errors == []


def wait_for(condition: Any, seconds: float, what: str) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.5)
    pytest.fail(f"not within {seconds} s: {what}")


def graphql(address: str, query: str) -> dict[str, Any]:
    """One query. Dagster's GraphQL is no stable interface: what depends on it is here and below."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{address}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        document: dict[str, Any] = json.load(answer)
    assert "errors" not in document, document
    return document["data"]


def loaded(address: str) -> bool:
    try:
        data = graphql(address, "{ assetNodes { id } }")
    except OSError:
        return False
    return bool(data["assetNodes"])


def backfills(address: str) -> list[dict[str, Any]]:
    query = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { id status numPartitions } } } }"
    results: list[dict[str, Any]] = graphql(address, query)["partitionBackfillsOrError"]["results"]
    return results


def runs_of(address: str, backfill: str) -> list[dict[str, Any]]:
    tags = f'[{{key: "dagster/backfill", value: "{backfill}"}}]'
    query = f"{{ runsOrError(filter: {{tags: {tags}}}) {{ ... on Runs {{ results {{ id status }} }} }} }}"
    results: list[dict[str, Any]] = graphql(address, query)["runsOrError"]["results"]
    return results


def states(address: str) -> dict[str, str]:
    """Status of every sensor and schedule."""
    where = 'repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "trace_flywheel"}'
    sensors = f"sensorsOrError({where}) {{ ... on Sensors {{ results {{ name sensorState {{ status }} }} }} }}"
    schedules = f"schedulesOrError({where}) {{ ... on Schedules {{ results {{ name scheduleState {{ status }} }} }} }}"
    data = graphql(address, f"{{ {sensors} {schedules} }}")
    found = {s["name"]: s["sensorState"]["status"] for s in data["sensorsOrError"]["results"]}
    return found | {s["name"]: s["scheduleState"]["status"] for s in data["schedulesOrError"]["results"]}


def test_the_lineage_shows_the_whole_flow(page: Any) -> None:
    page.goto("/assets/balanced_mix?view=lineage&lineageScope=upstream&lineageDepth=9")
    for name in (
        "job_folders",
        "graded_traces",
        "redacted_rollouts",
        "rollout_index",
        "grouped_advantages",
        "sft_dataset",
        "depth_classifier",
        "balanced_mix",
        "eval_goldens",
        "training_corpus",
        "corrections",
    ):
        page.get_by_text(name, exact=True).first.wait_for()


def test_an_assets_page_shows_what_came_of_it(page: Any) -> None:
    page.goto("/assets/sft_dataset")
    page.get_by_text("One row per supervised conversation").first.wait_for()
    for text in ("Row count", "golden_id 1, golden_near_duplicate 1", "rollouts_kept", "first time", "row_id"):
        page.get_by_text(text).first.wait_for()


def test_a_picture_of_the_funnel_opens(page: Any) -> None:
    page.goto("/assets/sft_dataset")
    row = page.get_by_role("row").filter(has_text="funnel_picture")
    row.get_by_text("Show Markdown").click()
    image = page.locator("img[alt='Rollouts left after each stage']")
    image.wait_for()
    assert image.evaluate("image => image.naturalWidth") > 100


def test_the_checks_of_a_dataset_passed(page: Any) -> None:
    page.goto("/assets/sft_dataset?view=checks")
    for promise in ("ledger_conserves", "provenance_complete", "no_golden", "no_secret_left", "card_matches_files"):
        page.get_by_text(promise, exact=True).first.wait_for()
    page.get_by_text("Passed").first.wait_for()


def test_sensors_and_schedule_are_there_and_off(page: Any, served: str) -> None:
    page.goto("/automation")
    for name in ("job_folders_sensor", "refresh_sensor", "nightly_refresh"):
        page.get_by_text(name).first.wait_for()
    assert states(served) == {
        "job_folders_sensor": "STOPPED",
        "refresh_sensor": "STOPPED",
        "nightly_refresh": "STOPPED",
    }


def test_a_backfill_over_all_runs_is_one_run(page: Any, served: str) -> None:
    page.goto("/assets/graded_traces?view=partitions")
    page.get_by_role("button", name="Materialize…").click()
    dialog = page.get_by_role("dialog") if page.get_by_role("dialog").count() else page
    page.get_by_text("Launch runs to materialize graded_traces").wait_for()
    dialog.get_by_role("button", name="All", exact=True).last.click()
    page.get_by_text("4 partitions", exact=False).first.wait_for()
    page.get_by_role("button", name="Launch backfill").click()
    started = wait_for(lambda: backfills(served), 60, "a backfill appears")
    assert started[0]["numPartitions"] == 4
    done = wait_for(
        lambda: [b for b in backfills(served) if b["status"] == "COMPLETED_SUCCESS"], BACKFILL_SECONDS, "it completes"
    )
    assert [run["status"] for run in runs_of(served, done[0]["id"])] == ["SUCCESS"]
