"""Shared fixtures. Corpus and browser tests skip where their material is missing, and fail instead under
`FLYWHEEL_REQUIRE_ALL`, so that CI can never pass by skipping them."""

import json
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from trace_flywheel.curation import compiled

hypothesis_settings.register_profile(
    "flywheel", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.register_profile(
    "harden",
    parent=hypothesis_settings.get_profile("flywheel"),
    derandomize=False,
    max_examples=int(os.environ.get("HARDEN_EXAMPLES", "1000")),
)
hypothesis_settings.load_profile("flywheel")
# `cli.main`, called in a test, would set it for all programs that later tests start; said here, it stays as it is.
os.environ.setdefault("PYTHONSAFEPATH", "")


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


@pytest.fixture(scope="module")
def always_compiled() -> Iterator[None]:
    """Loops are compiled however small the work is, so that they are what is tested and not their twins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "PATIENCE", -1.0)
        yield


@pytest.fixture
def benchflow_trial() -> Callable[..., Path]:
    """`benchflow_trial(job, "task__1", reward=1.0, ...)` writes a trial of a tool call and an answer; gives its folder.

    `reward=None` leaves it unscored; other keys go into result.json. `system`, `prompts` and `answer` set its texts.
    """

    def write(job: Path, name: str, reward: float | None = 1.0, **values: Any) -> Path:
        texts = {key: values.pop(key) for key in ("system", "prompts", "answer") if key in values}
        trial = job / name
        (trial / "trajectory").mkdir(parents=True)
        result = {"task_name": name.rpartition("__")[0], "agent": "opencode", "model": "deepseek/v4", **values}
        if reward is not None:
            result["rewards"] = {"reward": reward}
        (trial / "result.json").write_text(json.dumps(result))
        calls = _calls(**texts)
        (trial / "trajectory" / "llm_trajectory.jsonl").write_text("\n".join(json.dumps(c) for c in calls))
        return trial

    return write


def _calls(
    system: str = "You are careful.", prompts: tuple[str, ...] = ("Measure it.",), answer: str = "It is 12.3."
) -> list[dict[str, Any]]:
    """The recorded calls: two a prompt, each repeating the conversation so far."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": schema}}]
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    calls = []

    def call(said: dict[str, Any]) -> None:
        body = {"model": "v4", "messages": list(messages), "tools": tools}
        response = {"status_code": 200, "body": {"choices": [{"index": 0, "message": said}]}}
        calls.append({"request": {"path": "/v1/chat/completions", "body": body}, "response": response})
        messages.append(said)

    for number, prompt in enumerate(prompts):
        messages.append({"role": "user", "content": prompt})
        function = {"name": "bash", "arguments": '{"command":  "ls"}'}
        asked = [{"id": f"call_{number}", "type": "function", "function": function}]
        call({"role": "assistant", "content": None, "tool_calls": asked})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "file.csv"})
        call({"role": "assistant", "content": answer})
    return calls
