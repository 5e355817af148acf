"""One home, however Dagster was started."""

from pathlib import Path

import yaml

from trace_flywheel.orchestration.instance import LOCATION, dagster_home, instance, instance_yaml

CHECKOUT = Path(__file__).parents[2]


def test_the_checkouts_file_is_the_packages_text() -> None:
    assert (CHECKOUT / "dagster.yaml").read_text() == instance_yaml(".flywheel/dagster")


def test_checkout_and_installed_workspace_name_the_same_location(tmp_path: Path) -> None:
    checkout = yaml.safe_load((CHECKOUT / "workspace.yaml").read_text())
    installed = yaml.safe_load((dagster_home(tmp_path) / "workspace.yaml").read_text())
    assert checkout["load_from"][0]["python_file"]["location_name"] == LOCATION
    assert installed["load_from"][0]["python_module"]["location_name"] == LOCATION


def test_telemetry_and_nux_are_off() -> None:
    tree = yaml.safe_load(instance_yaml("x"))
    assert tree["telemetry"] == {"enabled": False}
    assert tree["nux"] == {"enabled": False}


def test_an_instance_keeps_what_it_was_told(tmp_path: Path) -> None:
    instance(tmp_path).add_dynamic_partitions("runs", ["r/a"])
    assert list(instance(tmp_path).get_dynamic_partitions("runs")) == ["r/a"]
    assert {p.name for p in (tmp_path / "dagster").iterdir()} >= {"storage", "dagster.yaml", "workspace.yaml"}
