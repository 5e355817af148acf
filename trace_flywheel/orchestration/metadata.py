"""What a person wants to see on an asset's page: what changed, counts, the funnel, pictures, paths, column schemas."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from trace_flywheel.curation.depth import LABELS
from trace_flywheel.flow.glance import Glance
from trace_flywheel.flow.names import ADVANTAGES, CLASSIFIER
from trace_flywheel.flow.standing import Made
from trace_flywheel.flow.steps import StepResult
from trace_flywheel.lake.ledger import Ledger
from trace_flywheel.lake.sidecar import Sidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.orchestration import pictures
from trace_flywheel.orchestration.columns import MEANING

PREVIEW_CHARS = 160
FACTS_SHOWN = 30
"""Entries of a nested fact that a table repeats."""

Metadata = dict[str, Any]


def of_partition(result: StepResult, folder: Path) -> Metadata:
    """Metadata of one partition of a per-run asset."""
    shown: Metadata = {"status": result.status, "folder": dg.MetadataValue.path(str(folder))}
    if result.reason:
        shown["reason"] = result.reason
    after = result.sidecar
    if after is None:
        return shown
    shown |= {
        "changed": _changed(result.before, after),
        "dagster/partition_row_count": after.counts.kept,
        "rollouts_in": after.counts.entered,
        "dropped": after.counts.n_dropped,
        "content_digest": after.content_digest,
    }
    if after.counts.dropped:
        rows = [(stage, reason, n) for stage, reasons in after.counts.dropped.items() for reason, n in reasons.items()]
        shown["drops"] = table(("stage", "reason", "rollouts"), rows)
    if findings := after.facts.get("findings"):
        shown["redacted"] = table(("rule", "findings"), sorted(findings.items()))
    if source := after.facts.get("format"):
        shown["format"] = source
    return shown


def of_all_runs(lake: Lake, asset: str) -> Metadata:
    """Totals of a per-run asset over all partitions that the lake holds."""
    counts = [sidecar.counts for sidecar in lake.sidecars(asset)]
    return {
        "all_runs": table(
            ("runs", "rollouts in", "kept", "dropped"),
            [
                (
                    len(counts),
                    sum(c.entered for c in counts),
                    sum(c.kept for c in counts),
                    sum(c.n_dropped for c in counts),
                )
            ],
        )
    }


def _changed(before: Sidecar | None, after: Sidecar) -> str:
    if before is None:
        return "first time"
    if before.content_digest == after.content_digest:
        return "nothing"
    return f"{after.counts.kept - before.counts.kept:+d} rollouts, content differs"


def of_made(made: Made, seen: Glance, rows_before: int | None) -> Metadata:
    """Metadata of an asset over all runs: what it became, and what a glance at it shows."""
    counted = "prompts" if made.name.endswith(CLASSIFIER) else "rollouts"
    shown: Metadata = {
        "changed": _since(made, rows_before),
        "dagster/row_count": made.rows,
        "version": made.version,
        "path": dg.MetadataValue.path(str(made.path)),
        f"{counted}_in": made.ledger.entered,
        f"{counted}_kept": made.ledger.kept,
        "funnel": funnel_table(made.ledger),
        "funnel_picture": dg.MetadataValue.md(
            pictures.funnel(list(_left(made.ledger)), f"{counted.capitalize()} left after each stage")
        ),
    }
    if made.name == ADVANTAGES:
        return shown | _of_advantages(seen)
    if made.status == "refused":
        return shown | {"refused": made.facts["refused"]} | _mix_pictures(made.facts["mix"])
    if made.name.endswith(CLASSIFIER):
        return shown | {"facts": facts_table(made.facts)} | _of_classifier(made.facts)
    return shown | _of_version(made, seen)


def _of_classifier(facts: Mapping[str, Any]) -> Metadata:
    """F1 by class, a mark where the classifier before stood, and how many prompts of a class got which label."""
    judged, before = facts["held_out"], facts.get("before")
    f1 = {name: judged["classes"][name]["f1"] for name in LABELS} | {"all (macro)": judged["macro_f1"]}
    mark = {name: scores["f1"] for name, scores in before["classes"].items()} if before else {}
    mark |= {"all (macro)": before["macro_f1"]} if before else {}
    title = "F1 by class" + (", with a mark where the classifier before stood" if before else "")
    rows = [(name, *(judged["confusion"][name][guess] for guess in LABELS)) for name in LABELS]
    return {
        "f1": dg.MetadataValue.md(pictures.bars(f1, title, mark)),
        "confusion": table(("labelled", *LABELS), rows),
        "macro_f1": judged["macro_f1"],
        "judged_by": judged["by"],
    }


def _of_advantages(seen: Glance) -> Metadata:
    shown: Metadata = {
        f"{name}s": dg.MetadataValue.md(pictures.histogram(values, f"{name} of {values.n} rollouts"))
        for name, values in seen.numbers.items()
    }
    return shown | ({"dagster/column_schema": column_schema(seen.columns)} if seen.columns is not None else {})


def _of_version(made: Made, seen: Glance) -> Metadata:
    facts = made.facts
    shown: Metadata = {
        "card": dg.MetadataValue.md(_without_front_matter((made.path / "README.md").read_text("utf-8"))),
        "rewards": dg.MetadataValue.md(pictures.histogram(seen.numbers["reward"], "Rewards of the rows")),
        "facts": facts_table(facts),
    }
    if "mix" in facts:
        shown |= _mix_pictures(facts["mix"])
    if first := seen.first:
        shown["preview"] = table(("prompt", "answer"), [_glance(row) for row in first])
        shown["dagster/column_schema"] = dg.TableSchema(
            columns=[_column(name, type(value).__name__) for name, value in first[0].items()]
        )
    return shown


def facts_table(facts: Mapping[str, Any]) -> dg.MarkdownMetadataValue:
    """Facts as names and values, nested names joined by dots; of a long list or mapping only its length."""
    return table(("fact", "value"), list(_named(facts)))


def _named(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in sorted(facts.items()):
        if isinstance(value, Mapping | list | tuple) and len(value) > FACTS_SHOWN:
            yield f"{prefix}{name}", f"{len(value)} entries"
        elif isinstance(value, Mapping):
            yield from _named(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{name}", ", ".join(map(_short, value)) or "none"
        elif value is not None:
            yield f"{prefix}{name}", f"{value:.4g}" if isinstance(value, float) else _short(value)


def _mix_pictures(report: Mapping[str, Any]) -> Metadata:
    """The classes before and after the mix, in its unit."""
    before, after = (report.get(f"{name}_size") or report[name] for name in ("supply", "kept"))
    if weight := report.get("weight"):
        after = {name: n * weight[name] for name, n in after.items()}
    total = sum(after[name] for name in report["share"])
    wanted = {name: share * total for name, share in report["share"].items()}
    unit = "Tokens" if "supply_size" in report else "Rollouts"
    return {
        "mix_before": dg.MetadataValue.md(pictures.bars(before, f"{unit} by class before the mix")),
        "depth_mix": dg.MetadataValue.md(pictures.bars(after, f"{unit} by class, with the target's mark", wanted)),
    }


def _glance(row: Mapping[str, Any]) -> tuple[str, str]:
    """First user turn and last answer of a published row, shortened. Published text is redacted text."""
    prompt = row.get("prompt") or row["messages"]
    answer = row.get("chosen") or row.get("completion") or row.get("messages") or row["prompt"]
    asked = next((m["content"] for m in prompt if m["role"] == "user"), "")
    said = next((m["content"] for m in reversed(answer) if m["role"] == "assistant" and m["content"]), "")
    return _short(asked), _short(said)


def _short(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text if len(text) <= PREVIEW_CHARS else text[: PREVIEW_CHARS - 1] + "…"


def _without_front_matter(card: str) -> str:
    return card.split("---\n", 2)[-1] if card.startswith("---\n") else card


def _since(made: Made, rows_before: int | None) -> str:
    if rows_before is None:
        return "first time"
    if made.status == "unchanged":
        return "nothing: the inputs are the same"
    version = "an older version again" if made.status == "restored" else "new version"
    return f"{made.rows - rows_before:+d} rows ({rows_before} before), {version}"


def _left(ledger: Ledger) -> Iterator[tuple[str, int]]:
    yield "in", ledger.entered
    for step in ledger.funnel():
        yield step.stage, step.kept


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> dg.MarkdownMetadataValue:
    """A Markdown table."""
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def funnel_table(ledger: Ledger) -> dg.MarkdownMetadataValue:
    """Stage by stage: in, kept, dropped, and the reasons."""
    rows = [
        (step.stage, step.entered, step.kept, step.entered - step.kept, reasons(step.dropped))
        for step in ledger.funnel()
    ]
    return table(("stage", "in", "kept", "dropped", "reasons"), [*rows, ("kept", "", ledger.kept, "", "")])


def reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in sorted(counts.items()))


def column_schema(schema: pa.Schema) -> dg.TableSchema:
    """An Arrow schema as Dagster shows columns."""
    return dg.TableSchema(columns=[_column(field.name, str(field.type)) for field in schema])


def _column(name: str, kind: str) -> dg.TableColumn:
    return dg.TableColumn(name, kind, description=MEANING.get(name))
