"""Floor 1: one typed settings tree; the same fields come from `flywheel.toml`, the environment, code and Dagster.

Order, first wins: values given in code (the CLI's flags, Dagster's launchpad), `FLYWHEEL_SECTION__FIELD` in the
environment, the toml file (`--config`, `FLYWHEEL_CONFIG`, else `flywheel.toml` in the working folder), the default.
Relative paths are relative to the toml file's folder, else to the working folder. An unknown key is an error: a
misspelt setting never passes silently. Each field says its unit and, where it is a number, why that number.

Only what changes bytes enters `Settings.hashed()`; workers, ports and paths never do.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from trace_flywheel.records.errors import UsageError
from trace_flywheel.records.normalisation import Normalisation
from trace_flywheel.records.shortage import shortage_of

LAYOUTS = Literal["messages", "prime-sft", "trl-sft", "trl-dpo", "kto"]
GROUP_KEYS = Literal["task", "task_digest", "agent", "model", "policy_version", "job"]


class SettingsError(UsageError, ValueError):
    """A setting that cannot be used. The text names the field, the fault and where it was set."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Ingest(Section):
    quiet_seconds: float = Field(10.0, ge=0)
    """Seconds without a change before a folder without a job-level marker counts as finished (sensors only)."""
    max_line_mb: float = Field(64.0, gt=0)
    """MB of one JSON line or document; a longer one is dropped as `line_too_long`, never read into memory whole."""
    workers: int = Field(0, ge=0)
    """Processes that read; 0 means one per core."""
    quarantine_after: PositiveInt = 3
    """Failed tries after which a folder is left alone until it changes."""


class Grading(Section):
    pass_reward: float = 1.0
    """Least reward that counts as a pass where the verifier writes no verdict (BenchFlow, Harbor)."""
    verdict_map: dict[str, Literal["pass", "fail"]] = Field(default_factory=dict)
    """Other spellings of a verdict; without an entry they are `no_verdict`."""
    ungraded: dict[str, Literal["accept", "needs_grading"]] = {"atraj": "accept"}
    """By source format: take rollouts without a verdict into SFT, marked, or route them back."""
    verdicts: tuple[Path, ...] = ()
    """Files of verdicts, `{trace_id, run_id?, verdict, reward?, grader, grader_version?}` a line; the last counts."""


class Goldens(Section):
    paths: tuple[Path, ...] = ()
    """Golden files beside those found in an eval layout (`eval/goldens.jsonl` above a run)."""
    forget: tuple[Path, ...] = ()
    """Golden files that hold nothing out any more. A home remembers every golden file that it ever read."""
    overlap: float = Field(0.5, gt=0, le=1)
    """Share of a golden statement's 8-token n-grams that makes a rollout a near-duplicate of it."""


class Groups(Section):
    by: tuple[GROUP_KEYS, ...] = ("task", "task_digest", "agent", "model", "policy_version")
    """What the members of a group share."""
    normalisation: Normalisation = "grpo"
    """grpo: distance from the mean in standard deviations; dr-grpo: as it is; max-rl: by the mean; loo: to others'."""
    eps: float = Field(1e-4, ge=0)
    """Added to the standard deviation; BenchFlow's and TRL's value."""
    unscored: Literal["withhold", "exclude"] = "withhold"
    """A member without a score withholds the group's advantages, or is left out of them."""
    max_policy_age: float | None = Field(None, ge=0)
    """Days between the last finish of a rollout's policy and the newest of all, above which RL leaves it out."""


class Selection(Section):
    keep_fraction: float = Field(0.25, gt=0, le=1)
    """Share of a task's passing rollouts that is kept, best reward first; rounded up, so never none."""
    max_per_task: PositiveInt = 4
    """Rows of one task after near-duplicate removal; corrections do not count."""


class Pairs(Section):
    rule: Literal["mu-2sigma", "mu-sigma", "max-min"] = "mu-2sigma"
    """Where in the reward distribution the rejected member is sought, among failing rollouts."""
    min_group: int = Field(4, ge=2)
    """Scored members below which a group gives no pair."""
    per_task: PositiveInt = 1
    """Pairs of one task, however many contexts it was run in."""
    keep: PositiveInt | Literal["all"] = "all"
    """Pairs kept by delta over the whole candidate set."""
    delta_source: Literal["judge", "reward"] = "judge"
    """What a pair's delta is the difference of: judge scores where both members have one, else rewards; or rewards."""
    errored_rejected: bool = False
    """Take failing rollouts that ended in an error or were cut off as the rejected member too."""


