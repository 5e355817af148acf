"""The JSON Schemas that are generated from types: of each document that is written or read, by name and version.

A test compares the files in `schemas/` with what stands here, so a type cannot change without its schema. A new
optional field keeps the version; anything else is a new name, and the old file stays. Schemas are open.

    python -m trace_flywheel.flow.schemas     writes them anew
"""

from pathlib import Path
from typing import Any

import msgspec
import orjson

from trace_flywheel.records import benchflow, documents
from trace_flywheel.records.rollout_stream import CoverageReport, RolloutRecord
from trace_flywheel.records.rows import Provenance
from trace_flywheel.trainers import row_models

BASE = "https://trace-flywheel.dev/schemas"
TYPES: dict[str, type] = {
    "rollout-stream.v1": RolloutRecord,
    "token-coverage.v1": CoverageReport,
    "training-signal.v1": documents.TrainingSignal,
    "refresh.v1": documents.Refresh,
    "fate.v1": documents.Fate,
    "provenance.v1": Provenance,
    "convert-manifest.v1": documents.ConvertManifest,
    "benchflow-result.v1": benchflow.Result,
    "benchflow-trial.v1": benchflow.Trial,
    "benchflow-job.v1": benchflow.Job,
    "benchflow-run-summary.v1": benchflow.RunSummary,
    "benchflow-comparison.v1": benchflow.Comparison,
    "benchflow-training-signal.v1": benchflow.TrainingSignal,
    "verl-sft-row.v1": row_models.VerlSftRow,
    "skyrl-sft-row.v1": row_models.SkyrlSftRow,
    "openai-ft-row.v1": row_models.OpenaiFtRow,
    "instruct-row.v1": row_models.InstructRow,
    "rl-prompt-row.v1": row_models.RlPromptRow,
    "verifiers-row.v1": row_models.VerifiersRow,
    "openenv-episode-row.v1": row_models.OpenenvEpisodeRow,
    "atif-row.v1": row_models.AtifRow,
    "adp-row.v1": row_models.AdpRow,
}


def document(name: str) -> dict[str, Any]:
    """The schema `name`, from its type. `KeyError` for a name that no type stands for."""
    kind = TYPES[name]
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    top = definitions.pop(root["$ref"].rpartition("/")[2])
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{BASE}/{name}.schema.json"}
    held = {"$defs": dict(sorted(definitions.items()))} if definitions else {}
    return {**title, **top, "title": name, **held}


def text(name: str) -> bytes:
    """The schema file's bytes."""
    return orjson.dumps(document(name), option=orjson.OPT_INDENT_2) + b"\n"


def write(folder: Path) -> None:
    """All generated schema files."""
    for name in TYPES:
        (folder / f"{name}.schema.json").write_bytes(text(name))


if __name__ == "__main__":
    write(Path(__file__).parents[2] / "schemas")
