"""Sections about reading, redacting and keeping: what enters the lake and how long things stay."""

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt

from trace_flywheel.settings.section import Section


class Ingest(Section):
    quiet_seconds: float = Field(10.0, ge=0)
    """Seconds without a change before a folder without a job-level marker counts as finished (sensors only)."""
    max_line_mb: float = Field(64.0, gt=0, le=1_000_000)
    """MB of one JSON line or document; a longer one is dropped as `line_too_long`, never read into memory whole, and so
    is one of more than 1.5 million lists and objects, which would take fifty times its bytes."""
    workers: int = Field(0, ge=0)
    """Processes that read runs, and that finish and check the rows of datasets; 0 means one per core."""
    quarantine_after: PositiveInt = 3
    """Failed tries after which a folder is left alone until it changes."""


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


class Versions(Section):
    keep: PositiveInt = 10
    """Dataset versions kept; older ones are removed after a publication."""


class Card(Section):
    """What only the owner of the runs can say of them; every card repeats it."""

    license: str = ""
    """Licence of the rows, an identifier as `apache-2.0` or the name of a contract; the front matter holds it too."""
    consent: Literal["unstated", "owned", "licensed", "public-permissive", "restricted"] = "unstated"
    """Right to train on what the runs hold."""


class Lake(Section):
    keep_raw: bool = True
    """Keep raw text in `graded_traces`; off, only its scalars, and the source folder is read again when needed."""
    remote: str = Field("", pattern=r"^(s3://[^/]+(/.+)?)?$")
    """`s3://BUCKET/PREFIX` that holds lake and datasets; the home is then this machine's working copy of it."""


class Automation(Section):
    start: bool = False
    """Ship sensors and schedule switched on."""