class Dedup(Section):
    threshold: float = Field(0.85, gt=0, le=1)
    """Jaccard of word 5-shingles from which two rows are near-duplicates; exact, not estimated."""
    mode: Literal["cumulative", "delta"] = "cumulative"
    """Each version whole, or only what the versions of the same dataset among `corpora` do not hold yet."""
    alarm_share: float = Field(0.5, gt=0, le=1)
    """Share of a task's rows (of four or more) lost to near-duplicates above which the card warns of a template."""
    index: bool = True
    """Keep what is known of corpora in the home; off, they are read anew each time. What is found is the same."""


class AllowedValue(Section):
    """A value that redaction leaves, by exactly one of pattern and fingerprint."""

    reason: str
    """Why it may stay; the card repeats it."""
    pattern: str = ""
    """RE2 that the whole value matches."""
    fingerprint: str = ""
    """From a report of this home."""


class Redaction(Section):
    pii: Literal["standard", "all", "none"] = "standard"
    """Which personal data goes beside the secrets, which always go."""
    supervise_placeholders: Literal["mask", "keep"] = "mask"
    """A supervised turn that would teach a placeholder is masked, or kept as a target."""
    rules: tuple[Path, ...] = ()
    """More rule files (TOML, as those of the package); what they say enters hashes, where they lie does not."""
    allow: tuple[AllowedValue, ...] = ()
    """Values that stay, each with its reason: `[[redaction.allow]]`."""
    second_gate: Literal["none", "kingfisher"] = "none"
    """Finished rows are also looked at by kingfisher (extra `kingfisher`); a row with a finding is dropped."""
    masked_share: float = Field(0.5, ge=0, le=1)
    """Share of the turns to be learned that placeholders mask above which a dataset is not published."""


class Mix(Section):
    column: str = "depth"
    """What the shares are shares of: `depth`, or a column of rollouts as `agent`, `model`, `suite`, `task_id`."""
    target: dict[str, float] = Field(default_factory=lambda: {"single": 0.3, "multi": 0.5, "comparison": 0.2})
    """Shares of the targeted classes; they are divided by their sum. Untargeted ones keep their natural share."""
    shortage: str = "shrink"
    """`shrink` to the largest set that fits, `fail`, `renormalize` absent classes' shares, or `upsample(N)`."""
    unit: Literal["rollouts", "supervised_tokens"] = "rollouts"
    """What shares are shares of: each rollout counts 1, or as many tokens as it teaches."""
    mode: Literal["drop", "weight"] = "drop"
    """Leave surplus out, or keep every row with a `weight` in `provenance.parquet`."""
    depth_from: Literal["classifier", "trajectory", "both"] = "classifier"
    """A row's depth by its prompt, by the calls that were made, or by both; disagreement is reported."""
    min_confidence: float = Field(0.0, ge=0, le=1)
    """Confidence of the classifier below which a row's class is `uncertain`."""
    uncertain: Literal["exclude", "keep", "other"] = "exclude"
    """Leave uncertain rows out, keep their natural share, or count them as `other`."""

    @field_validator("shortage")
    @classmethod
    def _known(cls, value: str) -> str:
        shortage_of(value)
        return value

    @field_validator("target")
    @classmethod
    def _positive(cls, value: dict[str, float]) -> dict[str, float]:
        if not value or any(v < 0 for v in value.values()) or sum(value.values()) <= 0:
            raise ValueError("shares must be zero or more and at least one above zero")
        return value


class Depth(Section):
    """What the depth classifier of a family of datasets is trained on and judged by."""

    labels: tuple[Path, ...] = ()
    """Labelled prompts of your own, `{prompt, label}` a line, beside the seed set; lines with a null label wait."""
    seed_set: bool = True
    """Train on the prompts that come with the package too."""
    held_out: tuple[Path, ...] = ()
    """Labelled prompts that it is judged by; without them by five folds of what it is trained on."""
    min_f1: float = Field(0.5, ge=0, le=1)
    """Macro-F1 below which a new classifier does not take the place of the one before."""


class Splits(Section):
    eval: float = Field(0.0, ge=0, lt=1)
    """Share of tasks whose rows go to the split `eval`; a task never changes its split while seed and shares stand."""
    held_out: float = Field(0.0, ge=0, lt=1)
    """Share of tasks whose rows go to the split `held_out`."""
    family: str = ""
    """Regular expression whose group names the family in a task id; families are split whole. Empty: the id itself."""

    @field_validator("family")
    @classmethod
    def _one_group(cls, value: str) -> str:
        try:
            groups = re.compile(value).groups
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        if value and groups != 1:
            raise ValueError(f"one group names the family; this has {groups}")
        return value

    @model_validator(mode="after")
    def _leaves_train(self) -> "Splits":
        if self.eval + self.held_out >= 1:
            raise ValueError("eval and held_out leave nothing to train on; their sum must be below 1")
        return self


