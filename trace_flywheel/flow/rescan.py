"""Published versions looked at again under today's rules: a version is never changed, but it can be known to be old.

A refresh scans every version that was made under other rules, once per rule set: `<home>/lake/rescans.json` remembers
what was found, by rule and never by value.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.dataset import Version, names, read_version, versions
from trace_flywheel.lake.files import replace_text
from trace_flywheel.redaction.redact import Redactor, redactor
from trace_flywheel.settings import Settings


def rescan(settings: Settings, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Every version of one dataset or of all, with its findings by rule; rows of every layout are scanned."""
    rules = redactor(policy_of(settings))
    for dataset in [name] if name else names(settings.home):
        for version in versions(settings.home, dataset):
            rows, found = _findings(version, rules)
            yield {
                "name": version.name,
                "version": version.version,
                "lines_with_findings": rows,
                "findings": found,
            }


def rescanned(settings: Settings) -> tuple[str, ...]:
    """A warning for every version that was made under other rules and in which today's rules find something."""
    policy, place = policy_of(settings), settings.home / "lake" / "rescans.json"
    digest = policy.digest()
    memory = orjson.loads(place.read_bytes()) if place.is_file() else {}
    before: dict[str, dict[str, int]] = memory["findings"] if memory.get("ruleset") == digest else {}
    old = [v for name in names(settings.home) for v in versions(settings.home, name) if _ruleset(v) != digest]
    known = {f"{version.name}@{version.version}": version for version in old}
    now = {at: before[at] if at in before else _findings(v, redactor(policy))[1] for at, v in known.items()}
    if now != before or memory.get("ruleset") != digest:
        text = orjson.dumps({"ruleset": digest, "findings": now}, option=orjson.OPT_SORT_KEYS).decode()
        replace_text(place, text + "\n")
    return tuple(
        f"{at} was made under other redaction rules; today's find {', '.join(f'{r} {n}' for r, n in found.items())} in "
        "it: withdraw it from use, or purge what it holds"
        for at, found in sorted(now.items())
        if found
    )


def _ruleset(version: Version) -> str | None:
    code: dict[str, Any] = version.manifest.get("code", {})
    return code.get("ruleset")


def _findings(version: Version, rules: Redactor) -> tuple[int, dict[str, int]]:
    """Lines with findings, and findings by rule."""
    found: Counter[str] = Counter()
    rows = 0
    for file in read_version(version.path).manifest["files"]:
        for row in _rows(version.path / file["path"]):
            counts = rules.scan(row)
            rows += bool(counts)
            found.update(counts)
    return rows, dict(sorted(found.items()))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as stream:
        for line in stream:
            yield orjson.loads(line)
