"""What a dataset version says of itself: its manifest, and a fate for each rollout that came in."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from trace_flywheel.records.documents import Count, Digest, Dropped

CODE = Meta(extra_json_schema={"required": ["version"], "properties": {"version": {"type": "string"}}})


class Fate(msgspec.Struct):
    """One line of `fates.parquet`: what became of a rollout in a dataset."""

    run_id: str
    trace_id: str | None
    task_id: str | None
    kept: bool
    row_ids: list[str]
    stage: str | None
    reason: str | None
    evidence: str | None
    """JSON text that names what decided."""


class ManifestRun(msgspec.Struct):
    run_id: str
    content_digest: str


class ManifestInputs(msgspec.Struct):
    digest: str
    runs: list[ManifestRun]


class ManifestCounts(msgspec.Struct, rename={"entered": "in"}):
    entered: Count
    kept: Count
    dropped: dict[str, Dropped]
    """By stage."""


class ManifestStep(msgspec.Struct, rename={"entered": "in"}):
    stage: str
    entered: int
    kept: int
    dropped: Dropped


class ManifestFile(msgspec.Struct):
    path: str
    rows: Count
    bytes: Count
    sha256: Digest


class DatasetManifest(msgspec.Struct):
    """`manifest.json` of a dataset version."""

    schema: Literal["dataset-manifest.v1"]
    dataset: Annotated[str, Meta(min_length=1)]
    version: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    kind: Literal["sft", "pair", "kto", "rl", "prompt"]
    rows: Count
    rows_sha256: Digest
    code: Annotated[dict[str, str | int], CODE]
    settings: dict[str, Any]
    inputs: ManifestInputs
    counts: ManifestCounts
    funnel: list[ManifestStep]
    files: list[ManifestFile]
    graders: dict[str, list[str]]
    columns: dict[str, dict[str, str]] | UnsetType = UNSET
    """By layout the type of each column."""
