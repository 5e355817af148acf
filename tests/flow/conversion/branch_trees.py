"""Branched trials as BenchFlow writes them, and what converting them gives."""

import json
from pathlib import Path

import jsonschema_rs

from trace_flywheel.flow import schemas
from trace_flywheel.flow.conversion.branch_tree import Request, convert_branches

PREFIX = [
    {"type": "user_message", "text": "Make draft.txt."},
    {
        "type": "tool_call",
        "tool_call_id": "c1",
        "kind": "edit",
        "raw_input": {"file_path": "/d", "content": "x"},
        "raw_output": "created",
    },
    {"type": "agent_message", "text": "Made."},
    {"type": "user_message", "text": "After the fork."},
]


def said(answer, asked="Make hello.txt."):
    return [{"type": "user_message", "text": asked}, {"type": "agent_message", "text": answer}]


def child(index, reward, label=None, **values):
    node = f"n{index}"
    path = f"branches/f1/children/{node}"
    about = {"label": label or f"child {index}", "requested": None}
    shown = {"artifacts": {"path": path}, "intervention": about, "status": "scored"}
    return {"index": index, "node_id": node, "reward": reward, **shown, **values}


def write_trial(folder: Path, children, observed, agent="claude", forks=None, events=PREFIX):
    (folder / "trajectory").mkdir(parents=True)
    (folder / "trajectory" / "acp_trajectory.jsonl").write_text("\n".join(map(json.dumps, events)))
    (folder / "result.json").write_text(json.dumps({"task_name": "hello", "agent": agent, "model": "m"}))
    scored = [c["reward"] for c in children if c["reward"] is not None]
    value = sum(scored) / len(scored) if scored else None
    fork = {"id": "f1", "parent_node": "p", "status": "completed", "value": value, "children": children}
    nodes = [{"id": "p", "step_id": "step-2-agent_message"}, {"id": "q", "step_id": "step-1-agent_message"}]
    tree = {"kind": "benchflow-branch-tree", "schema_version": 1, "nodes": nodes, "forks": [fork, *(forks or ())]}
    (folder / "tree.json").write_text(json.dumps(tree))
    for node, trajectory in observed.items():
        target = folder / "branches" / "f1" / "children" / node
        target.mkdir(parents=True)
        (target / "observation.json").write_text(json.dumps({"trajectory": trajectory}))
    return folder


def three_children(base: Path) -> Path:
    """A job of one trial whose fork has three scored children, one of them asked for something else."""
    children = [child(0, 1.0), child(1, 0.0), child(2, 0.5)]
    observed = {"n0": said("Good."), "n1": said("Bad."), "n2": said("Half.", "Make hello.txt. Hint: reuse.")}
    return write_trial(base / "job" / "hello__1", children, observed)


def validator(name):
    return jsonschema_rs.Draft202012Validator(schemas.document(name))


def rows(path):
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def convert(tmp_path, **values):
    out, pairs = tmp_path / "rows.jsonl", tmp_path / "pairs.jsonl"
    request = Request((tmp_path / "job",), out, pairs=pairs, **values)
    warnings = []
    counts = convert_branches(request, warnings.append)
    return rows(out), rows(pairs), counts, warnings
