"""The assets over all runs, each a call: what it depends on, what it decides, what it publishes.

    grouped_advantages   a table in the lake
    sft_dataset, dpo_dataset, rl_dataset, balanced_mix   dataset versions; their fates lie in the lake too
    NAME_sft, NAME_dpo, NAME_mix   the same for a recipe `[datasets.NAME]`

An asset whose inputs have not changed is left alone. One whose inputs changed but whose rows did not keeps its version;
only its ledger in the lake is new.
"""

from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import msgspec
import orjson
import pandas as pd
import pyarrow as pa

from trace_flywheel.curation.dedup import Corpus
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow import curate
from trace_flywheel.flow.curate import Attempts, Curated
from trace_flywheel.flow.frame import Index, load_index
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.publish import Finisher, Published, rows_of, write_rows
from trace_flywheel.lake import dataset
from trace_flywheel.lake.card import card
from trace_flywheel.lake.files import replace_text
from trace_flywheel.lake.ledger import Ledger, fates_table, ledger_of
from trace_flywheel.lake.store import Lake
from trace_flywheel.records.canonical import content_id
from trace_flywheel.redaction.redact import redactor, ruleset_digest
from trace_flywheel.settings import Recipe, Settings

ADVANTAGES = "grouped_advantages"
NAMES = {"sft": "sft_dataset", "pair": "dpo_dataset", "rl": "rl_dataset", "mix": "balanced_mix"}
"""Datasets of the default recipe by kind."""
SUFFIX = {"sft": "sft", "pair": "dpo", "mix": "mix"}
CODE = 1
"""Goes up when the same inputs and settings give other rows."""
FATES = "fates"


class Made(msgspec.Struct, frozen=True):
    """What an asset over all runs became. `unchanged`: its inputs were; `same_rows`: its inputs changed, its rows did
    not. `facts` and `funnel` are for people: counts only, no text."""

    name: str
    status: Literal["made", "same_rows", "unchanged"]
    inputs_digest: str
    version: str
    rows: int
    path: Path
    ledger: Ledger
    facts: dict[str, Any] = {}


class Curation:
    """The state of one pass over the lake: index, attempts and holdout are worked out once and shared by its assets."""

    def __init__(self, lake: Lake, settings: Settings, inputs: SideInputs) -> None:
        self.lake, self.settings, self.inputs = lake, settings, inputs

    @cached_property
    def index(self) -> Index:
        return load_index(self.lake)

    @cached_property
    def attempts(self) -> Attempts:
        return curate.attempts(self.index, self.settings)

    @cached_property
    def holdout(self) -> Holdout:
        return Holdout(self.inputs.goldens, self.settings.goldens.overlap)

    @cached_property
    def corpus(self) -> Corpus | None:
        return None

    @property
    def inputs_digest(self) -> str:
        """Of all that every asset over all runs depends on: the refresh sensor's question."""
        return content_id(
            [CODE, self.index.digest, self.inputs.goldens_digest, ruleset_digest(self.settings.redaction.pii)]
        )


def grouped_advantages(curation: Curation) -> Made:
    """The advantage of every attempt in its group, over all runs, before any filter."""
    lake, settings = curation.lake, curation.settings
    digest = content_id([curation.inputs_digest, settings.groups.model_dump(mode="json")])
    current = lake.current(ADVANTAGES)
    fresh = current is not None and current.inputs_digest == digest
    if current is None or not fresh:
        keys = curation.index.frame[["run_id", "trace_id", "task_id", "reward"]]
        table = pd.concat([keys, curation.attempts.groups], axis=1)
        counts = {
            "rollouts": len(table),
            "groups": int(table["group_id"].nunique()),
            "with_advantage": int(table["advantage"].notna().sum()),
            "reasons": {str(k): int(v) for k, v in table["reason"].value_counts().sort_index().items()},
        }
        current = lake.put(
            ADVANTAGES, {"advantages": pa.Table.from_pandas(table, preserve_index=False)}, digest, counts
        )
    kept = current.counts["with_advantage"]
    ledger = Ledger(current.counts["rollouts"], kept, {"groups": current.counts["reasons"]})
    path = lake.root / ADVANTAGES / current.digest
    status: Literal["made", "unchanged"] = "unchanged" if fresh else "made"
    return Made(ADVANTAGES, status, digest, current.digest, kept, path, ledger, current.counts)


def sft_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """SFT rows; without a recipe also `needs_grading.jsonl`, what could not be ranked."""

    def decide(index: Index, common: Attempts, settings: Settings) -> Curated:
        curated = curate.sft(index, common, curation.holdout, curation.corpus, settings)
        if recipe is None:
            lines = [orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() for row in curate.needs_grading([curated])]
            replace_text(curation.lake.root / "needs_grading.jsonl", "".join(f"{line}\n" for line in lines))
        return curated

    return _dataset(curation, "sft", recipe, decide)


