"""`flywheel depth`: train, score, filter and label; the classifier of what a prompt takes, and the mix by it."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trace_flywheel.cli.depth_options import (
    Field,
    Model,
    Out,
    Redact,
    Rows,
    TurnOf,
    redactor_of,
    shortage_of_option,
    target_of,
)
from trace_flywheel.cli.options import AsJson, finite, positive, program

depth = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@depth.command("train", help="Train the classifier on labelled prompts and judge it on others.")
def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="A folder, or a .tgfr file for the original's classifier.")],
    labelled: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="JSONL of {prompt, label}; null labels wait.")
    ] = None,
    seed_set: Annotated[
        bool, typer.Option("--seed-set/--no-seed-set", help="Also the package's prompts (not into a .tgfr).")
    ] = True,
    held_out: Annotated[
        Path | None, typer.Option("--held-out", "--heldout", help="Labelled prompts to judge by; else five folds.")
    ] = None,
    min_f1: Annotated[
        float, typer.Option("--min-f1", min=0, max=1, callback=finite, help="Macro-F1 below which nothing is written.")
    ] = 0.5,
    backend: Annotated[
        Literal["ngrams", "embedding"],
        typer.Option("--backend", help="embedding: sentence vectors beside the n-grams (the extra `embedding`)."),
    ] = "ngrams",
    vocab: Annotated[int, typer.Option("--vocab", min=1024, help="Of a .tgfr: hash buckets.")] = 65536,
    ngram: Annotated[int, typer.Option("--ngram", min=1, max=3, help="Of a .tgfr: n-gram order.")] = 3,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Of a .tgfr.")] = 8,
    lr: Annotated[float, typer.Option("--lr", callback=positive, help="Of a .tgfr: learning rate.")] = 0.1,
    l2: Annotated[float, typer.Option("--l2", min=0, callback=finite, help="Of a .tgfr: weight decay.")] = 1e-5,
    seed: Annotated[int, typer.Option("--seed", help="Of a .tgfr: order of the examples.")] = 42,
    as_json: AsJson = False,
) -> None:
    from trace_flywheel.curation.tgfr import Options
    from trace_flywheel.flow.depth.train import train_default, train_tgfr

    files = labelled or []
    if out.suffix == ".tgfr":
        if backend != "ngrams":
            raise typer.BadParameter("a .tgfr holds n-grams only", param_hint="--backend")
        answer = train_tgfr(files, Options(vocab, ngram, epochs, lr, l2, seed), held_out, min_f1, out)
    else:
        answer = train_default(files, seed_set, held_out, min_f1, out, backend)
    if as_json:
        print(json.dumps(answer))
        return
    for number, epoch in enumerate(answer.get("epochs", ()), 1):
        print(f"epoch {number}: loss {epoch['loss']:.4f}, accuracy {epoch['accuracy']:.3f}")
    print(f"trained on {answer['rows']} prompts -> {out}")
    if answer.get("waiting"):
        print(f"still to be labelled: {answer['waiting']}")
    if "held_out" in answer:
        _print_report(answer["held_out"])


def _print_report(told: dict[str, Any]) -> None:
    print(f"by {told['by']}: accuracy {told['accuracy']:.3f}, macro-F1 {told['macro_f1']:.3f}")
    if near := told.get("near_training"):
        print(f"  {near} held-out prompts are near training prompts, as: {'; '.join(told['near_prompts'])}")
    for name, scores in told["classes"].items():
        precision, recall, f1 = (f"{scores[key]:.3f}" for key in ("precision", "recall", "f1"))
        print(f"  {name}: precision {precision}, recall {recall}, F1 {f1}, n {scores['n']}")
    print("  true \\ predicted: " + ", ".join(told["confusion"]))
    for name, row in told["confusion"].items():
        print(f"  {name}: {', '.join(str(n) for n in row.values())}")


@depth.command("score", help="Label rows by the depth of their prompt, of what the work took, or both.")
def score(
    rows: Rows,
    out: Out,
    model: Model = None,
    field: Field = "messages",
    turn: TurnOf = "last",
    depth_from: Annotated[
        Literal["classifier", "trajectory", "both"],
        typer.Option("--depth-from", help="The prompt's look, the calls that were made, or both."),
    ] = "classifier",
    min_confidence: Annotated[
        float, typer.Option("--min-confidence", min=0, max=1, help="Below it a label is `uncertain`.")
    ] = 0.5,
    unscorable: Annotated[
        Literal["fail", "drop", "keep"], typer.Option("--unscorable", help="Rows without a prompt.")
    ] = "fail",
    redact: Redact = True,
    as_json: AsJson = False,
) -> None:
    from trace_flywheel.flow.depth.rows import model_of
    from trace_flywheel.flow.depth.score import How
    from trace_flywheel.flow.depth.score import score as score_file

    how = How(field, turn, depth_from, min_confidence, unscorable)
    report = score_file(rows, out, model_of(model), how, redactor_of(redact))
    for number in report.unscorable:
        print(f"{rows}:{number}: cannot be scored", file=sys.stderr)
    if as_json:
        print(json.dumps(report.as_dict()))
        return
    print(f"scored {report.written} of {report.rows} rows -> {out}")
    for name, count in report.labels.items():
        print(f"  {name}: {count} ({100 * count / max(1, report.written):.1f}%)")
    for name, count in report.disagreements.items():
        print(f"  classifier/trajectory disagree, {name}: {count}")


@depth.command("filter", help="Rows at target shares of their depth, or of any column.")
def filter_(
    rows: Rows,
    out: Out,
    target_mix: Annotated[
        str, typer.Option("--target-mix", help='"single=0.3,multi=0.5,comparison=0.2"; divided by their sum.')
    ],
    policy: Annotated[
        Literal["flywheel", "posttrainllm"], typer.Option("--policy", help="Largest-remainder mix, or the original's.")
    ] = "flywheel",
    shortage: Annotated[
        str,
        typer.Option("--shortage", help="When a class has too few rows: shrink, fail, renormalize or upsample(N)."),
    ] = "shrink",
    upsample: Annotated[
        int | None, typer.Option("--upsample", min=1, help="N rows stand for one at most: --shortage 'upsample(N)'.")
    ] = None,
    uncertain: Annotated[
        Literal["exclude", "keep", "other"],
        typer.Option("--uncertain", help="Leave uncertain rows out, keep their natural share, or count them as other."),
    ] = "exclude",
    unit: Annotated[
        Literal["rows", "rollouts", "supervised_tokens"],
        typer.Option("--unit", help="What stays or goes as a whole; supervised_tokens: rollouts, by what they teach."),
    ] = "rows",
    mode: Annotated[
        Literal["drop", "weight"], typer.Option("--mode", help="Leave surplus out, or give every row a mix_weight.")
    ] = "drop",
    column: Annotated[str, typer.Option("--column", help="What the shares are shares of.")] = "reasoning_depth",
    seed: Annotated[int, typer.Option("--seed", help="Which rows of a class stay.")] = 42,
    redact: Redact = True,
    as_json: AsJson = False,
) -> None:
    from trace_flywheel.flow.depth.filter import DEPTH, MixOf, filter_rows

    if policy == "posttrainllm" and column != DEPTH:
        raise typer.BadParameter("the original mixes by depth only", param_hint="--column")
    if policy == "posttrainllm" and (mode != "drop" or unit != "rows"):
        raise typer.BadParameter("the original drops rows only", param_hint="--mode, --unit")
    target = target_of(target_mix, column == DEPTH)
    asked = MixOf(target, policy, *shortage_of_option(shortage, upsample), mode, uncertain, unit, column, seed)
    report = filter_rows(rows, out, asked, redactor_of(redact))
    if as_json:
        print(json.dumps(report))
        return
    print(f"wrote {report['written']} of {report['rows']} rows -> {out}")
    for name in report["supply"]:
        share = report["share"].get(name)
        wanted = "natural share" if share is None else f"share {share:.2f}"
        told = (
            f"supply {report['supply'][name]}, kept {report['kept'].get(name, 0)}, left out {report['discarded'][name]}"
        )
        print(f"  {name}: {wanted}, {told}")
        if size := report.get("supply_size"):
            print(f"    tokens: supply {size[name]}, kept {report['kept_size'][name]}")
        if weight := report.get("weight"):
            print(f"    weight {weight[name]:.4g}")
    if report.get("uncertain_left_out"):
        print(f"  uncertain: left out {report['uncertain_left_out']}")
    if report.get("limiting"):
        print(f"  limiting class: {report['limiting']}")


@depth.command("label", help="The least certain prompts, for a human to label.")
def label(
    rows: Rows,
    out: Out,
    model: Model = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Prompts to write.")] = 50,
    field: Field = "messages",
    turn: TurnOf = "last",
    redact: Redact = True,
) -> None:
    from trace_flywheel.flow.depth.rows import model_of
    from trace_flywheel.flow.depth.score import How, to_label

    written = to_label(rows, out, model_of(model), How(field, turn), count, redactor_of(redact))
    print(f"wrote {written} prompts -> {out}; fill in label and give the file to `{program()} depth train`")
