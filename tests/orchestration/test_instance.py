"""One home, however Dagster was started."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from trace_flywheel.orchestration.instance import LOCATION, dagster_home, instance, instance_yaml, served_home
from trace_flywheel.records.errors import FlywheelError

CHECKOUT = Path(__file__).parents[2]


def test_the_checkouts_file_is_the_packages_text() -> None:
    assert (CHECKOUT / "dagster.yaml").read_text() == instance_yaml(".flywheel/dagster")


def test_checkout_and_installed_workspace_name_the_same_location(tmp_path: Path) -> None:
    checkout = yaml.safe_load((CHECKOUT / "workspace.yaml").read_text())
    installed = yaml.safe_load((dagster_home(tmp_path) / "workspace.yaml").read_text())
    assert checkout["load_from"][0]["python_file"]["location_name"] == LOCATION
    assert installed["load_from"][0]["python_module"]["location_name"] == LOCATION


def test_dagster_loads_no_module_of_the_current_folder_which_may_be_a_job_folder(tmp_path: Path) -> None:
    home = tmp_path / "a home: #1"
    installed = yaml.safe_load((dagster_home(home) / "workspace.yaml").read_text())
    assert installed["load_from"][0]["python_module"]["working_directory"] == str(home / "dagster")


def test_telemetry_and_nux_are_off() -> None:
    tree = yaml.safe_load(instance_yaml("x"))
    assert tree["telemetry"] == {"enabled": False}
    assert tree["nux"] == {"enabled": False}


def test_runs_tell_the_terminal_what_they_warn_of_and_the_history_everything(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    @dg.op
    def warns(context: dg.OpExecutionContext) -> None:
        context.log.warning("look out")

    with instance(tmp_path) as one:
        run = dg.GraphDefinition("graph", node_defs=[warns]).to_job("job").execute_in_process(instance=one)
        told = [entry.user_message for entry in one.all_logs(run.run_id)]
    assert any("STEP_SUCCESS" in line or "Finished execution of step" in line for line in told)
    assert "look out" in told
    err = capfd.readouterr().err
    assert " - WARNING - " in err
    assert " - DEBUG - " not in err


def test_an_instance_keeps_what_it_was_told(tmp_path: Path) -> None:
    instance(tmp_path).add_dynamic_partitions("runs", ["r/a"])
    assert list(instance(tmp_path).get_dynamic_partitions("runs")) == ["r/a"]
    assert {p.name for p in (tmp_path / "dagster").iterdir()} >= {"storage", "dagster.yaml", "workspace.yaml"}


@pytest.mark.slow
def test_dagster_in_the_checkout_and_flywheel_share_one_history(tmp_path: Path) -> None:
    for name in ("dagster.yaml", "workspace.yaml", "definitions.py"):
        shutil.copy(CHECKOUT / name, tmp_path)
    environment = {k: v for k, v in os.environ.items() if k not in {"DAGSTER_HOME", "FLYWHEEL_HOME"}}
    environment["PYTHONPATH"] = str(CHECKOUT)
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-f", "definitions.py"]
    done = subprocess.run(
        [*command, "--select", "depth_classifier"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [run.status.value for run in instance(tmp_path / ".flywheel").get_runs()] == ["SUCCESS"]
    assert (tmp_path / ".flywheel" / "lake" / "depth_classifier" / "current").is_file()


NAMES = ("a #b", "a: b", "it's", 'say "x"', "- x", "{x}", "é", "&a", "a[1]", "[b]*", "!t", "back\\slash")


@pytest.mark.parametrize("name", NAMES)
def test_a_home_of_any_name_keeps_its_storage_inside_and_telemetry_off(name: str, tmp_path: Path) -> None:
    home = tmp_path / name
    with instance(home) as one:
        assert one.telemetry_enabled is False
    assert (home / "dagster" / "storage").is_dir()
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["%2F", "why?", "a\nb"])
def test_a_home_that_dagster_would_put_elsewhere_is_refused_in_words(name: str, tmp_path: Path) -> None:
    with pytest.raises(FlywheelError, match="give another --home"):
        instance(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_pages_are_not_served_from_a_home_whose_settings_dagster_would_not_find(tmp_path: Path) -> None:
    with pytest.raises(FlywheelError, match="move the home"):
        served_home(tmp_path / "a[1]")
