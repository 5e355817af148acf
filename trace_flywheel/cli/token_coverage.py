"""`flywheel token-coverage`: which rollouts carry token ids and logprobs good enough to train on."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from trace_flywheel.cli.options import AsJson

BAD_INPUT = 2


def token_coverage(
    path: Annotated[Path, typer.Argument(metavar="JOB", help="A job folder, a trial, or a folder above them.")],
    as_json: AsJson = False,
) -> None:
    import msgspec

    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.flow.tokens.coverage import last_line, line_of
    from trace_flywheel.flow.tokens.coverage import token_coverage as coverage
    from trace_flywheel.redaction.redact import redactor
    from trace_flywheel.settings import load_settings
    from trace_flywheel.sources.reader import ReadOptions

    if not path.is_dir():
        what = "is no folder" if path.exists() else "no such path"
        print(f"flywheel: {path}: {what}; give a job folder", file=sys.stderr)
        raise typer.Exit(BAD_INPUT)
    settings = load_settings()
    options = ReadOptions(max_line_bytes=int(settings.ingest.max_line_mb * 1e6))
    report = coverage(path, redactor(policy_of(settings)), options)
    if not report.rollouts:
        print(f"flywheel: {path}: no result.json found here, so no rollout; give a job folder", file=sys.stderr)
        raise typer.Exit(BAD_INPUT)
    if as_json:
        print(json.dumps(msgspec.to_builtins(report), indent=2))
        return
    for rollout in report.per_rollout:
        print(line_of(rollout))
    print(last_line(report))
