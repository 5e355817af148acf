"""The assets over all runs, made by a factory: the default recipe's and the same again for each `[datasets.NAME]`.

They have no partitions and read the lake themselves; `deps` on all runs draw the lineage. Each is a call into
`flow.apart` and a page of metadata about what came of it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import dagster as dg

from trace_flywheel.flow import apart, names, standing
from trace_flywheel.flow.freshness import CODE
from trace_flywheel.flow.home import lake_of, shared
from trace_flywheel.flow.ingest_tasks import INDEX, REDACTED
from trace_flywheel.lake.lock import held, writing
from trace_flywheel.orchestration import helper, metadata, order
from trace_flywheel.orchestration.once import passes
from trace_flywheel.orchestration.partitions import all_runs
from trace_flywheel.orchestration.resources import SettingsResource
from trace_flywheel.settings import Settings

CURATION_GROUP, DATASET_GROUP = "curation", "datasets"
GRADED_LATER = ("verdicts", "eval_goldens")
"""Sources of every dataset: grades that came in files, and what must not be trained on."""
JUDGED = (*GRADED_LATER, "judge_scores")
"""Of those in which a judge's score decides between equal rewards."""


class Spec(NamedTuple):
    """One asset over all runs."""

    name: str
    what: apart.What
    recipe: str | None
    runs: tuple[str, ...]
    """Per-run assets of which it reads all partitions."""
    deps: tuple[str, ...]
    """Assets over all runs and sources that it reads."""
    group: str
    description: str


def specs(settings: Settings) -> Iterator[Spec]:
    """All assets over all runs, upstream first."""
    yield Spec(
        names.ADVANTAGES,
        "advantages",
        None,
        (INDEX,),
        ("verdicts",),
        CURATION_GROUP,
        "One row per rollout of all runs with its group and its advantage, or the reason why the group is withheld.",
    )
    for recipe in (None, *sorted(settings.datasets)):
        yield from _family(settings, recipe)


def _family(settings: Settings, recipe: str | None) -> Iterator[Spec]:
    classifier = names.classifier_of(settings, recipe)[0]
    if recipe is None or classifier != names.CLASSIFIER:
        yield Spec(
            classifier,
            "classifier",
            recipe,
            (),
            ("depth_labels",),
            CURATION_GROUP if recipe is None else recipe,
            "One row per labelled prompt that the depth classifier was trained on; weights lie beside it.",
        )

    def named(kind: names.Kind) -> str:
        return names.name_of(kind, recipe)

    group = recipe or DATASET_GROUP
    yield Spec(
        named("sft"),
        "sft",
        recipe,
        (INDEX, REDACTED),
        (names.ADVANTAGES, "training_corpus", "corrections", *JUDGED),
        group,
        "One row per supervised conversation: the best of each task, corrections, step-masked traces; no duplicates.",
    )
    yield Spec(
        named("pair"),
        "pair",
        recipe,
        (INDEX, REDACTED),
        (names.ADVANTAGES, *JUDGED),
        group,
        "One row per preference pair: a shared prompt, the better and the worse way on.",
    )
    yield Spec(
        named("kto"),
        "kto",
        recipe,
        (INDEX, REDACTED),
        (names.ADVANTAGES, *JUDGED),
        group,
        "One row per graded answer that no preference pair uses, labelled good or bad.",
    )
    yield Spec(
        named("rl"),
        "rl",
        recipe,
        (INDEX, REDACTED),
        (names.ADVANTAGES, *GRADED_LATER),
        group,
        "One row per rollout with its reward and its group's advantage.",
    )
    yield Spec(
        named("prompt"),
        "prompt",
        recipe,
        (INDEX, REDACTED),
        (names.ADVANTAGES, *JUDGED),
        group,
        "One row per task that is neither always nor never solved: prompt, answer, verifier.",
    )
    yield Spec(
        named("mix"),
        "mix",
        recipe,
        (),
        (named("sft"), classifier),
        group,
        "SFT rows at the target mix of depth: the largest set that holds it.",
    )


def asset_of(spec: Spec, freshness: dg.FreshnessPolicy | None = None) -> dg.AssetsDefinition:
    """The Dagster asset of a spec; `freshness` says how old it may grow, where anything renews it."""

    @dg.asset(
        name=spec.name,
        deps=[*(dg.AssetDep(key, partition_mapping=all_runs) for key in spec.runs), *spec.deps],
        group_name=spec.group,
        code_version=str(CODE),
        kinds={"jsonl"} if spec.group != CURATION_GROUP else {"parquet"},
        description=spec.description,
        freshness_policy=freshness,
        op_tags=order.made(spec.what),
    )
    def materialize(context: dg.AssetExecutionContext, settings: SettingsResource) -> dg.MaterializeResult[Any]:
        tree = settings.load()
        undisturbed = held(tree.home) and not tree.lake.remote  # by the one that has this run made
        with writing(tree.home), shared(tree):
            lake = lake_of(tree)
            before = standing.rows_now(lake, spec.name)
            run_id = context.run.run_id
            under_way = passes.of(run_id, tree)
            made, seen = helper.over_all(run_id, tree, apart.make, under_way, spec.what, spec.recipe, undisturbed)
        return dg.MaterializeResult(
            metadata=metadata.of_made(made, seen, before), data_version=dg.DataVersion(made.version)
        )

    return materialize
