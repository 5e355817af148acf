"""Writes the sample job folders: the same bytes each time, finished markers last.

```
<folder>/benchflow/opencode/<job>/       OpenAI chat wire: mixed group, timeout, unscored trial, cut file, duplicates
<folder>/benchflow/claude-code/<job>/    Claude Code's wires, a title helper and a failed call in each trial
<folder>/support/{eval,runs}/            an eval run with its goldens and a correction
<folder>/recordings/                     three .atraj files
```
"""

import json
from pathlib import Path

from trace_flywheel.sample import claude_code, opencode, support
from trace_flywheel.sample.benchflow_job import Job
from trace_flywheel.sample.benchflow_job import files as job_files
from trace_flywheel.sample.plan import filled
from trace_flywheel.sample.recordings import recordings

JOBS = {
    "benchflow/opencode": Job(
        "2025-03-04__09-15-00",
        "opencode",
        "openai/gpt-sample-mini",
        "openai",
        "You are a careful engineer in a sandbox. Use the tools, then say what you did.",
        opencode.TASKS,
    ),
    "benchflow/claude-code": Job(
        "2025-03-05__14-40-00",
        "claude-agent-acp",
        "anthropic/claude-sample",
        "claude-code",
        "You are Claude Code, working in a repository.",
        claude_code.TASKS,
    ),
}
EVAL_RUN = "2025-03-support"


def write_sample(folder: Path) -> None:
    """Write every file below `folder`, which may exist. A file that holds these bytes already keeps its time."""
    for place, job in JOBS.items():
        for relative, text in job_files(job):
            _put(folder / place / job.name / relative, filled(text))
    _put(folder / "support/eval/goldens.jsonl", "".join(json.dumps(g) + "\n" for g in support.GOLDENS))
    run = json.dumps({"run_id": EVAL_RUN, "results": support.rows(EVAL_RUN)}, indent=1)
    _put(folder / "support/runs" / EVAL_RUN / "results.json", filled(run) + "\n")
    for name, text in recordings().items():
        _put(folder / "recordings" / name, text)


def _put(path: Path, text: str) -> None:
    """Unchanged files are left alone, so that a second demo finds nothing new."""
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
