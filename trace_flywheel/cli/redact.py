"""`flywheel redact`: a file or a pipe without secrets and personal data.

JSON lines are redacted inside their values, other text as it stands. The report names rules, places and fingerprints,
never a value. Exits 1 when a record could not be made clean: it is left out and named.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer

from trace_flywheel.cli.options import AsJson, Config, Home, settings_of
from trace_flywheel.records.errors import FlywheelError


def redact(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Text or JSONL; - is standard input.")],
    out: Annotated[Path | None, typer.Option("--out", help="Instead of standard output; appears whole.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Findings by rule and place, as JSON.")] = None,
    pii: Annotated[
        Literal["standard", "all", "none"] | None, typer.Option("--pii", help="Personal data that goes beside secrets.")
    ] = None,
    as_json: AsJson = False,
    home: Home = None,
    config: Config = None,
) -> None:
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.flow.redact_file import redact_lines
    from trace_flywheel.redaction.redact import redactor

    if as_json and out is None:
        raise typer.BadParameter("the rows go to standard output; give --out too", param_hint="--json")
    if out is not None and file != "-" and out.resolve() == Path(file).resolve():
        raise FlywheelError(f"{out}: is the input; give --out another name")
    wants_report = report is not None or as_json
    policy = policy_of(settings_of(home, config), pii=pii, told=wants_report)
    with ExitStack() as stack:
        source = _opened(file, stack)
        # The rules are built before the output is opened: a faulty rule file writes nothing.
        clean = redactor(policy)
        told = redact_lines(_text_lines(source, file), _target(out, stack), clean)
    if report is not None:
        _write(report, told.as_json(policy))
    for number, reason, rule in told.left_out:
        print(f"{file}:{number}: left out: {reason} ({rule})", file=sys.stderr)
    if as_json:
        print(json.dumps(told.as_json(policy), ensure_ascii=False))
    elif out is not None:
        print(f"{told.written} records, {sum(told.by_rule().values())} findings replaced: {out}")
    raise typer.Exit(1 if told.left_out else 0)


def _opened(file: str, stack: ExitStack) -> BinaryIO:
    return sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))


def _target(out: Path | None, stack: ExitStack) -> BinaryIO:
    from trace_flywheel.flow.atomic import replaced

    return sys.stdout.buffer if out is None else stack.enter_context(replaced(out))


def _text_lines(source: BinaryIO, name: str) -> Iterator[str]:
    """Lines with their ends. Bytes that are no UTF-8 end it: what cannot be read cannot be looked through, and what
    would be put in their place is not what the file says."""
    for number, line in enumerate(source, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FlywheelError(
                f"{name}:{number}: byte {error.start + 1} of the line is no UTF-8; "
                "convert the file first, for example with iconv -f latin1 -t utf-8"
            ) from None


def _write(path: Path, told: dict[str, Any]) -> None:
    from trace_flywheel.flow.atomic import replaced

    with replaced(path) as file:
        file.write(json.dumps(told, ensure_ascii=False, indent=1).encode() + b"\n")
