"""`flywheel stream`: one JSON line per finished rollout while a job runs.

Exit codes: 0 the job finished (or `--no-follow`), 1 its process died, 2 bad input or a missing folder with
`--no-follow`, 3 `--timeout`. Finished trials are printed first, whatever the end.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from trace_flywheel.cli.options import finite, group_keys
from trace_flywheel.records.errors import FlywheelError

BAD_INPUT = 2


def stream(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="A job folder, or one that holds a single job.")],
    format: Annotated[Literal["jsonl"], typer.Option("--format", help="One JSON object a line.")] = "jsonl",
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for the job to end.")] = True,
    poll_interval: Annotated[
        float, typer.Option("--poll-interval", min=0.01, callback=finite, help="Seconds between looks.")
    ] = 1.0,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, callback=finite, help="Seconds to follow at most.")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option("--group-size", min=1, help="Print groups of N whole, with their advantages.")
    ] = None,
    group_by: Annotated[
        str, typer.Option("--group-by", help="Of task, agent, model, job, task_digest, policy_version.")
    ] = "task,agent,model,job",
    after: Annotated[
        str | None, typer.Option("--after", metavar="CURSOR", help="Go on behind the line with this cursor.")
    ] = None,
) -> None:
    from msgspec.json import encode

    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.flow.stream.follow import Request, Stream
    from trace_flywheel.settings import load_settings
    from trace_flywheel.sources.reader import ReadOptions

    by = group_keys(group_by)
    settings = load_settings()
    options = ReadOptions(
        max_line_bytes=int(settings.ingest.max_line_mb * 1e6), pass_reward=settings.grading.pass_reward
    )
    request = Request(
        job, follow, poll_interval, timeout, group_size, by, after, policy_of(settings), options, settings.groups.eps
    )
    records = Stream(request, lambda text: print(text, file=sys.stderr, flush=True))
    try:
        for record in records:
            sys.stdout.buffer.write(encode(record) + b"\n")
            sys.stdout.buffer.flush()
    except FlywheelError as error:
        print(f"flywheel: {error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    except BrokenPipeError:
        # whoever read has enough; the interpreter must not try to flush into the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    raise typer.Exit(records.exit_code)