class Versions(Section):
    keep: PositiveInt = 10
    """Dataset versions kept; older ones are removed after a publication."""


class Lake(Section):
    keep_raw: bool = True
    """Keep raw text in `graded_traces`; off, only its scalars, and the source folder is read again when needed."""
    remote: str = Field("", pattern=r"^(s3://[^/]+(/.+)?)?$")
    """`s3://BUCKET/PREFIX` that holds lake and datasets; the home is then this machine's working copy of it."""


class Automation(Section):
    start: bool = False
    """Ship sensors and schedule switched on."""


class Recipe(Section):
    """One more family of datasets from the same index: `NAME_sft`, `NAME_dpo`, `NAME_kto`, `NAME_rl`, `NAME_prompts`
    and `NAME_mix`. Absent fields follow the tree."""

    sources: tuple[str, ...] = ()
    """Source formats that take part; empty means all. So for the next three."""
    agents: tuple[str, ...] = ()
    """Agents that take part."""
    tasks: tuple[str, ...] = ()
    """Task ids that take part."""
    policies: tuple[str, ...] = ()
    """Policy versions that take part."""
    selection: Selection | None = None
    """A selection of its own, whole."""
    pairs: Pairs | None = None
    """Pair rules of its own, whole."""
    depth: Depth | None = None
    """A depth classifier of its own, whole: `NAME_depth_classifier`."""
    mix: Mix | None = None
    """A target mix of its own, whole."""
    layouts: tuple[LAYOUTS, ...] | None = None
    """Layouts of its own."""


