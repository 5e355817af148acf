"""The launchpad offers the fields of the settings tree, and what is set there wins for that run alone."""

import dagster as dg
import pytest

from trace_flywheel.orchestration.resources import SHAPE_OF_LOCATION, SettingsResource
from trace_flywheel.settings import Settings, SettingsError


def run(config: dict, check) -> dg.ExecuteInProcessResult:
    @dg.op
    def look(settings: SettingsResource) -> None:
        check(settings.load())

    @dg.job(resource_defs={"settings": SettingsResource()})
    def looking() -> None:
        look()

    return looking.execute_in_process(run_config={"resources": {"settings": {"config": config}}}, raise_on_error=True)


def test_every_field_of_the_tree_is_offered_but_those_that_shape_the_location() -> None:
    assert set(SettingsResource.model_fields) == set(Settings.model_fields) - SHAPE_OF_LOCATION
    groups = SettingsResource.model_fields["groups"].annotation
    assert set(groups.model_fields) == {"by", "normalisation", "eps", "unscored", "max_policy_age"}
    assert "standard deviation" in groups.model_fields["eps"].description


def test_an_empty_launchpad_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_SEED", "7")
    assert SettingsResource().load().seed == 7


def test_what_the_launchpad_sets_wins_and_the_rest_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_GROUPS__EPS", "0.5")

    def check(settings: Settings) -> None:
        assert settings.groups.normalisation == "loo"
        assert settings.groups.eps == 0.5
        assert settings.pairs.keep == 12
        assert settings.mix.target == {"single": 1.0}
        assert [str(p) for p in settings.roots] == ["/somewhere"]

    config = {
        "groups": {"normalisation": "loo"},
        "pairs": {"keep": "12"},
        "mix": {"target": {"single": 1}},
        "roots": ["/somewhere"],
    }
    assert run(config, check).success


def test_a_misspelt_choice_is_refused_at_launch() -> None:
    with pytest.raises(dg.DagsterInvalidConfigError):
        run({"groups": {"normalisation": "gripo"}}, lambda settings: None)


def test_a_value_out_of_range_fails_in_words() -> None:
    with pytest.raises(SettingsError, match=r"groups\.eps"):
        run({"groups": {"eps": -1.0}}, lambda settings: None)
