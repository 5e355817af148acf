"""`flywheel convert`: job folders to one trainer file."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trace_flywheel.cli.options import finite, group_keys
from trace_flywheel.records.normalisation import Normalisation

BRANCHES = "branch-tree"


def convert(
    jobs: Annotated[list[Path], typer.Argument(metavar="JOB...", help="Job folders, trials, or folders above them.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write, replaced only when it is complete; - is stdout.")
    ],
    format: Annotated[
        str, typer.Option("--format", help="The trainer's layout; an unknown name lists them all.")
    ] = "prime-sft",
    row_mode: Annotated[
        Literal["trial", "rollout", "exchange"],
        typer.Option("--row-mode", help="One row per trial (rollout is the same), or per recorded model call."),
    ] = "trial",
    context: Annotated[
        Literal["full", "last-turn"],
        typer.Option("--context", help="The whole conversation, or BenchFlow's window from the last user turn on."),
    ] = "full",
    include_helpers: Annotated[
        bool, typer.Option("--include-helpers", help="Also title, summary and other helper calls.")
    ] = False,
    include_subagents: Annotated[
        bool, typer.Option("--include-subagents", "--subagent-rows", help="Also sub-agents' conversations, tagged.")
    ] = False,
    min_reward: Annotated[
        float | None, typer.Option("--min-reward", callback=finite, help="Least reward of a row.")
    ] = None,
    group_advantage: Annotated[
        Normalisation | None, typer.Option("--group-advantage", help="Give each row its group's advantage.")
    ] = None,
    group_by: Annotated[
        str, typer.Option("--group-by", help="Of task, agent, model, job, task_digest, policy_version.")
    ] = "task,agent,model,job",
    reward_vector: Annotated[
        bool, typer.Option("--reward-vector", help="Give each row the parts of its reward, and their advantages.")
    ] = False,
    policy_version: Annotated[
        str | None, typer.Option("--policy-version", help="Of rollouts whose source names none; a key of --group-by.")
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option("--manifest", help="Counts, settings, input digests and every drop, as JSON.")
    ] = None,
    canonical_selection: Annotated[
        Path | None,
        typer.Option("--canonical-selection", help="Convert the trials that this file names."),
    ] = None,
    goldens: Annotated[
        list[Path] | None,
        typer.Option("--goldens", help="Eval items to hold out, beside those found."),
    ] = None,
    dedup_against: Annotated[
        list[Path] | None,
        typer.Option("--dedup-against", help="JSONL, Parquet or dataset:NAME@VERSION whose rows are left out."),
    ] = None,
    context_policy: Annotated[
        Literal["full", "message-window"],
        typer.Option("--context-policy", help="trl-sft: message-window cuts rows to --max-length tokens."),
    ] = "full",
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="Folder or model whose chat template counts (extra `tokenizer`).")
    ] = None,
    tokenizer_revision: Annotated[
        str | None, typer.Option("--tokenizer-revision", help="Of the model that --tokenizer names.")
    ] = None,
    max_length: Annotated[int | None, typer.Option("--max-length", min=1, help="Most tokens of a row.")] = None,
    compat: Annotated[
        Literal["benchflow"] | None, typer.Option("--compat", help="BenchFlow's window and helper calls.")
    ] = None,
    expected_rows: Annotated[int | None, typer.Option("--expected-rows", min=0, help="Fail on another number.")] = None,
    redact: Annotated[bool, typer.Option("--redact/--no-redact", help="Replace secrets and personal data.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the first rollout that cannot be read.")] = False,
    require_tool_calls: Annotated[
        bool, typer.Option("--require-tool-calls", help="Fail where a row calls no tool, or there is no row.")
    ] = False,
    pairs: Annotated[
        Path | None, typer.Option("--pairs", help="branch-tree: also write preference pairs between siblings.")
    ] = None,
    pairs_any_request: Annotated[
        bool, typer.Option("--pairs-any-request", help="branch-tree: also pair siblings asked different things.")
    ] = False,
    include_oracle: Annotated[
        bool, typer.Option("--include-oracle", help="branch-tree: also the oracle agent's children.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", min=0, help="Processes; 0 means one per core.")] = 0,
) -> None:
    from trace_flywheel.flow.conversion.convert import convert as convert_jobs
    from trace_flywheel.flow.conversion.manifest import write_manifest
    from trace_flywheel.flow.conversion.request import Request
    from trace_flywheel.flow.outputs import STDOUT, check_outputs
    from trace_flywheel.flow.policy import policy_of
    from trace_flywheel.settings import load_settings
    from trace_flywheel.sources.reader import ReadOptions
    from trace_flywheel.trainers.candidates import Choice

    def warn(text: str) -> None:
        print(text, file=sys.stderr)

    by = group_keys(group_by)
    window = _window(format, context_policy, tokenizer, tokenizer_revision, max_length)
    if compat is not None:
        context, include_helpers = _compat(format, row_mode, context, include_helpers)
    target = _layout(format)
    pairs_only = target.KINDS == ("pair",)
    settings = load_settings()
    held_out = settings.goldens.model_copy(update={"paths": (*settings.goldens.paths, *(goldens or ()))})
    settings = settings.model_copy(update={"goldens": held_out})
    of_conversations = {
        "--row-mode": row_mode == "exchange",
        "--context": context != "full",
        "--include-helpers": include_helpers,
        "--include-subagents": include_subagents,
        "--group-advantage": group_advantage is not None,
        "--reward-vector": reward_vector,
        "--canonical-selection": canonical_selection is not None,
        "--policy-version": policy_version is not None,
        "--dedup-against": dedup_against is not None,
    }
    of_branches = {
        "--pairs": pairs is not None,
        "--pairs-any-request": pairs_any_request,
        "--include-oracle": include_oracle,
    }
    if format == BRANCHES:
        _refuse({**of_conversations, "--require-tool-calls": require_tool_calls}, "branched trials")
    elif pairs_only:
        of_rows = {"--min-reward": min_reward is not None, "--no-redact": not redact}
        _refuse({**of_conversations, **of_rows, **of_branches}, "preference pairs")
    else:
        _refuse(of_branches, f"--format {format}")
    check_outputs({"--out": out, "--manifest": manifest, "--pairs": pairs}, jobs, target.CONTAINER == "folder")
    # Data alone goes to stdout.
    tell = warn if out == STDOUT else print
    if format == BRANCHES:
        from trace_flywheel.flow.conversion import branch_tree

        branches = branch_tree.Request(
            tuple(jobs),
            out,
            pairs=pairs,
            any_request=pairs_any_request,
            include_oracle=include_oracle,
            min_reward=min_reward,
            expected_rows=expected_rows,
            pii=policy_of(settings) if redact else None,
            strict=strict,
            goldens=settings.goldens.paths,
            overlap=settings.goldens.overlap,
            max_line_bytes=int(settings.ingest.max_line_mb * 1e6),
        )
        counts = branch_tree.convert_branches(branches, warn)
        tell(f"Converted {counts.child_rows} row(s) from {counts.forks} fork(s) -> {out}")
        if manifest is not None:
            branch_tree.write_manifest(manifest, counts, branches)
            tell(f"Stats: {manifest}")
        return
    request = Request(
        paths=tuple(jobs),
        out=out,
        format=format,
        choice=Choice("exchange" if row_mode == "exchange" else "trial", context, include_helpers, include_subagents),
        min_reward=min_reward,
        group_advantage=group_advantage,
        group_by=by,
        reward_vector=reward_vector,
        pii=policy_of(settings) if redact else None,
        expected_rows=expected_rows,
        require_tool_calls=require_tool_calls,
        strict=strict,
        selection=canonical_selection,
        goldens=settings.goldens.paths,
        overlap=settings.goldens.overlap,
        options=ReadOptions(
            max_line_bytes=int(settings.ingest.max_line_mb * 1e6),
            pass_reward=settings.grading.pass_reward,
            verdict_map=settings.grading.verdict_map,
        ),
        eps=settings.groups.eps,
        policy_version=policy_version,
        window=window,
        existing=tuple(dedup_against or ()),
        home=settings.home,
        near=settings.dedup.threshold,
        keep_index=settings.dedup.index,
    )
    if pairs_only:
        from trace_flywheel.flow.conversion.pairs import convert_pairs

        tally = convert_pairs(request, settings, workers, warn)
    else:
        tally = convert_jobs(request, workers or settings.ingest.workers, warn)
    tell(f"Converted {tally.rows} row(s) from {tally.seen} rollout(s) -> {out}")
    if not tally.rows and tally.drops:
        warn(f"no row at all: {tally.reasons()}{'' if manifest else '; --manifest FILE says which rollout and why'}")
    if group_advantage is not None:
        from trace_flywheel.flow.conversion.groups import summary_line

        tell(summary_line(tally.groups, by, group_advantage))
    if manifest is not None:
        write_manifest(manifest, tally, request)
        tell(f"Stats: {manifest}")


def _window(format: str, policy: str, tokenizer: str | None, revision: str | None, max_length: int | None) -> Any:
    given = {"--tokenizer": tokenizer, "--tokenizer-revision": revision, "--max-length": max_length}
    if policy == "full":
        _refuse({option: value is not None for option, value in given.items()}, "--context-policy full")
        return None
    if format != "trl-sft":
        raise typer.BadParameter("message-window is of --format trl-sft", param_hint="--context-policy")
    if tokenizer is None or max_length is None:
        raise typer.BadParameter("message-window needs --tokenizer and --max-length", param_hint="--context-policy")
    from trace_flywheel.trainers.message_window import Window

    return Window(tokenizer, max_length, revision)


def _compat(format: str, row_mode: str, context: Any, helpers: bool) -> tuple[Any, bool]:
    """Window and helper calls as BenchFlow's: its prime-sft has both, trl-sft and branch-tree have neither."""
    if format == "prime-sft":
        return "last-turn", helpers or row_mode == "exchange"
    if format not in ("trl-sft", BRANCHES):
        raise typer.BadParameter(f"BenchFlow has no window of its own for {format}", param_hint="--compat")
    return context, helpers


def _layout(name: str) -> Any:
    from trace_flywheel.trainers.registry import layouts

    if name not in layouts():
        raise typer.BadParameter(f"{name!r} is none of {', '.join(layouts())}", param_hint="--format")
    return layouts()[name]


def _refuse(given: dict[str, bool], rows: str) -> None:
    for option, is_given in given.items():
        if is_given:
            raise typer.BadParameter(f"does not go with {rows}", param_hint=option)
