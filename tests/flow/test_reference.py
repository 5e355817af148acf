"""The product and a plain second telling of its rules, row by row, on random eval runs."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.flow.conftest import Flow, sentence, write_runs
from tests.flow.reference import CAP, KEEP, Reference
from tests.flow.reference_messages import folded
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.decided import decided
from trace_flywheel.flow.funnel import Curated, Kind


def called(command: int, result: int) -> list[dict[str, Any]]:
    """A call and what came of it."""
    function = {"name": "run", "arguments": json.dumps({"command": sentence(command, 6)})}
    call = {"id": f"c{command}{result}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": sentence(70, 8), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": sentence(result, 20)},
    ]


def talked(said: int, then: int) -> list[dict[str, Any]]:
    """An answer that did not end it."""
    return [{"role": "assistant", "content": sentence(said, 30)}, {"role": "user", "content": sentence(then, 15)}]


BEFORE = (
    [],
    [],
    [],
    [],
    called(80, 90),
    called(80, 90),
    called(81, 90),
    called(80, 91),
    talked(84, 94),
    talked(84, 95),
)
"""What stands between the question and the last answer: attempts part at a call, at its result, or at a user turn."""
TIMES = (None, "2025-03-01T10:00:00Z", "2025-03-02T10:00:00Z")


@st.composite
def row(draw: Any) -> dict[str, Any]:
    task = draw(st.sampled_from("aab"))
    answer = sentence(draw(st.integers(1, 5)), 60)
    answer = draw(st.sampled_from([answer, answer, answer, answer.upper(), f"{answer} z"]))
    finished = draw(st.sampled_from(TIMES))
    verdict = draw(st.sampled_from(["pass", "pass", "pass", "fail", "fail", "fail", "unsure"]))
    rewards = {"pass": [0.5, 0.75, 1.0, 1.0, 0.25], "fail": [0.0, 0.25, 0.5, 0.6], "unsure": [0.5]}[verdict]
    one: dict[str, Any] = {
        "run": draw(st.sampled_from(["r1", "r2"])),
        "task_id": task,
        "messages": [
            *draw(st.sampled_from([[], [], [], [{"role": "system", "content": "Be brief."}]])),
            {"role": "user", "content": sentence(50 + ord(task), 12)},
            *draw(st.sampled_from(BEFORE)),
            {"role": "assistant", "content": answer},
        ],
        "verdict": verdict,
        "reward": draw(st.sampled_from([*rewards * 4, None])),
        "grader": "exact",
        "grader_version": draw(st.sampled_from(["1", "1", "1", "2"])),
        "agent": draw(st.sampled_from(["x", "x", "y"])),
        "policy_version": draw(st.sampled_from([None, "p1", "p2"])),
        "finished_at": finished,
    }
    if draw(st.integers(0, 7)) == 0:
        one["error"] = {"category": "timeout", "by": "agent"}
    if draw(st.integers(0, 7)) == 0:
        one["correction"] = {"content": sentence(draw(st.integers(1, 7)), 60), "corrected_by": "ann"}
        if draw(st.booleans()):
            one["correction"]["turn"] = draw(st.integers(0, 2))
    elif draw(st.integers(0, 4)) == 0:
        turns = sum(message["role"] == "assistant" for message in one["messages"])
        length = draw(st.sampled_from([turns, turns, turns, turns + 1]))
        one["step_verdicts"] = draw(st.lists(st.sampled_from(["pass", "fail"]), min_size=length, max_size=length))
    return one


def split_at_answer(row: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages before the first answer, and from it on."""
    said = row["messages"]
    first = next(i for i, message in enumerate(said) if message["role"] == "assistant")
    return said[:first], said[first:]


@st.composite
def results(draw: Any) -> list[dict[str, Any]]:
    """Rows with a trace id each; half of the time all are attempts of one agent at one prompt, so that groups fill."""
    rows = draw(st.lists(row(), min_size=1, max_size=14))
    if draw(st.booleans()):
        for one in rows:
            one |= {"agent": "x", "policy_version": "p1", "grader_version": "1", "task_id": rows[0]["task_id"]}
            one["messages"] = split_at_answer(rows[0])[0] + split_at_answer(one)[1]
    return [{**one, "trace_id": f"t{i:02}"} for i, one in enumerate(rows)]


def fates(curated: Curated) -> dict[str, str]:
    traces = curated.index.frame["trace_id"].tolist()
    told = {traces[row]: "kept" for row in curated.kept.tolist()}
    dropped = curated.drops[["row", "stage", "reason"]].itertuples(index=False)
    return told | {traces[row]: f"{stage}/{reason}" for row, stage, reason in dropped}


def curation_of(rows: list[dict[str, Any]], place: Path, goldens: list[dict[str, Any]] | None = None) -> Curation:
    runs = {run: [{k: v for k, v in r.items() if k != "run"} for r in rows if r["run"] == run] for run in ("r1", "r2")}
    root = write_runs(place / "data", {run: listed for run, listed in runs.items() if listed}, goldens)
    one = Flow(root, place / "home", selection={"keep_fraction": KEEP, "max_per_task": CAP})
    one.ingest()
    return one.curation()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(results())
def test_every_decision_is_the_one_that_the_rules_give(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        curation = curation_of(rows, Path(place))
        frame = curation.index.frame
        hashes = (frame.set_index("trace_id")[name].to_dict() for name in ("content_hash", "attempt_hash"))
        expected = Reference(rows, *hashes)
        assert fates(decided(curation, "sft", None)) == expected.sft()
        pairs = decided(curation, "pair", None)
        assert fates(pairs) == expected.built[0]
        assert pairs.pairs is not None
        traces = frame["trace_id"].tolist()
        table = pairs.pairs.table
        sides = zip(table["chosen"].tolist(), table["rejected"].tolist(), strict=True)
        assert sorted((traces[a], traces[b]) for a, b in sides) == sorted(expected.built[1])
        assert fates(decided(curation, "kto", None)) == expected.kto()
        rl = decided(curation, "rl", None)
        assert fates(rl) == expected.rl()
        given_out = dict(zip(traces, curation.attempts.groups["advantage"].tolist(), strict=True))
        assert {t: a for t, a in given_out.items() if a == a} == pytest.approx(expected.advantages)
        for reason in set(expected.sft().values()) | set(expected.built[0].values()):
            event(reason)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(results(), st.sampled_from(["id", "alias", "statement", "answer"]), st.sampled_from("ab"))
def test_no_golden_is_in_any_set_whatever_comes_in(rows: list[dict[str, Any]], side: str, task: str) -> None:
    prompt, answer = sentence(50 + ord(task), 12), sentence(2, 60)
    golden: dict[str, Any] = {
        "id": {"task_id": task},
        "alias": {"task_id": "other", "aliases": [task]},
        "statement": {"task_id": "other", "prompt": prompt},
        "answer": {"task_id": "other", "answer": answer},
    }[side]
    with tempfile.TemporaryDirectory() as place:
        curation = curation_of(rows, Path(place), [golden])
        traces = curation.index.frame["trace_id"].tolist()
        kinds: tuple[Kind, ...] = ("sft", "pair", "kto", "rl", "prompt")
        kept = {traces[row] for kind in kinds for row in decided(curation, kind, None).kept.tolist()}
    for one in rows:
        texts = [message["content"] for message in one["messages"] if message["role"] != "tool"]
        texts.append(one.get("correction", {}).get("content", ""))
        held = any(folded(answer) in folded(text) for text in texts) if side == "answer" else one["task_id"] == task
        assert not (held and one["trace_id"] in kept), one
