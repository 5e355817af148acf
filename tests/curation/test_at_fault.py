"""The attempts that withhold a group are named, the first few of them."""

import numpy as np
import pandas as pd

from tests.curation.index_frames import everyone, index_frame
from trace_flywheel.curation.advantages import group_table
from trace_flywheel.curation.at_fault import group_evidence
from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.settings import Groups

BY_TASK = Groups(by=("task",))


def evidence(*rows, lost=()):
    frame = index_frame(*rows)
    identities = pd.DataFrame(
        [{n: getattr(d, n) for n in ("task_id", "agent", "model", "job")} for d in lost],
        columns=["task_id", "agent", "model", "job"],
        dtype=object,
    )
    groups = group_table(frame, everyone(frame), BY_TASK, identities)
    return list(group_evidence(frame, everyone(frame), groups, np.arange(len(frame)), lost, BY_TASK.by))


def test_unscored_attempts_are_named_and_counted():
    rows = [{"trace_id": f"t{i}", "reward": None if i else 1.0} for i in range(6)]
    named = [{"run_id": "root/run-a", "trace_id": f"t{i}"} for i in (1, 2, 3)]
    assert evidence(*rows)[0] == {"group_id": "task=task", "at_fault": named, "n_at_fault": 5}


def test_the_attempt_that_never_called_a_model_is_named():
    first, other = evidence({"trace_id": "a"}, {"trace_id": "b", "task_id": "other", "never_called": True})
    assert first == {"group_id": "task=task"}
    assert other["at_fault"] == [{"run_id": "root/run-a", "trace_id": "b"}]


def test_the_attempt_that_could_not_be_read_is_named_with_its_file():
    lost = (
        Drop(Stage.READ, "bad_json", run_id="r", trace_id="x", task_id="task", path="x/result.json"),
        Drop(Stage.READ, "bad_json", run_id="r", trace_id="y", task_id="other", path="y/result.json"),
    )
    (found,) = evidence({"trace_id": "a"}, lost=lost)
    assert found["at_fault"] == [{"run_id": "r", "trace_id": "x", "path": "x/result.json"}]
    assert found["n_at_fault"] == 1
