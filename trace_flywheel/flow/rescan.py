"""Published versions looked at again under today's rules: a version is never changed, but it can be known to be old."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.dataset import names, read_version, versions
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Settings


def rescan(settings: Settings, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Every version of one dataset or of all, with its findings by rule; rows of every layout are scanned."""
    scan = redactor(policy_of(settings)).scan
    for dataset in [name] if name else names(settings.home):
        for version in versions(settings.home, dataset):
            found: Counter[str] = Counter()
            rows = 0
            for file in read_version(version.path).manifest["files"]:
                for row in _rows(version.path / file["path"]):
                    counts = scan(row)
                    rows += bool(counts)
                    found.update(counts)
            yield {
                "name": version.name,
                "version": version.version,
                "lines_with_findings": rows,
                "findings": dict(sorted(found.items())),
            }


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        for line in stream:
            yield orjson.loads(line)
