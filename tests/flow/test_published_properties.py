"""What is promised of published bytes, over the whole flow and whatever comes in: nothing lost, nothing leaked, and the
same bytes whatever the order.

Runs hold corrections, step verdicts, copies, near copies, several graders, errors and tool calls (`test_reference`);
beside them stand goldens and a corpus, and secrets in any place of a row.
"""

import json
import os
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.flow.conftest import Flow, sentence, write_runs
from tests.flow.reference_messages import folded
from tests.flow.test_reference import results
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import find_version, lines, provenance
from trace_flywheel.lake.ledger import ledger_of

Row = dict[str, Any]
SECRETS = ("ghp_" + "a1B2" * 9, "AKIA" + "QX7Z" * 4, "ann.smith@corp-mail.example")
PLACES = ("prompt", "answer", "before", "call", "result", "correction", "metadata", "error", "tools")
DATASETS = ("sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset", "rl_prompts", "balanced_mix")
OPTIONS = {
    "selection": {"keep_fraction": 1.0, "max_per_task": 2},
    "pairs": {"min_group": 2, "per_task": 2},
    "splits": {"eval": 0.3},
}


def planted(row: Row, place: str, secret: str) -> Row:
    """The row with a secret in one place; where it has no such place, in its answer."""
    row = json.loads(json.dumps(row))
    said, text = row["messages"], f"use {secret} now"
    calls = [call for message in said for call in message.get("tool_calls", ())]
    results = [message for message in said if message["role"] == "tool"]
    if place == "prompt":
        said[-1 if len(said) == 1 else next(i for i, m in enumerate(said) if m["role"] == "user")]["content"] += text
    elif place == "before":
        said.insert(0, {"role": "system", "content": text}) if said[0]["role"] != "system" else None
        said[0]["content"] = text
    elif place == "call" and calls:
        calls[0]["function"]["arguments"] = json.dumps({"command": text})
    elif place == "result" and results:
        results[0]["content"] += text
    elif place == "correction" and "correction" in row:
        row["correction"]["content"] += text
    elif place == "metadata":
        row["metadata"] = {"note": text, secret: 1}
    elif place == "error":
        row["error"] = {"category": "timeout", "by": "agent", "text": text}
    elif place == "tools":
        row["tools"] = [{"type": "function", "function": {"name": "f", "description": text, "parameters": {}}}]
    else:
        said[-1]["content"] += text
    return row


