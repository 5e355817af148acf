"""What is off is named with its remedy, and only what is broken fails."""

import json
import os
from pathlib import Path

import pytest

from tests.flow.conftest import Flow, group, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.lake.dataset import find_version


def findings(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    return {f["what"]: f for f in json.loads(capsys.readouterr().out)}


def test_a_fresh_place_works_and_says_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--home", str(tmp_path / "home"), "--json"]) == 0
    found = findings(capsys)
    assert found["python"]["state"] == "ok"
    assert found["schemas"]["state"] == "ok"
    assert found["roots"]["state"] == "off"
    assert "--root" in found["roots"]["mend"]
    assert found["lake"]["mend"] == "run `flywheel refresh`"
    assert "automation.start" in found["automation"]["mend"]
    assert not (tmp_path / "home").exists(), "doctor writes nothing"


def test_a_lake_of_a_newer_version_is_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "format").write_text("99\n")
    assert main(["doctor", "--home", str(tmp_path), "--json"]) == 1
    assert "'99'" in findings(capsys)["lake"]["found"]


def test_a_wrong_setting_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flywheel.toml").write_text("[groups]\neps = -1\n")
    assert main(["doctor", "--config", str(tmp_path / "flywheel.toml"), "--json"]) == 1
    assert "groups.eps" in findings(capsys)["settings"]["found"]


def test_a_missing_root_is_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_ROOTS", json.dumps([str(tmp_path / "nowhere")]))
    assert main(["doctor", "--home", str(tmp_path)]) == 1


def test_a_home_that_may_only_be_read_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Flow(write_runs(tmp_path / "data", {"r": group("a", (1.0, 0.0), 1)}), tmp_path / "home").run()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # who runs the tests may write anywhere
    assert main(["doctor", "--home", str(tmp_path / "home"), "--json"]) == 0
    found = findings(capsys)
    assert (found["home"]["state"], found["lake"]["state"], found["datasets"]["state"]) == ("off", "ok", "ok")
    assert main(["doctor", "--home", str(tmp_path / "nowhere" / "home"), "--json"]) == 1
    assert findings(capsys)["home"]["state"] == "bad"


def test_lines_for_people_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--home", str(tmp_path)])
    for line in capsys.readouterr().out.splitlines():
        assert line.startswith(("ok ", "off ", "bad "))
        assert line.startswith("ok ") or ";" in line


def test_a_version_that_was_changed_by_hand_is_named_and_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    Flow(write_runs(tmp_path / "data", {"r": group("a", (1.0, 0.0), 1)}), home).run()
    version = find_version(home, "sft_dataset")
    data = version.path / "data-00000.jsonl"
    data.write_bytes(data.read_bytes().replace(b"Do a.", b"Do b."))
    assert main(["doctor", "--home", str(home), "--json"]) == 1
    found = findings(capsys)["datasets"]
    assert found["found"] == f"differ from their manifest: sft_dataset@{version.version} data-00000.jsonl"
    out = tmp_path / "out"
    assert main(["export", "sft_dataset", "--format", "trl-sft", "--out", str(out), "--home", str(home)]) != 0
    assert f"{data}: differs from its manifest" in capsys.readouterr().err
    assert not out.exists()
