"""A canonical selection: the trials that a file names take part, the others do not.

The file is an object with `job_dir` and `selected` (or `selection`), a list of objects that name a trial by
`rollout_dir` (as it stands, else below `job_dir`) or by `result_json`. It decides alone; job folders given beside it
are not searched.
"""

from pathlib import Path
from typing import Any

from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.sources.jsonl import Fault, read_document

MAX_BYTES = 64_000_000


def selected_trials(file: Path) -> tuple[Path, ...]:
    """The selected trials' folders, in the file's order. Raises `FlywheelError` where one is not there."""
    document = read_document(file.resolve(), file.resolve().parent, MAX_BYTES)
    if isinstance(document, Fault):
        raise FlywheelError(f"canonical selection {file}: {document.text}")
    content = document.value if isinstance(document.value, dict) else {}
    rows = content.get("selected", content.get("selection"))
    if not isinstance(rows, list):
        raise FlywheelError(f"canonical selection {file} must contain selected or selection list")
    job = content.get("job_dir")
    base = Path(job) if isinstance(job, str) else None
    return tuple(_trial(row, number, base, file) for number, row in enumerate(rows))


def _trial(row: Any, number: int, base: Path | None, file: Path) -> Path:
    named = row.get("rollout_dir") if isinstance(row, dict) else None
    result = row.get("result_json") if isinstance(row, dict) else None
    options = []
    if isinstance(named, str):
        options = [Path(named), *([base / named] if base else [])]
    elif isinstance(result, str):
        options = [Path(result).parent, *([(base / result).parent] if base else [])]
    else:
        raise FlywheelError(f"canonical selection {file}: row {number} names no rollout_dir or result_json")
    for trial in options:
        if (trial / "result.json").is_file():
            return trial
    raise FlywheelError(f"selected rollout has no result.json: {options[-1]}")