def dpo_dataset(curation: Curation, recipe: str | None = None) -> Made:
    """Preference pairs."""
    return _dataset(curation, "pair", recipe, lambda i, c, s: curate.pairs(i, c, curation.holdout, s))


def rl_dataset(curation: Curation) -> Made:
    """Rollouts with their advantages."""
    return _dataset(curation, "rl", None, lambda i, c, s: curate.rl(i, c, curation.holdout, s))


def name_of(kind: str, recipe: str | None) -> str:
    """The dataset's name: of the default recipe, or `RECIPE_sft`, `RECIPE_dpo`, `RECIPE_mix`."""
    return NAMES[kind] if recipe is None else f"{recipe}_{SUFFIX[kind]}"


def recipe_settings(settings: Settings, recipe: str | None) -> tuple[Settings, Recipe]:
    """The tree with a recipe's own sections in place of the common ones, and the recipe."""
    chosen = settings.datasets[recipe] if recipe else Recipe()
    own = {n: v for n in ("selection", "pairs", "mix", "layouts") if (v := getattr(chosen, n)) is not None}
    return settings.model_copy(update=own), chosen


def _dataset(curation: Curation, kind: Any, recipe: str | None, decide: Any) -> Made:
    settings, chosen = recipe_settings(curation.settings, recipe)
    finisher = Finisher(kind, settings.layouts, redactor(settings.redaction.pii), curation.holdout)
    hashed = hashed_settings(settings, chosen, finisher.layouts)
    name = name_of(kind, recipe)
    digest = content_id([curation.inputs_digest, hashed])
    if (unchanged := fresh(curation.lake, name, digest)) is not None:
        return unchanged
    index, common = curation.index, curation.attempts
    if recipe is not None:
        index, common = curate.of_recipe(index, common, chosen)
    curated = decide(index, common, settings)
    with dataset.draft(curation.lake.home, name, tuple(finisher.layouts)) as draft:
        done = write_rows(draft, rows_of(curation.lake, curated, settings), finisher)
        fates = fates_table(curate.fates(curated, done.row_ids, done.late))
        facts = {**curated.facts, "kinds": dict(sorted(done.kinds.items()))}
        manifest = manifest_of(curation, kind, digest, done, facts, curated.warnings)
        published = draft.publish(fates, hashed, manifest, card, settings.versions.keep)
    return record(curation.lake, published, fates, digest, facts)


def hashed_settings(settings: Settings, recipe: Recipe, layouts: Mapping[str, int]) -> dict[str, Any]:
    """The settings that a dataset's bytes depend on, with the versions of its layouts."""
    filters = recipe.model_dump(mode="json", include={"sources", "agents", "tasks", "policies"})
    return {**settings.hashed(), "layouts": dict(sorted(layouts.items())), "filters": filters}


def manifest_of(
    curation: Curation, kind: str, digest: str, done: Published, facts: dict[str, Any], warnings: tuple[str, ...]
) -> dict[str, Any]:
    """What the manifest says beside rows, counts and files."""
    runs = [{"run_id": s.run_id, "content_digest": s.content_digest} for s in curation.index.runs]
    return {
        "kind": kind,
        "code": {
            "version": _code_version(),
            "datasets": CODE,
            "ruleset": ruleset_digest(curation.settings.redaction.pii),
        },
        "inputs": {"digest": digest, "runs": runs, "goldens": curation.inputs.goldens_digest},
        "graders": {name: sorted(found) for name, found in sorted(done.graders.items())},
        "facts": {**facts, "goldens": len(curation.inputs.goldens)},
        "warnings": list(warnings),
    }


def fresh(lake: Lake, name: str, digest: str) -> Made | None:
    """The asset as it stands, when it was made from the same inputs and is still there."""
    current = lake.current(name)
    if current is None or current.inputs_digest != digest:
        return None
    counts = current.counts
    path = lake.home / "datasets" / name / counts["version"]
    if not (path / "manifest.json").is_file():
        return None
    ledger = Ledger(counts["in"], counts["kept"], counts["dropped"])
    return Made(name, "unchanged", digest, counts["version"], counts["rows"], path, ledger, counts["facts"])


def record(lake: Lake, published: dataset.Version, fates: pa.Table, digest: str, facts: dict[str, Any]) -> Made:
    """Put the ledger of a publication into the lake; the pointer to it is replaced last."""
    ledger = ledger_of(fates)
    counts = {**ledger.as_json(), "version": published.version, "rows": published.rows, "facts": facts}
    lake.put(published.name, {FATES: fates}, digest, counts)
    status: Literal["made", "same_rows"] = "made" if published.new else "same_rows"
    return Made(published.name, status, digest, published.version, published.rows, published.path, ledger, facts)


def _code_version() -> str:
    try:
        return version("trace-flywheel")
    except PackageNotFoundError:  # a checkout that is not installed
        return "checkout"
