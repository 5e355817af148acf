"""Rows that a flywheel wrote itself: `convert` and `export` files that lie below a root are never read as runs again.

Told by the first row, which carries what only our rows do: the id of a row, or the hash of its source.
"""

from pathlib import Path
from typing import Any

from trace_flywheel.sources.jsonl import BOM, decode_json, peek

PEEKS = (1 << 14, 1 << 20)
"""Bytes of the first row that are looked at: few, as a sensor looks at every run on every tick, and more where it is
longer. One that is longer yet is not told apart."""
OWN = ("row_id", "source_sha256")
TRAINER_ROWS = (
    frozenset({"messages"}),
    frozenset({"prompt", "completion"}),
    frozenset({"chosen", "rejected"}),
    frozenset({"instruction", "response"}),
    frozenset({"prompt", "verifier"}),
)
"""Keys that one trainer's rows or another's have, all of a set."""
OUR_SOURCE = "benchflow-llm-trajectory"
"""`source` of the rows of `convert --format prime-sft`, as BenchFlow writes it too."""


def is_own_output(path: Path, root: Path) -> bool:
    """Whether the first line of a file is a row that a flywheel made."""
    return _is_own(_first_row(path, root))


def is_for_a_trainer(path: Path, root: Path) -> bool:
    """Whether the first line of a file is a trainer's row, whoever made it: an example, and no graded attempt."""
    row = _first_row(path, root)
    return "trace_id" not in row and any(row.keys() >= keys for keys in TRAINER_ROWS)


def _first_row(path: Path, root: Path) -> dict[str, Any]:
    first = b""
    for size in PEEKS:
        head = peek(path, root, size)
        first, end, _ = head.lstrip().partition(b"\n")
        if end or not first.startswith(b"{") or len(head) < size - len(BOM):
            break
    decoded = decode_json(first) if first.startswith(b"{") else None
    return decoded[0] if isinstance(decoded, tuple) and isinstance(decoded[0], dict) else {}


def _is_own(row: dict[str, Any]) -> bool:
    about = row.get("metadata")
    return any(
        one.get("source") == OUR_SOURCE or any(name in one for name in OWN)
        for one in (row, about if isinstance(about, dict) else {})
    )
