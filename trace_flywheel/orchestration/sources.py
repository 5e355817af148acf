"""Where everything comes from, as Dagster sees it: folders and files that others write and that we only observe."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import dagster as dg

from trace_flywheel.curation.depth import training_set_hash
from trace_flywheel.flow.depth.train import labelled_of
from trace_flywheel.flow.names import classifier_of
from trace_flywheel.flow.watch import side_inputs_now
from trace_flywheel.orchestration.jobs import SOURCE_GROUP
from trace_flywheel.orchestration.partitions import runs
from trace_flywheel.orchestration.resources import SettingsResource
from trace_flywheel.records.canonical import content_id

job_folders = dg.AssetSpec(
    "job_folders",
    partitions_def=runs,
    group_name=SOURCE_GROUP,
    kinds={"folder"},
    description="One partition per job folder below the roots: BenchFlow and Harbor jobs, eval runs, recordings.",
)


def _digest(paths: Iterable[Path]) -> dg.DataVersion:
    """Of the files' bytes in the order of their paths; what is no file (a published version) counts by its name."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes() if path.is_file() else path.name.encode())
    return dg.DataVersion(digest.hexdigest()[:16])


@dg.observable_source_asset(
    group_name=SOURCE_GROUP,
    description="Eval items that must never be trained on: `eval/goldens.jsonl` above a run, and `goldens.paths`.",
)
def eval_goldens(settings: SettingsResource) -> dg.DataVersion:
    return dg.DataVersion(side_inputs_now(settings.load()).goldens_digest[:16])


@dg.observable_source_asset(
    group_name=SOURCE_GROUP,
    description="Training data that exists already (`corpora`): rows that repeat it are dropped.",
)
def training_corpus(settings: SettingsResource) -> dg.DataVersion:
    return _digest(settings.load().corpora)


@dg.observable_source_asset(
    group_name=SOURCE_GROUP,
    description="Turns that humans corrected (`corrections`), beside those that an eval run carries itself.",
)
def corrections(settings: SettingsResource) -> dg.DataVersion:
    return _digest(settings.load().corrections)


@dg.observable_source_asset(
    group_name=SOURCE_GROUP,
    description="Verdicts that came in files (`grading.verdicts`): each takes the place of a rollout's own grade.",
)
def verdicts(settings: SettingsResource) -> dg.DataVersion:
    return _digest(settings.load().grading.verdicts)


@dg.observable_source_asset(
    group_name=SOURCE_GROUP,
    description="Scores of judges that came in files (`judge_scores`): they decide deltas and ties.",
)
def judge_scores(settings: SettingsResource) -> dg.DataVersion:
    return _digest(settings.load().judge_scores)


@dg.observable_source_asset(
    group_name=SOURCE_GROUP,
    description="Labelled prompts that depth classifiers learn from: the seed set and the files of `depth.labels`.",
)
def depth_labels(settings: SettingsResource) -> dg.DataVersion:
    tree = settings.load()
    families = [classifier_of(tree, recipe)[1] for recipe in (None, *sorted(tree.datasets))]
    return dg.DataVersion(content_id([training_set_hash(labelled_of(depth)[0]) for depth in families])[:16])


SOURCES = (job_folders, eval_goldens, training_corpus, corrections, verdicts, judge_scores, depth_labels)
