"""Rows that a flywheel wrote itself: `convert` and `export` files that lie below a root are never read as runs again.

Told by the first row, which carries what only our rows do: the id of a row, or the hash of its source.
"""

from pathlib import Path
from typing import Any

from trace_flywheel.sources.jsonl import Fault, decode_json, peek

PEEK = 1 << 20
"""Bytes of the first row that are looked at; a longer one is not told apart."""
OWN = ("row_id", "source_sha256")
OUR_SOURCE = "benchflow-llm-trajectory"
"""`source` of the rows of `convert --format prime-sft`, as BenchFlow writes it too."""


def is_own_output(path: Path, root: Path) -> bool:
    """Whether the first line of a file is a row that a flywheel made."""
    first = peek(path, root, PEEK).lstrip().partition(b"\n")[0]
    if not first.startswith(b"{"):
        return False
    decoded = decode_json(first)
    return not isinstance(decoded, Fault) and isinstance(decoded[0], dict) and _is_own(decoded[0])


def _is_own(row: dict[str, Any]) -> bool:
    about = row.get("metadata")
    return any(
        one.get("source") == OUR_SOURCE or any(name in one for name in OWN)
        for one in (row, about if isinstance(about, dict) else {})
    )
