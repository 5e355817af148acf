"""The compact index: one entry per redacted rollout, holding what global decisions need and no text.

Text lives in the run partitions and never moves; groups, pairs, holdout, duplicates and selection work on these
columns alone. An entry is derived data: it can be rebuilt from its rollout, so its version is part of the lake's.

Two views of a rollout are described. The *row view* is the SFT row it would become (a correction applied, masks set):
`exact_hash`, sketches and shingles. The *pair view* is the rollout as recorded: `message_hashes`, `message_norms`.
"""

from typing import Any

import msgspec

from trace_flywheel.records.rollout import ErrorBy, Verdict

INDEX_VERSION = 4
PERMUTATIONS = 128
"""128 permutations: standard error of the Jaccard estimate 1/sqrt(128) = 0.088; exact verification decides."""
Numbers = Any
"""Integers as a list or as a numpy array; a column is made from either."""


class IndexEntry(msgspec.Struct, frozen=True):
    run_id: str
    trace_id: str
    task_id: str
    part: int
    """Number of the partition's part file, and `position` the row in it: where the text is."""
    position: int

    suite: str | None
    task_digest: str | None
    agent: str | None
    model: str | None
    policy_version: str | None
    job: str | None
    source_format: str
    source_path: str
    source_sha256: str
    source_run_id: str | None
    started_at: str | None
    finished_at: str | None

    attempt_hash: str
    """Session id, timestamps and content: the same attempt seen twice has one hash."""
    content_hash: str
    """Messages and tools as recorded."""

    verdict: Verdict | None
    verdict_text: str | None
    reward: float | None
    reward_text: str | None
    reward_low: float | None
    reward_high: float | None
    judge_score: float | None
    grader: str | None
    grader_version: str | None
    error_category: str | None
    error_by: ErrorBy | None
    is_truncated: bool
    never_called: bool
    retried: bool
    stop_reason: str | None

    has_correction: bool
    corrected_by: str | None
    has_step_verdicts: bool
    masked_steps: int
    quality_reason: str | None
    """Reason of stage `quality` that this rollout's SFT row would be dropped for, with `quality_evidence` (JSON)."""
    quality_evidence: str | None
    pair_quality_reason: str | None
    """The same for the recorded rollout as a pair member or RL row (masks do not matter there)."""

    context_hash: str
    """System text, tools and first user turn."""
    roles: str
    """One letter per message: s, u, a, t."""
    message_hashes: list[int]
    """Signed 64-bit hash of each recorded message (text, reasoning apart, calls by name and canonical arguments)."""
    message_norms: list[int]
    """The same over case-folded, white-space-collapsed text."""
    n_supervised_chars: int
    n_chars: int

    exact_hash: str
    """Of the row view, folded: equal means an exact duplicate."""
    prompt_sketch: bytes
    """128 x uint32 little-endian, datasketch affine32, of the row's user turns."""
    supervised_sketch: bytes
    """The same of its supervised assistant text, tool names and canonical arguments."""
    prompt_shingles: Numbers
    """Sorted unique 32-bit shingle hashes behind the sketch: exact Jaccard without the text."""
    supervised_shingles: Numbers

    golden_hits: str | None
    """JSON evidence of a golden's answer or short statement that is there whole; None where there is none."""
    golden_grams: str | None
    """The n-grams of golden statements that stand in it, 16 hex digits each, sorted: their shares depend on what all
    runs have in common. Rollouts of a task hold the same ones, so the column is a dictionary."""
    golden_asked: str | None
    """Those of them that stand in its system and user turns."""
    redactions: int
    training_grade: bool
    """Token ids and logprobs complete and untouched."""