@st.composite
def inputs(draw: Any) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows (with `run`), goldens, and rows of a corpus."""
    rows = draw(results())
    for number in draw(st.lists(st.integers(0, len(rows) - 1), max_size=4, unique=True)):
        rows[number] = planted(rows[number], draw(st.sampled_from(PLACES)), draw(st.sampled_from(SECRETS)))
    task = draw(st.sampled_from(["a", "b", "none"]))
    prompt, answer = sentence(50 + ord(task[0]), 12), sentence(2, 60)
    golden: Row = draw(
        st.sampled_from(
            [
                {"task_id": task},
                {"task_id": "other", "aliases": [task]},
                {"task_id": "other", "prompt": prompt},
                {"task_id": "other", "answer": answer},
            ]
        )
    )
    known = draw(st.lists(st.sampled_from(rows), max_size=2))
    return rows, [golden], [{"messages": row["messages"]} for row in known]


def flow_over(rows: list[Row], goldens: list[Row], corpus: list[Row], place: Path, mixed: random.Random | None) -> Flow:
    """The flow over these rows. With `mixed` the folders are made in another order, at other times."""
    names = sorted({row["run"] for row in rows})
    if mixed is not None:
        mixed.shuffle(names)
    merged = place / "merged.jsonl"
    place.mkdir()
    merged.write_text("".join(json.dumps(row) + "\n" for row in corpus))
    root = place / "data"
    for number, name in enumerate(names):
        own = [{k: v for k, v in row.items() if k != "run"} for row in rows if row["run"] == name]
        write_runs(root, {name: own}, goldens)
        if mixed is not None:
            os.utime(root / "runs" / name / "results.json", (1_700_000_000 + number, 1_700_000_000 + number))
    return Flow(root, place / "home", corpora=[str(merged)], **OPTIONS)


def newest(home: Path) -> dict[str, bytes]:
    found = {}
    for name in DATASETS:
        if (home / "datasets" / name / "latest").exists():
            folder = find_version(home, name).path
            found |= {f"{name}/{p.relative_to(folder)}": p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return found


def lost_rows(made: Made, rows: list[Row]) -> list[str]:
    """What does not add up in a dataset, per rollout, per stage and per row."""
    table = pq.read_table(made.path / "fates.parquet")
    fates = table.to_pylist()
    faults = []
    if Counter(f["trace_id"] for f in fates) != Counter(row["trace_id"] for row in rows):
        faults.append("not one fate for each rollout")
    faults += [f"{f['trace_id']} has no reason" for f in fates if f["kept"] == bool(f["stage"] and f["reason"])]
    faults += [f"{f['trace_id']} is kept without a row" for f in fates if f["kept"] != bool(f["row_ids"])]
    left = len(rows)
    for stage in ledger_of(table).funnel():
        if stage.entered != left or stage.entered != stage.kept + sum(stage.dropped.values()):
            faults.append(f"{stage.stage}: {stage}")
        left = stage.kept
    if left != sum(f["kept"] for f in fates):
        faults.append(f"{left} come through all stages")
    version = find_version(made.path.parents[2], made.name)
    ids = [json.loads(line)["row_id"] for line in lines(version)]
    if Counter(ids) != Counter(p.row_id for p in provenance(version)):
        faults.append("rows and provenance differ")
    if set(ids) != {row_id for f in fates for row_id in f["row_ids"]}:
        faults.append("rows and fates differ")
    return faults


def texts(row: Row) -> list[str]:
    """What a published row says outside of tool output."""
    parts = (row.get(name) or () for name in ("messages", "prompt", "chosen", "rejected", "completion"))
    return [m["content"] for part in parts for m in part if m["role"] != "tool" and isinstance(m["content"], str)]


def leaks(home: Path, goldens: list[Row]) -> list[str]:
    """Secrets in any published file, and rows of a golden's task or with its text."""
    faults = [f"{secret} in {p}" for p, data in newest(home).items() for secret in SECRETS if secret.encode() in data]
    for name in DATASETS:
        if not (home / "datasets" / name / "latest").exists():
            continue
        version = find_version(home, name)
        tables = (pq.read_table(p).to_pylist() for p in version.path.glob("*.parquet"))
        faults += [f"{s} in a table of {name}" for t in tables for s in SECRETS if s in json.dumps(t, default=str)]
        for golden in goldens:
            held = {golden["task_id"], *golden.get("aliases", ())}
            faults += [f"{name}: a row of {p.task_id}" for p in provenance(version) if p.task_id in held]
            for side in (golden[key] for key in ("prompt", "answer") if key in golden):
                said = (text for line in lines(version) for text in texts(json.loads(line)))
                faults += [f"{name}: {side[:20]}" for text in said if folded(side) in folded(text)]
    return faults


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(inputs(), st.randoms(use_true_random=False))
def test_nothing_is_lost_or_leaked_and_no_order_matters(
    given_in: tuple[list[Row], list[Row], list[Row]], mixed: random.Random
) -> None:
    rows, goldens, corpus = given_in
    with tempfile.TemporaryDirectory() as folder:
        one = flow_over(rows, goldens, corpus, Path(folder, "one"), None)
        made = {name: m for name, m in one.run().items() if name in DATASETS and m.status != "refused"}
        assert made.keys() >= {*DATASETS} - {"balanced_mix"}
        assert {name: faults for name, m in made.items() if (faults := lost_rows(m, rows))} == {}
        assert leaks(one.settings.home, goldens) == []
        before = newest(one.settings.home)

        other = flow_over(rows, goldens, corpus, Path(folder, "other"), mixed)
        other.run()
        assert newest(other.settings.home) == before

        # In another order inside of the files the rows are the same; the digests of the files are not.
        shuffled = rows.copy()
        mixed.shuffle(shuffled)
        third = flow_over(shuffled, goldens, corpus, Path(folder, "third"), mixed)
        third.run()
        after = newest(third.settings.home)
        assert {p: d for p, d in after.items() if p.endswith(".jsonl")} == {
            p: d for p, d in before.items() if p.endswith(".jsonl")
        }
        for m in made.values():
            for stage, reasons in m.ledger.dropped.items():
                for reason in reasons:
                    event(f"{stage}/{reason}")