class Settings(BaseSettings):
    """The tree. Build it with `load_settings`, which turns faults into `SettingsError`."""

    model_config = SettingsConfigDict(
        env_prefix="FLYWHEEL_", env_nested_delimiter="__", extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    roots: tuple[Path, ...] = ()
    """Folders that hold job folders, at any depth."""
    home: Path = Path(".flywheel")
    """Where lake, datasets and Dagster's own storage rest."""
    ingest: Ingest = Ingest()
    grading: Grading = Grading()
    goldens: Goldens = Goldens()
    corpora: tuple[Path, ...] = ()
    """Training data that exists already, JSONL, Parquet or `dataset:NAME@VERSION`: rows near one of it are dropped."""
    corrections: tuple[Path, ...] = ()
    """Files of corrections, one JSON object a line: `{trace_id, run_id?, content, corrected_by, turn?}`."""
    judge_scores: tuple[Path, ...] = ()
    """Files of judge scores, one JSON object a line: `{trace_id, run_id?, name?, value, scale?: [lo, hi], judge?}`."""
    groups: Groups = Groups()
    selection: Selection = Selection()
    pairs: Pairs = Pairs()
    dedup: Dedup = Dedup()
    redaction: Redaction = Redaction()
    depth: Depth = Depth()
    mix: Mix = Mix()
    splits: Splits = Splits()
    layouts: tuple[LAYOUTS, ...] = ("messages", "prime-sft", "trl-sft", "trl-dpo", "kto")
    """Layouts that every dataset is published in, where they fit its rows."""
    versions: Versions = Versions()
    lake: Lake = Lake()
    automation: Automation = Automation()
    datasets: dict[str, Recipe] = Field(default_factory=dict)
    """More datasets from the same index: `[datasets.NAME]` gives `NAME_sft`, `NAME_dpo` and the other kinds."""
    seed: int = 42
    """Breaks ties and orders the mix, together with content hashes."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _TomlSource(settings_cls)

    def hashed(self) -> dict[str, Any]:
        """The settings that change bytes, as plain data: what a dataset version's id and its card hold."""
        tree = self.model_dump(mode="json")
        for name in ("roots", "home", "ingest", "versions", "automation", "lake", "datasets", "corpora", *INPUT_FILES):
            tree.pop(name)
        for name in ("paths", "forget"):
            tree["goldens"].pop(name)
        tree["grading"].pop("verdicts")
        tree["dedup"].pop("index")
        tree.pop("depth")  # the classifier's digest holds what its files say
        tree["redaction"].pop("rules")  # their content is in the rule set's digest
        return tree


ENV = "FLYWHEEL_"
INPUT_FILES = ("corrections", "judge_scores")
"""Paths of files that are inputs: their content counts, not where they stand."""
DATASET_CORPUS = "dataset:"
"""How a corpus that is a published dataset version begins."""
SECTIONS = tuple(
    name
    for name, field in Settings.model_fields.items()
    if name == "datasets" or (isinstance(field.annotation, type) and issubclass(field.annotation, Section))
)
"""Fields that have fields."""
SECTION_PATHS = (
    ("goldens", "paths"),
    ("goldens", "forget"),
    ("grading", "verdicts"),
    ("redaction", "rules"),
    ("depth", "labels"),
    ("depth", "held_out"),
)
"""Fields inside sections that hold paths."""
RECIPE_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
DEFAULT_RECIPE_NAMES = frozenset({"sft", "dpo", "kto", "rl", "balanced"})


class _TomlSource(PydanticBaseSettingsSource):
    """Reads the toml file named by `load_settings`; relative paths become absolute against its folder."""

    file: Path | None = None

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError  # pragma: no cover - pydantic-settings calls __call__ only

    def __call__(self) -> dict[str, Any]:
        if self.file is None:
            return {}
        tree = tomllib.loads(self.file.read_text("utf-8"))
        unknown = sorted(set(tree) - set(Settings.model_fields))
        if unknown:
            raise SettingsError(
                f"{self.file}: unknown setting {unknown[0]!r}; known: {', '.join(Settings.model_fields)}"
            )
        base = self.file.resolve().parent
        recipes = tree.get("datasets")
        for part in (tree, *(recipes.values() if isinstance(recipes, dict) else ())):
            for section, name in SECTION_PATHS:
                if isinstance(part, dict) and isinstance(part.get(section), dict) and name in part[section]:
                    part[section][name] = _absolute(part[section][name], base)
        for name in ("roots", "corpora", "home", *INPUT_FILES):
            if name in tree:
                tree[name] = _absolute(tree[name], base)
        return tree


def _absolute(value: Any, base: Path) -> Any:
    if isinstance(value, list):
        return [_absolute(v, base) for v in value]
    if isinstance(value, str) and value.startswith(DATASET_CORPUS):
        return value
    return str(base / value) if isinstance(value, str) else value


def config_file(explicit: Path | None = None) -> Path | None:
    """The toml file in force: the explicit one, `FLYWHEEL_CONFIG`, else `flywheel.toml` here if it exists."""
    if explicit is None and (named := os.environ.get("FLYWHEEL_CONFIG")):
        explicit = Path(named)
    if explicit is not None:
        if not explicit.is_file():
            raise SettingsError(f"{explicit}: no such settings file; give another with --config or FLYWHEEL_CONFIG")
        return explicit
    here = Path("flywheel.toml")
    return here if here.is_file() else None


def _check_environment() -> None:
    """Refuse `FLYWHEEL_SECTION__FIELD` of no section. Names without `__` may be another program's."""
    for name in sorted(os.environ):
        section, nested, _ = name.removeprefix(ENV).lower().partition("__")
        if name.startswith(ENV) and nested and section not in Settings.model_fields:
            raise SettingsError(f"environment: {name}: unknown section {section!r}; known: {', '.join(SECTIONS)}")


def _place(file: Path | None, field: list[str], values: Mapping[str, Any]) -> str:
    """Where the value of a field was given: the source that wins among those that give it."""
    tree: Any = values
    for part in field:
        if isinstance(tree, Mapping):
            tree = tree.get(part)
    if tree is not None and field:
        return "launchpad or flags"
    named = {name.upper() for name in os.environ}
    if file is None or any(f"{ENV}{'__'.join(field[:n])}".upper() in named for n in range(1, len(field) + 1)):
        return "environment or flags"
    return str(file)


def load_settings(config: Path | None = None, **values: Any) -> Settings:
    """The settings in force. `values` (nested plain data) win over everything.

    Raises `SettingsError` with the field, the fault and the place for an unreadable file or an invalid value.
    """
    file = config_file(config)
    _check_environment()
    _TomlSource.file = file
    try:
        settings = Settings(**values)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
    except (UnicodeDecodeError, OSError) as error:
        raise SettingsError(f"{file}: cannot be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        where = _place(file, [str(part) for part in first["loc"]], values)
        raise SettingsError(f"{where}: {field}: {first['msg']} (got {first.get('input')!r:.80})") from None
    finally:
        _TomlSource.file = None
    for name in settings.datasets:
        if not RECIPE_NAME.fullmatch(name) or name in DEFAULT_RECIPE_NAMES:
            raise SettingsError(
                f"datasets.{name}: a recipe's name is lower-case letters, digits and _, and not one of "
                f"{', '.join(sorted(DEFAULT_RECIPE_NAMES))}"
            )
    return settings
