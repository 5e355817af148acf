"""One settings tree from flags, environment, toml and defaults; a fault names field, value and place."""

from pathlib import Path

import pytest

from trace_flywheel.settings import Settings, SettingsError, load_settings
from trace_flywheel.settings.meaning import meanings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLYWHEEL_HOME")


def test_defaults_are_the_documented_ones() -> None:
    s = load_settings()
    assert (s.ingest.quiet_seconds, s.ingest.max_line_mb, s.ingest.quarantine_after) == (10, 64, 3)
    assert (s.grading.pass_reward, s.grading.ungraded) == (1.0, {"atraj": "accept"})
    assert (s.goldens.overlap, s.dedup.threshold, s.seed) == (0.5, 0.85, 42)
    assert (s.groups.normalisation, s.groups.eps, s.groups.unscored) == ("grpo", 1e-4, "withhold")
    assert s.groups.by == ("task", "task_digest", "agent", "model", "policy_version")
    assert (s.selection.keep_fraction, s.selection.max_per_task) == (0.25, 4)
    assert (s.pairs.rule, s.pairs.min_group, s.pairs.per_task, s.pairs.keep) == ("mu-2sigma", 4, 1, "all")
    assert s.mix.target == {"single": 0.3, "multi": 0.5, "comparison": 0.2}
    assert s.layouts == ("messages", "prime-sft", "trl-sft", "trl-dpo", "kto")
    assert (s.redaction.pii, s.redaction.supervise_placeholders) == ("standard", "mask")
    assert s.home == Path(".flywheel")
    assert s.versions.keep == 10


def test_code_beats_environment_beats_toml_and_sections_merge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "flywheel.toml").write_text("seed = 1\n[pairs]\nmin_group = 5\nper_task = 2\nkeep = 9\n")
    monkeypatch.setenv("FLYWHEEL_PAIRS__PER_TASK", "3")
    s = load_settings(pairs={"keep": 7})
    assert (s.seed, s.pairs.min_group, s.pairs.per_task, s.pairs.keep) == (1, 5, 3, 7)


def test_paths_of_the_toml_are_relative_to_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "project" / "flywheel.toml"
    config.parent.mkdir()
    config.write_text(
        'roots = ["jobs", "/abs"]\nhome = "state"\ncorpora = ["old.jsonl"]\n[goldens]\npaths = ["g.jsonl"]\n'
    )
    monkeypatch.setenv("FLYWHEEL_CONFIG", str(config))
    s = load_settings()
    base = config.parent
    assert s.roots == (base / "jobs", Path("/abs"))
    assert (s.home, s.corpora, s.goldens.paths) == (base / "state", (base / "old.jsonl",), (base / "g.jsonl",))


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("sed = 1", ["unknown setting 'sed'", "seed"]),
        ("[pairs]\nmin_grup = 3", ["pairs.min_grup"]),
        ("[pairs]\nmin_group = 1", ["pairs.min_group", "2", "got 1"]),
        ("[selection]\nkeep_fraction = 0", ["selection.keep_fraction"]),
        ("[mix.target]\nsingle = -1", ["mix.target"]),
        ("[mix.target]\nsingle = 0", ["mix.target"]),
        ("seed = ", ["not valid TOML"]),
        ("[datasets.Bad-Name]", ["datasets.Bad-Name", "lower-case"]),
        ("[datasets.sft]", ["datasets.sft"]),
        ('layouts = ["nope"]', ["layouts.0"]),
        ("[groups]\neps = inf", ["groups.eps", "finite"]),
        ("[ingest]\nquiet_seconds = nan", ["ingest.quiet_seconds"]),
        ("[ingest]\nmax_line_mb = 1e300", ["ingest.max_line_mb", "1000000"]),
        (f"seed = {10**27}", ["seed", "64 bits"]),
        (f"[selection]\nmax_per_task = {2**63}", ["selection.max_per_task", "64 bits"]),
    ],
)
def test_a_fault_names_the_field_and_the_file(tmp_path: Path, toml: str, says: list[str]) -> None:
    (tmp_path / "flywheel.toml").write_text(toml)
    with pytest.raises(SettingsError) as fault:
        load_settings()
    for text in says:
        assert text in str(fault.value)
    if "datasets" not in toml:
        assert "flywheel.toml" in str(fault.value)


def test_a_fault_in_a_flag_or_variable_does_not_blame_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_SEED", "many")
    with pytest.raises(SettingsError, match="environment or flags: seed"):
        load_settings()


def test_a_fault_of_the_launchpad_does_not_blame_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flywheel.toml").write_text("seed = 7\n[dedup]\nthreshold = 0.8\n")
    with pytest.raises(SettingsError, match=r"^launchpad or flags: dedup\.threshold"):
        load_settings(dedup={"threshold": 7.0})
    with pytest.raises(SettingsError, match=r"^launchpad or flags: layouts\.0"):
        load_settings(layouts=["nope"])
    monkeypatch.setenv("FLYWHEEL_SEED", "many")
    with pytest.raises(SettingsError, match=r"^environment or flags: seed"):
        load_settings(dedup={"threshold": 0.9})


def test_a_named_settings_file_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLYWHEEL_CONFIG", "nowhere.toml")
    with pytest.raises(SettingsError, match=r"nowhere\.toml: no such settings file"):
        load_settings()


def test_only_what_changes_bytes_is_hashed() -> None:
    base = load_settings().hashed()
    same = load_settings(
        home="elsewhere", ingest={"workers": 7}, versions={"keep": 2}, roots=["x"], automation={"start": True}
    )
    assert same.hashed() == base
    assert load_settings(seed=1).hashed() != base
    assert load_settings(dedup={"threshold": 0.9}).hashed() != base


def test_every_field_says_what_it_is_unless_its_name_does() -> None:
    plain = {"pairs.per_task", "groups.normalisation", "mix.column"}
    silent = [
        f"{section}.{name}"
        for section, field in Settings.model_fields.items()
        if hasattr(field.annotation, "model_fields")
        for name in field.annotation.model_fields  # type: ignore[union-attr]
        if name not in meanings(field.annotation) and f"{section}.{name}" not in plain  # type: ignore[arg-type]
    ]
    assert silent == []


def test_what_a_setting_means_is_what_stands_below_it() -> None:
    assert meanings(Settings)["home"] == "Where lake, datasets and Dagster's own storage rest."
    assert "mix" not in meanings(Settings), "a section says it itself"

    class Local(Settings):
        """Its file holds no such class by itself."""

    assert meanings(Local) == {}


def test_an_unknown_section_in_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("FLYWHEEL_REQUIRE_ALL", "1")
    load_settings()
    monkeypatch.setenv("FLYWHEEL_SELECTON__KEEP_FRACTION", "0.5")
    with pytest.raises(
        SettingsError, match=r"FLYWHEEL_SELECTON__KEEP_FRACTION: unknown section 'selecton'; known: ing"
    ):
        load_settings()


@pytest.mark.parametrize(("name", "field"), [("ROOTS", "roots"), ("MIX__TARGET", "mix"), ("MIX", "mix")])
def test_a_variable_that_must_be_json_is_named(monkeypatch: pytest.MonkeyPatch, name: str, field: str) -> None:
    monkeypatch.setenv(f"FLYWHEEL_{name}", "abc")
    with pytest.raises(SettingsError, match=f'environment: .*"{field}": must be JSON'):
        load_settings()
