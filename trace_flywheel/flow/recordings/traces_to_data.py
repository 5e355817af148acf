"""`.atraj` recordings to one JSONL file: SFT rows, preference pairs or unpaired answers; the report counts every row.

Read, redact, harvest, judge, decide per rollout, write. Rows harvested = rows lost to each later rule + rows emitted.
A dry run does all of it but the writing; the output takes its name when it is complete, or never.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import msgspec
import orjson

from trace_flywheel.curation.code_judges import NAMES
from trace_flywheel.flow.atomic import replaced
from trace_flywheel.flow.judgments import Judgment, Judgments, Policy, combined, passes, request
from trace_flywheel.flow.recordings.apart import REASON, Apart, apart
from trace_flywheel.flow.recordings.choice import chosen
from trace_flywheel.flow.recordings.compat import Sketch, compat
from trace_flywheel.flow.recordings.corrected import corrections_of
from trace_flywheel.flow.recordings.judged import Judged, judge_report, judged_of
from trace_flywheel.flow.recordings.pairs import Shape, pair_row, pairs_of
from trace_flywheel.flow.recordings.read import (
    Counts,
    Recordings,
    read_all,
    recordings_below,
    unreadable,
)
from trace_flywheel.flow.recordings.report import Report
from trace_flywheel.flow.recordings.rows import Draft, Export, Harvest, harvest, messages_of, row_of
from trace_flywheel.flow.recordings.unpaired import LABELS, kto_row, unpaired_of
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.redaction.policy import Policy as RedactionPolicy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.settings import Splits
from trace_flywheel.sources.reader import ReadOptions


class Request(msgspec.Struct, frozen=True):
    """What `flywheel traces-to-data` was asked for."""

    folder: Path
    out: Path
    mode: Literal["sft", "dpo", "kto"] = "sft"
    export: Export = "answer-only"
    task: str | None = None
    task_filter: str | None = None
    echo_drop: bool = True
    threshold: float = 0.85
    sketch: Sketch | None = None
    """Given: the original's rows and filters (`--compat posttrainllm`)."""
    pii: RedactionPolicy | str = "standard"
    placeholders: Literal["mask", "keep"] = "mask"
    dry_run: bool = False
    judgments: Path | None = None
    policy: Policy = Policy()
    min_signals: dict[str, float] = msgspec.field(default_factory=dict)
    """Least value of a code judge's signal; a rollout without that signal passes."""
    requests: Path | None = None
    corrections: Path | None = None
    shape: Shape = "trl"
    min_margin: float = 0.0
    held_out: Path | None = None
    """Given: rows of the tasks that `splits` holds out go here, and what is near them nowhere."""
    splits: Splits = Splits()
    seed: int = 42
    options: ReadOptions = ReadOptions()


def traces_to_data(asked: Request) -> Report:
    """Write `asked.out` (the held-out rows, the judge's requests) and tell what happened.

    Raises `FlywheelError`, with nothing written, where there is no recording or none can be read, where the output
    cannot be opened, and for a judgment file that is broken or, under `missing = fail`, incomplete.
    """
    found = recordings_below(asked.folder)
    judgments = Judgments(asked.judgments) if asked.judgments is not None else None
    corrections = corrections_of(asked.corrections)
    report, counts = Report(), Counts()
    with ExitStack() as stack:
        outputs = (asked.out, asked.held_out, asked.requests)
        files = [None if path is None or asked.dry_run else stack.enter_context(replaced(path)) for path in outputs]
        held: Iterable[bytes] = ()
        requests: Iterable[bytes] = ()
        if asked.sketch is not None:
            lines: Iterable[bytes] = _compat(asked, found, report, counts, asked.sketch)
        else:
            rollouts = read_all(found, asked.options, asked.task_filter, asked.pii, corrections, counts)
            _check_corrections(asked, set(corrections.by_trace) - counts.named)
            _tell(report, found, counts)
            if not rollouts and report.failed:
                first = report.failed[0]
                raise FlywheelError(
                    f"none of the {counts.scanned} recordings can be used; the first: {first['path']}: {first['text']}"
                )
            harvests = [harvest(r, asked.export, asked.echo_drop, asked.placeholders) for r in rollouts]
            report.signals = _mean_signals(harvests)
            divided = Apart(harvests)
            if asked.held_out is not None:
                divided = apart(harvests, asked.splits, asked.seed, asked.threshold)
            make = {"sft": _sft, "dpo": _pairs, "kto": _unpaired}[asked.mode]
            rows, requests = make(asked, divided.harvests, judgments, report)
            lines = [line for trace_id, line in rows if trace_id not in divided.held_out]
            held = [line for trace_id, line in rows if trace_id in divided.held_out]
            if asked.held_out is not None:
                report.held_out = len(held)
                _tell_left(asked.mode, divided, report)
        for file, written in zip(files, (lines, held, requests), strict=True):
            if file is not None:
                file.writelines(written)
    return report


def _tell_left(mode: str, divided: Apart, report: Report) -> None:
    """What left for the sake of the held-out rows: rows, or recordings where a pair or an answer is a row."""
    left = divided.rows_left if mode == "sft" else len(divided.left)
    report.harvested += 0 if mode == "dpo" else left
    report.dropped = dict(sorted({**report.dropped, REASON: left}.items()))
    report.rollouts_dropped = [*divided.left, *report.rollouts_dropped]


def _tell(report: Report, found: Recordings, counts: Counts) -> None:
    report.scanned, report.other_task, report.same_rollout = counts.scanned, counts.other_task, counts.same_rollout
    report.failed = unreadable(counts)
    report.packed = [unit.relative for unit in found.packed]
    report.redactions = dict(sorted(counts.redactions.items()))
    report.corrections_unused = counts.corrections


