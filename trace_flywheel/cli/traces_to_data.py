"""`flywheel traces-to-data`: `.atraj` recordings to SFT rows or preference pairs."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trace_flywheel.cli.options import AsJson, Config, finite, inner_share, settings_of
from trace_flywheel.cli.traces_to_data_report import text_of


def traces_to_data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that holds .atraj files, at any depth.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; replaced only when it is complete.")],
    task: Annotated[str | None, typer.Option("--task", help="Label of every row. Leaves nothing out.")] = None,
    task_filter: Annotated[
        str | None, typer.Option("--task-filter", help="Only recordings with this recorded task.")
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", help="sft, dpo for preference pairs, or kto for scored answers without a pair.")
    ] = "sft",
    export: Annotated[
        str, typer.Option("--export", help="answer-only, or trajectory: a row per assistant turn.")
    ] = "answer-only",
    no_tool_echo_drop: Annotated[
        bool, typer.Option("--no-tool-echo-drop", help="Keep answers that are a tool call or a tool's output.")
    ] = False,
    minhash_threshold: Annotated[
        float | None,
        typer.Option(
            "--minhash-threshold", min=0.0, callback=finite, help="Near-duplicates from here on; above 1 none."
        ),
    ] = None,
    minhash_shingle: Annotated[
        int | None,
        typer.Option("--minhash-shingle", min=1, max=1024, help="Of the original's sketch, with --compat (5)."),
    ] = None,
    minhash_perms: Annotated[
        int | None,
        typer.Option("--minhash-perms", min=0, max=4096, help="Of the original's sketch, with --compat (64)."),
    ] = None,
    judge_model: Annotated[str | None, typer.Option("--judge-model", help="Refused: no model is called here.")] = None,
    judge_scores: Annotated[
        Path | None, typer.Option("--judge-scores", help="Judgments, or a batch run's answers, one JSON object a line.")
    ] = None,
    judge_threshold: Annotated[
        list[str] | None,
        typer.Option("--judge-threshold", help="F, or NAME=F for one judgment; repeatable (0.6)."),
    ] = None,
    judge_combine: Annotated[
        Literal["mean", "min", "median"], typer.Option("--judge-combine", help="How several judgments become one.")
    ] = "mean",
    judge_missing: Annotated[
        Literal["keep", "drop", "fail"], typer.Option("--judge-missing", help="Rows without a judgment.")
    ] = "fail",
    judge_requests: Annotated[
        Path | None,
        typer.Option("--judge-requests", help="Also write a batch request per row, for a judge elsewhere."),
    ] = None,
    min_signal: Annotated[
        list[str] | None, typer.Option("--min-signal", help="NAME=F, a code judge's least value. May be repeated.")
    ] = None,
    corrections: Annotated[
        Path | None, typer.Option("--corrections", help="Human corrections, one JSON object a line.")
    ] = None,
    dpo_shape: Annotated[
        Literal["trl", "posttrainllm"], typer.Option("--dpo-shape", help="Keys of a pair, by trainer.")
    ] = "trl",
    min_margin: Annotated[
        float, typer.Option("--min-margin", min=0.0, callback=finite, help="Least margin of a pair.")
    ] = 0.0,
    held_out: Annotated[
        Path | None,
        typer.Option("--held-out", help="Rows of a share of the tasks go here, and none near them to --out."),
    ] = None,
    held_out_share: Annotated[
        float, typer.Option("--held-out-share", help="Share of the tasks, above 0 and below 1.", callback=inner_share)
    ] = 0.1,
    compat: Annotated[
        str | None,
        typer.Option(
            "--compat", help="posttrainllm: the original's rows, sketch and filters; posttrainllm-ids: its newest."
        ),
    ] = None,
    pii: Annotated[
        Literal["standard", "all", "none"] | None, typer.Option("--pii", help="Personal data that goes beside secrets.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compute everything, write nothing.")] = False,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    _refuse(mode, export, judge_model, compat)
    by_name, threshold = _thresholds(judge_threshold or [])
    signals = _signals(min_signal or [])
    if minhash_threshold is not None and not math.isfinite(minhash_threshold):
        raise typer.BadParameter("must be a finite number", param_hint="--minhash-threshold")
    from trace_flywheel.flow.judgments import Policy
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.flow.recordings.compat import Sketch
    from trace_flywheel.flow.recordings.traces_to_data import Request
    from trace_flywheel.flow.recordings.traces_to_data import traces_to_data as export_rows
    from trace_flywheel.settings import Splits
    from trace_flywheel.sources.reader import ReadOptions

    _different({"--out": out, "--held-out": held_out, "--judge-requests": judge_requests})
    if compat is not None:
        given: dict[str, Any] = {
            "--judge-scores": judge_scores,
            "--judge-requests": judge_requests,
            "--corrections": corrections,
            "--held-out": held_out,
        }
        given |= {"--min-signal": min_signal, "--task-filter": task_filter}
        for name, value in given.items():
            if value:
                raise typer.BadParameter("the original has no such option; leave --compat out", param_hint=name)
    elif minhash_shingle is not None or minhash_perms is not None:
        text = "--minhash-shingle and --minhash-perms shape the original's sketch and have no effect without --compat"
        print(f"flywheel: {text} posttrainllm", file=sys.stderr)
    settings = settings_of(None, config)
    sketch = Sketch(
        0.85 if minhash_threshold is None else minhash_threshold,
        5 if minhash_shingle is None else minhash_shingle,
        64 if minhash_perms is None else minhash_perms,
        compat == "posttrainllm-ids",
    )
    asked = Request(
        folder=folder,
        out=out,
        mode="dpo" if mode == "dpo" else "kto" if mode == "kto" else "sft",
        export="trajectory" if export == "trajectory" else "answer-only",
        task=task,
        task_filter=task_filter,
        echo_drop=not no_tool_echo_drop,
        threshold=settings.dedup.threshold if minhash_threshold is None else minhash_threshold,
        sketch=sketch if compat is not None else None,
        pii=policy_of(settings, pii=pii),
        placeholders=settings.redaction.supervise_placeholders,
        dry_run=dry_run,
        judgments=judge_scores,
        policy=Policy(threshold, by_name, judge_combine, judge_missing),
        min_signals=signals,
        requests=judge_requests,
        corrections=corrections,
        shape=dpo_shape,
        min_margin=min_margin,
        held_out=held_out,
        splits=Splits(held_out=held_out_share, family=settings.splits.family),
        seed=settings.seed,
        options=ReadOptions(max_line_bytes=int(settings.ingest.max_line_mb * 1_000_000)),
    )
    report = export_rows(asked)
    for path in report.packed:
        print(f"not used: {path}: packed recordings are not read; unpack the file", file=sys.stderr)
    for row in report.failed:
        print(f"not used: {row['path']}: {row['reason']}: {row['text']}", file=sys.stderr)
    for line in report.corrections_unused:
        print(f"not used: {corrections}:{line.line}: {line.reason}: of {line.of}: {line.text}", file=sys.stderr)
    if as_json:
        print(json.dumps({"out": str(out), "dry_run": dry_run, "mode": mode, "export": export, **report.as_dict()}))
    else:
        print(text_of(asked, report))


def _refuse(mode: str, export: str, judge_model: str | None, compat: str | None) -> None:
    """Refusals in the original's order, before anything is read."""
    if compat not in (None, "posttrainllm", "posttrainllm-ids"):
        text = f"{compat!r} is not known; posttrainllm and posttrainllm-ids are"
        raise typer.BadParameter(text, param_hint="--compat")
    if mode not in ("sft", "dpo", "kto") or (compat is not None and mode != "sft"):
        known = "sft" if compat is not None else "sft, dpo or kto"
        raise typer.BadParameter(f"{mode!r} is not supported; {known} is", param_hint="--mode")
    if export not in ("answer-only", "trajectory"):
        raise typer.BadParameter(f"{export!r} is none of answer-only, trajectory", param_hint="--export")
    if judge_model is not None:
        text = "no model is called here; write --judge-requests, run them anywhere, read the answers by --judge-scores"
        raise typer.BadParameter(text, param_hint="--judge-model")


def _different(outputs: dict[str, Path | None]) -> None:
    """Two outputs under one name would be one of them."""
    seen: set[Path] = set()
    for option, path in outputs.items():
        if path is not None and path.resolve() in seen:
            raise typer.BadParameter(f"{path} is another output's name already", param_hint=option)
        seen |= {path.resolve()} if path is not None else set()


def _thresholds(given: list[str]) -> tuple[dict[str, float], float]:
    named = [text.rpartition("=") for text in given]
    found = {name: _number(number, "--judge-threshold") for name, _, number in named}
    return {name: value for name, value in found.items() if name}, found.get("", 0.6)


def _signals(given: list[str]) -> dict[str, float]:
    from trace_flywheel.curation.code_judges import NAMES

    found = {name: _number(number, "--min-signal") for name, _, number in (text.partition("=") for text in given)}
    for name in found:
        if name not in NAMES:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(NAMES)}", param_hint="--min-signal")
    return found


def _number(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{text!r} is no number from 0 to 1", param_hint=option)
    return value
