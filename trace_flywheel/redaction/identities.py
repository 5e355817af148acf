"""Names that say whose text it is: they are looked at for secrets and never changed.

A placeholder in an id would break what the id ties together (calls and results, groups, goldens), so a secret in one
drops the rollout. The drop itself still has to name its rollout: its identities are masked, by a placeholder and a
short hash that keeps two of them apart. Personal data is no finding here: agents and users are named by e-mail
addresses, and a dataset's provenance has to name them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout

Named = TypeVar("Named", Rollout, Drop)

FIELDS = (
    *("run_id", "trace_id", "task_id", "task_digest", "suite", "agent", "agent_version", "model", "request_model"),
    *("policy_version", "job", "session_id", "started_at", "finished_at", "grader", "grader_version"),
    "source_run_id",
)
SALT = b"trace-flywheel identity\0"
"""Fixed, so that one identity has one masked name in every run and process."""


def names_of(record: Rollout | Drop) -> Iterator[tuple[str, str]]:
    """(text, field) of what a rollout or a drop goes by."""
    for name in (*FIELDS, "path"):
        if value := getattr(record, name, None):
            yield value, name
    if isinstance(record, Rollout):
        yield record.source.path, "source.path"


def with_names(record: Named, masks: Mapping[str, str]) -> Named:
    """The record with the names that are keys of `masks` replaced."""
    changes: dict[str, Any] = {name: masks[text] for text, name in names_of(record) if text in masks}
    if isinstance(record, Rollout) and changes.pop("source.path", None):
        changes["source"] = msgspec.structs.replace(record.source, path=masks[record.source.path])
    return msgspec.structs.replace(record, **changes)


def masked_name(shown: str, hashed: bytes) -> str:
    """A masked identity. `hashed` is the identity without what is weak enough to be guessed.

    32 bits of a hash tell two names apart and say nothing of use about a token of a hundred random bits; a password
    that stands in a dictionary could be confirmed by them, so it is masked before hashing too.
    """
    return f"{shown}~{hashlib.sha256(SALT + hashed).hexdigest()[:8]}"
