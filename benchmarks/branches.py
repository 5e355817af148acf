"""Branched BenchFlow trials: one fork of four children each, told by ACP events."""

import json
from pathlib import Path

CHILDREN = 4
STEPS = 15


def write(folder: Path, trials: int) -> None:
    """`trials` branched trials below a folder, about 35 KB of prefix and 100 KB of children each."""
    for number in range(trials):
        trial = folder / f"task{number}__1"
        (trial / "trajectory").mkdir(parents=True)
        events = list(_events(number))
        (trial / "trajectory" / "acp_trajectory.jsonl").write_text("\n".join(map(json.dumps, events)))
        (trial / "result.json").write_text(json.dumps({"task_name": f"task{number}", "agent": "claude", "model": "m"}))
        children = [_child(trial, node, events, number) for node in range(CHILDREN)]
        fork = {"id": "f1", "parent_node": "p", "status": "completed", "value": 0.5, "children": children}
        nodes = [{"id": "p", "step_id": "step-20-agent_message"}]
        tree = {"kind": "benchflow-branch-tree", "schema_version": 1, "nodes": nodes, "forks": [fork]}
        (trial / "tree.json").write_text(json.dumps(tree))


def _events(number: int) -> list[dict[str, object]]:
    events: list[dict[str, object]] = [{"type": "user_message", "text": f"Task {number}: " + "do this thing " * 50}]
    for step in range(STEPS):
        output = f"line {number} {step} " + "output of the command " * 80
        about = {"kind": "execute", "raw_input": {"command": f"ls {step}"}, "raw_output": output}
        events.append({"type": "tool_call", "tool_call_id": f"c{step}", **about})
        events.append({"type": "agent_message", "text": f"Step {step}. " + "I looked " * 20})
    return events


def _child(trial: Path, index: int, events: list[dict[str, object]], number: int) -> dict[str, object]:
    path = f"branches/f1/children/n{index}"
    (trial / path).mkdir(parents=True)
    said = [{"type": "user_message", "text": "Go on."}, *events[1:12]]
    said.append({"type": "agent_message", "text": f"Answer {number} {index}"})
    (trial / path / "observation.json").write_text(json.dumps({"trajectory": said}))
    about = {"artifacts": {"path": path}, "intervention": {"label": f"c{index}", "requested": None}}
    return {"index": index, "node_id": f"n{index}", "reward": index / 3, "status": "scored", **about}
