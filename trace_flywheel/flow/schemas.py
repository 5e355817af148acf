"""The JSON Schemas, all generated from types: of each document that is written or read, by name and version.

A test compares the files in `schemas/` with what stands here, so a type cannot change without its schema, and another
one holds each file's digest (`schemas/SHA256SUMS`): what is published does not change. A new version is a new name and
a new file, and the old file stays; only a new optional key keeps the version, as in BenchFlow, and its file's line is
then written anew. Schemas are open.

    python -m trace_flywheel.flow.schemas     writes them anew
"""

from pathlib import Path
from typing import Any

import msgspec
import orjson

from trace_flywheel.records import benchflow, benchflow_signal, dataset_manifest, documents
from trace_flywheel.records.rollout_stream import CoverageReport, RolloutRecord
from trace_flywheel.records.rows import Provenance
from trace_flywheel.trainers import branch_models, conversation_models, episode_models, row_models

BASE = "https://trace-flywheel.dev/schemas"
TYPES: dict[str, type] = {
    "rollout-stream.v1": RolloutRecord,
    "token-coverage.v1": CoverageReport,
    "training-signal.v1": documents.TrainingSignal,
    "refresh.v1": documents.Refresh,
    "fate.v1": dataset_manifest.Fate,
    "provenance.v1": Provenance,
    "convert-manifest.v1": documents.ConvertManifest,
    "branch-manifest.v1": documents.BranchManifest,
    "validation.v1": documents.Validation,
    "openenv-metadata.v1": documents.EpisodesMetadata,
    "benchflow-result.v1": benchflow.Result,
    "benchflow-trial.v1": benchflow.Trial,
    "benchflow-job.v1": benchflow.Job,
    "benchflow-run-summary.v1": benchflow.RunSummary,
    "benchflow-comparison.v1": benchflow.Comparison,
    "benchflow-training-signal.v1": benchflow_signal.TrainingSignal,
    "verl-sft-row.v1": row_models.VerlSftRow,
    "skyrl-sft-row.v1": row_models.SkyrlSftRow,
    "skyrl-tokens-row.v1": row_models.SkyrlTokensRow,
    "openai-ft-row.v1": row_models.OpenaiFtRow,
    "atraj-sft-row.v1": row_models.AtrajSftRow,
    "instruct-row.v1": row_models.InstructRow,
    "rl-prompt-row.v1": episode_models.RlPromptRow,
    "verifiers-prompt-row.v1": episode_models.VerifiersPromptRow,
    "verifiers-row.v1": episode_models.VerifiersRow,
    "openenv-episode-row.v1": episode_models.OpenenvEpisodeRow,
    "atif-row.v1": episode_models.AtifRow,
    "adp-row.v1": episode_models.AdpRow,
    "dataset-manifest.v1": dataset_manifest.DatasetManifest,
    "prime-sft-row.v1": conversation_models.PrimeSftRow,
    "trl-sft-row.v1": conversation_models.TrlSftRow,
    "trl-dpo-row.v1": conversation_models.TrlDpoRow,
    "kto-row.v1": conversation_models.KtoRow,
    "messages-row.v1": conversation_models.MessagesRow,
    "messages-pair-row.v1": conversation_models.MessagesPairRow,
    "messages-kto-row.v1": conversation_models.MessagesKtoRow,
    "branch-child-row.v2": branch_models.BranchChildRow,
    "branch-pair-row.v2": branch_models.BranchPairRow,
}


def document(name: str) -> dict[str, Any]:
    """The schema `name`, from its type. `KeyError` for a name that no type stands for."""
    kind = TYPES[name]
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    definitions = {key: _plain(definition) for key, definition in definitions.items()}
    top = definitions.pop(root["$ref"].rpartition("/")[2])
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{BASE}/{name}.schema.json"}
    held = {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    return {**title, **top, "title": name, **held}


def _plain(schema: Any) -> Any:
    """The same schema with `type: [a, b]` for a choice of bare types, whose faults are told better."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    told = {key: _plain(value) for key, value in schema.items()}
    choices = told.get("anyOf")
    if choices and all(one.keys() == {"type"} for one in choices):
        del told["anyOf"]
        told["type"] = [one["type"] for one in choices]
    return told


def text(name: str) -> bytes:
    """The schema file's bytes."""
    return orjson.dumps(document(name), option=orjson.OPT_INDENT_2) + b"\n"


def write(folder: Path) -> None:
    """All generated schema files."""
    for name in TYPES:
        (folder / f"{name}.schema.json").write_bytes(text(name))


if __name__ == "__main__":
    write(Path(__file__).parents[2] / "schemas")