def _check_corrections(asked: Request, unknown: set[str]) -> None:
    if unknown:
        raise FlywheelError(
            f"{asked.corrections}: corrects {min(unknown)!r}, which is no recording below {asked.folder}"
        )


def _compat(asked: Request, found: Recordings, report: Report, counts: Counts, sketch: Sketch) -> list[bytes]:
    answer = compat(
        found, asked.options, asked.export, asked.task, asked.echo_drop, sketch, redactor(asked.pii), counts
    )
    _tell(report, found, counts)
    report.harvested, report.emitted = answer.harvested, len(answer.rows)
    report.not_harvested = {"tool_echo": answer.tool_echo} if answer.tool_echo else {}
    report.dropped = {"exact_duplicate": answer.exact, "near_duplicate": len(answer.near)}
    report.rollouts_dropped = [{"reason": "near_duplicate", **one} for one in answer.near]
    return [row + b"\n" for row in answer.rows]


_Rows = tuple[list[tuple[str, bytes]], list[bytes]]
"""Lines with the trace id of their (chosen) recording, and requests to a judge."""


def _sft(asked: Request, harvests: list[Harvest], judgments: Judgments | None, report: Report) -> _Rows:
    report.not_harvested = dict(sorted(sum((Counter(one.lost) for one in harvests), Counter[str]()).items()))
    report.harvested = sum(len(one.drafts) for one in harvests)
    judged = judged_of(harvests, judgments, asked.policy)
    lost: Counter[str] = Counter()
    kept: list[Harvest] = []
    for i, one in enumerate(harvests):
        drafts = tuple(d for k, d in enumerate(one.drafts) if _stays(asked, one, judged.of.get((i, k)), lost))
        kept.append(msgspec.structs.replace(one, drafts=drafts))
    if judgments is not None:
        report.judge = judge_report(judgments, judged, asked.policy)
        if lost["unjudged"] and asked.policy.missing == "fail":
            raise FlywheelError(
                f"{asked.judgments}: {lost['unjudged']} of {report.harvested} rows have no judgment; "
                "judge them (--judge-requests), or say --judge-missing keep or drop"
            )
    choice = chosen(kept, judged.rollouts, asked.threshold)
    lines, requests = [], []
    for i, one in enumerate(kept):
        why = choice.lost[i]
        if why is not None:
            lost[why["reason"]] += len(one.drafts)
            told = {"path": one.rollout.source.path, "rollout_id": one.rollout.trace_id, "rows": len(one.drafts)}
            report.rollouts_dropped.append({**told, **why})
            continue
        for k, draft in enumerate(one.drafts):
            if (i, k) in choice.shared:
                lost["exact_duplicate"] += 1
                continue
            row = row_of(one, draft, asked.export, asked.task, _score(harvests[i], draft, judged, i, asked.policy))
            lines.append((one.rollout.trace_id, _line(row)))
            if asked.requests is not None:
                requests.append(request(draft.row_hash, messages_of(one.turns, draft.user, draft.target)))
    report.dropped = {"exact_duplicate": 0, "near_duplicate": 0} | dict(sorted(lost.items()))
    report.emitted = len(lines)
    return lines, requests


def _stays(asked: Request, one: Harvest, judgments: list[Judgment] | None, lost: Counter[str]) -> bool:
    for name, least in asked.min_signals.items():
        if one.signals.get(name, 1.0) < least:
            lost[f"signal_{name}"] += 1
            return False
    if judgments is None:
        return True
    answer = passes(judgments, asked.policy)
    if answer is None:
        lost["unjudged"] += asked.policy.missing != "keep"
        return asked.policy.missing == "keep"
    lost["below_judge_threshold"] += not answer
    return answer


def _score(harvested: Harvest, draft: Draft, judged: Judged, i: int, policy: Policy) -> float | None:
    return combined(judged.of.get((i, harvested.drafts.index(draft)), []), policy)


def _pairs(asked: Request, harvests: list[Harvest], judgments: Judgments | None, report: Report) -> _Rows:
    judged = judged_of(harvests, judgments, asked.policy)
    if judgments is not None:
        report.judge = judge_report(judgments, judged, asked.policy)
    answer = pairs_of(harvests, judged.rollouts, asked.min_margin)
    report.harvested = report.emitted = len(answer.pairs)
    report.dropped = answer.none
    rows = [(one.pair.provenance, pair_row(one, asked.shape, asked.task)) for one in answer.pairs]
    return [(told.trace_ids[0], _line(row)) for told, row in rows], []


def _unpaired(asked: Request, harvests: list[Harvest], judgments: Judgments | None, report: Report) -> _Rows:
    judged = judged_of(harvests, judgments, asked.policy)
    if judgments is not None:
        report.judge = judge_report(judgments, judged, asked.policy)
    answer = unpaired_of(harvests, judged.rollouts, asked.min_margin, asked.policy.threshold)
    report.dropped = answer.none
    report.emitted = len(answer.rows)
    report.harvested = report.emitted + sum(answer.none.values())
    report.labels = {name: sum(row.row.label is label for row in answer.rows) for name, label in LABELS}
    rows = [(one.row.provenance, kto_row(one, asked.task)) for one in answer.rows]
    return [(told.trace_ids[0], _line(row)) for told, row in rows], []


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS) + b"\n"


def _mean_signals(harvests: list[Harvest]) -> dict[str, float]:
    values = {name: [one.signals[name] for one in harvests if name in one.signals] for name in NAMES}
    return {name: round(fmean(found), 4) for name, found in values.items() if found}
