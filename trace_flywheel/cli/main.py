"""The `flywheel` command: a table of commands, each in a module of its own that is imported only when it runs.

Command `NAME` is the function `NAME` of `trace_flywheel.cli.NAME` (dashes become underscores), with typer's
annotations, or a `typer.Typer` of that name, whose commands follow it. Help of the whole reads the table alone, so it
is fast and imports none of them.

Exit codes: 0 done, 1 failed (one line on stderr), 2 wrong usage (nothing read, nothing written), 130 interrupted.
"""

import codecs
import importlib
import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from trace_flywheel.cli.refused import is_of_memory, refusal
from trace_flywheel.records.errors import FlywheelError, UsageError

COMMANDS = {
    "demo": "Write the sample job folders, run the whole flow in Dagster, and show the funnel.",
    "refresh": "One headless pass: discover, ingest what is new or changed, curate, publish.",
    "ui": "Dagster's UI and daemon on 127.0.0.1, with the same home.",
    "sources": "What would be read below a folder: format, runs, rollouts, problems. Writes nothing.",
    "convert": "Job folders to one trainer file.",
    "validate": "Check a trainer file; name all faults, each with its line.",
    "redact": "A file or pipe without secrets and personal data, and a report that names no value.",
    "token-coverage": "Which rollouts carry token ids and logprobs good enough to train on.",
    "stream": "One JSON line per finished rollout while a job runs.",
    "traces-to-data": "Agent recordings (.atraj) to SFT rows or preference pairs.",
    "depth": "Train, score, filter and label by what a prompt takes.",
    "datasets": "Dataset versions: rows, date, size, path, card.",
    "export": "A dataset version in a trainer's layout.",
    "ledger": "The funnel of a dataset: in, kept, dropped by stage and reason.",
    "why": "One rollout's fate in every dataset, with the evidence.",
    "withdraw": "Take a grader's, a run's or a trace's rollouts out of the datasets; the rows are shown first.",
    "purge": "Erase rollouts from lake, index and every version; tombstones with digests stay.",
    "doctor": "Environment, lake, schemas, what is off and how to mend it.",
}


class LazyGroup(TyperGroup):
    """Lists the table; imports a command's module when the command line names it."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        line = COMMANDS.get(cmd_name)
        # A short help is wrapped, where the first line of a help is cut.
        return TyperCommand(cmd_name, short_help=line) if line else None

    def get_help_option(self, ctx: Any) -> Any:
        """The group's own, with an answer for when it is not given: typer would import pydantic to make one of none."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else command, rest


def load(name: str) -> Any:
    """The command `name`, with its module imported."""
    found = import_of(name)
    if isinstance(found, typer.Typer):
        found.info.help = COMMANDS[name]
        return typer.main.get_command(found)
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    one.command(name, help=COMMANDS[name])(found)
    return typer.main.get_command(one)


def import_of(name: str) -> Callable[..., Any]:
    module = name.replace("-", "_")
    function: Callable[..., Any] = getattr(importlib.import_module(f"trace_flywheel.cli.{module}"), module)
    return function


def print_version(value: bool) -> None:
    if value:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(version("trace-flywheel"))
        except PackageNotFoundError:  # run from a checkout that is not installed
            print("checkout")
        raise typer.Exit


WIDE = {"max_content_width": 120}
app = typer.Typer(
    cls=LazyGroup, no_args_is_help=True, add_completion=False, rich_markup_mode=None, context_settings=WIDE
)
"""Help is plain text: rich takes longer to import than the rest of it together."""


@app.callback()
def flywheel(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finished agent runs in, trustworthy training data out, with lineage from every row to its run and trace."""


_EMPTY = re.compile(r"(--[a-z-]+=)?")
_NAMES_NOTHING = (
    "an argument is empty, as of a variable that is not set; it names nothing (a full stop is the folder you are in)"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (default: the process's own arguments) and return its exit code."""
    # Else numpy's import starts a thread for every other core, which keeps it busy for a tenth of a second.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Every Python that is started from here would else take a module of the current folder, which may be a job folder,
    # for one of its own.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    _open_closed_streams()
    if argv is None:
        _end_in_order()
    _escape_what_stdout_cannot_say()
    words = sys.argv[1:] if argv is None else argv
    if any(_EMPTY.fullmatch(word) for word in words):
        return fail(_NAMES_NOTHING, 2)
    try:
        typer.main.get_command(app).main(args=argv, prog_name="flywheel")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    except FlywheelError as error:
        return fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except (OSError, RuntimeError, MemoryError, ImportError) as error:
        told = refusal(error)
        if told is None:
            raise
        code = fail(told)
        if argv is None and is_of_memory(error):
            os._exit(code)  # taking the process down would ask for more: libraries complain or crash then
        return code
    return 0


def _end_in_order() -> None:
    """A scheduler's SIGTERM and a terminal that closes interrupt as Ctrl-C does, at any moment, so that what is half
    made is taken back; where they are ignored (`nohup`) they stay so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _open_closed_streams() -> None:
    """What the caller closed is the null device: else the next file that is opened would have its number, and get what
    a library prints, and whoever asks the stream anything would find None."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as long as the process


def _escape_what_stdout_cannot_say() -> None:
    """Names of folders may be any bytes, and a terminal's encoding may lack a character: what would end a command after
    its work is written as `\\uXXXX`, in text and in JSON."""
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and (out.errors, out.encoding.lower()) != ("surrogateescape", "utf-8"):
        codecs.register_error("flywheel", _escaped)
        out.reconfigure(errors="flywheel")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def fail(text: str, code: int = 1) -> int:
    """Print the one line of a user's error and return its exit code."""
    print(f"flywheel: {' '.join(text.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
