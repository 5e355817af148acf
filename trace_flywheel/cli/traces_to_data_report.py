"""The report of `flywheel traces-to-data` as text: the original's lines first, then what it does not print."""

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trace_flywheel.flow.recordings.report import Report
    from trace_flywheel.flow.recordings.traces_to_data import Request


def text_of(asked: "Request", report: "Report") -> str:
    """All of it."""
    told = report.as_dict()
    rows = "pairs" if asked.mode == "dpo" else "rows"
    dedup = (
        f"posttrainllm, k {asked.sketch.shingle}, {asked.sketch.permutations} permutations"
        if asked.sketch
        else "flywheel"
    )
    threshold = asked.sketch.threshold if asked.sketch else asked.threshold
    here = report.emitted - (report.held_out or 0)
    done = f"would emit {report.emitted} {rows}" if asked.dry_run else f"wrote {here} {rows} -> {asked.out}"
    if report.held_out is not None:
        done += f", {report.held_out} held out" + ("" if asked.dry_run else f" -> {asked.held_out}")
    lines = [
        f"in: {asked.folder} ({report.scanned} files)",
        f"out: {asked.out}",
        f"task: {asked.task if asked.task is not None else '(none)'}",
        f"mode: {asked.mode}",
        f"export: {asked.export}",
        f"tool-echo drop: {'on' if asked.echo_drop and asked.export == 'answer-only' else 'off'}",
        f"near-duplicates: threshold {threshold:g} ({dedup})",
        f"dry run: {'yes' if asked.dry_run else 'no'}",
        done,
        "filter summary",
    ]
    counters = {
        "trajectories scanned": told["trajectories_scanned"],
        "trajectories failed": told["trajectories_failed"],
        f"raw {rows} harvested": told["harvested"],
        "exact-duplicates dropped": told["exact_duplicates_dropped"],
        "minhash near-duplicates dropped": told["minhash_near_duplicates_dropped"],
        "emitted": told["emitted"],
    }
    lines += [f"  {name}: {value}" for name, value in counters.items()]
    lines += _more(report)
    return "\n".join(lines)


def _more(report: "Report") -> list[str]:
    """What the original does not print, where there is something to say."""
    more: dict[str, Any] = {f"not harvested, {rule}": n for rule, n in report.not_harvested.items()}
    more |= {
        f"dropped, {rule}": n
        for rule, n in report.dropped.items()
        if n and rule not in ("exact_duplicate", "near_duplicate")
    }
    unused = Counter(one.reason for one in report.corrections_unused)
    more |= {f"corrections not used, {reason}": n for reason, n in sorted(unused.items())}
    more |= {f"redacted, {rule}": n for rule, n in report.redactions.items()}
    more |= {"left out by --task-filter": report.other_task, "recorded twice": report.same_rollout}
    more |= {f"labelled {name}": n for name, n in report.labels.items()}
    more |= {f"signal, {name} (mean)": value for name, value in report.signals.items()}
    judge = {k: v for k, v in (report.judge or {}).items() if not isinstance(v, dict)}
    more |= {f"judge, {name.replace('_', ' ')}": value for name, value in judge.items()}
    if report.judge is not None:
        more["judge, rows kept at threshold"] = ", ".join(
            f"{at} {n}" for at, n in report.judge["kept_at_threshold"].items()
        )
    return [f"  {name}: {value}" for name, value in more.items() if value not in (0, "")]
