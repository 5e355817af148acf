"""The same attempt counts once; a twin, a retry and a conflict are told from it."""

import numpy as np
import orjson

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.same_rollout import conflicting_ids, same_rollout


def address(frame, drops):
    return [(frame["run_id"].iat[r], frame["trace_id"].iat[r]) for r in drops["row"]]


def test_a_copy_in_another_run_goes_and_names_the_kept_one():
    frame = index_frame(
        {"run_id": "root/b", "trace_id": "t", "attempt_hash": "x"},
        {"run_id": "root/a", "trace_id": "t", "attempt_hash": "x"},
        {"run_id": "root/c", "trace_id": "other-name", "attempt_hash": "x"},
        {"run_id": "root/c", "trace_id": "u"},
    )
    drops = same_rollout(frame, everyone(frame))
    assert address(frame, drops) == [("root/b", "t"), ("root/c", "other-name")]
    assert set(drops["reason"]) == {"same_rollout"}
    assert orjson.loads(drops["evidence"].iat[0]) == {"kept_run_id": "root/a", "kept_trace_id": "t"}


def test_the_copy_whose_folder_is_not_its_run_goes_first():
    frame = index_frame(
        {"run_id": "root/copy", "trace_id": "t", "attempt_hash": "x", "source_run_id": "run-a"},
        {"run_id": "root/run-a", "trace_id": "t", "attempt_hash": "x", "source_run_id": "run-a"},
    )
    assert address(frame, same_rollout(frame, everyone(frame))) == [("root/copy", "t")]


def test_the_same_trace_twice_in_one_run_counts_once():
    frame = index_frame({"trace_id": "s"}, {"trace_id": "s"}, {"trace_id": "u"})
    assert fates(frame, same_rollout(frame, everyone(frame))) == {"s": "same_rollout/same_rollout"}


def test_twins_stay_two():
    frame = index_frame({"run_id": "root/a", "trace_id": "t"}, {"run_id": "root/b", "trace_id": "t"})
    assert same_rollout(frame, everyone(frame)).empty


def test_a_retried_attempt_goes_even_where_its_copy_stays():
    frame = index_frame({"trace_id": "a", "attempt_hash": "x", "retried": True}, {"trace_id": "b", "attempt_hash": "x"})
    assert fates(frame, same_rollout(frame, everyone(frame))) == {"a": "same_rollout/retried"}


def test_what_is_gone_already_is_no_copy():
    frame = index_frame({"trace_id": "a", "attempt_hash": "x"}, {"trace_id": "b", "attempt_hash": "x"})
    assert same_rollout(frame, np.array([False, True])).empty


def test_one_id_graded_twice_is_a_conflict():
    frame = index_frame({"trace_id": "k", "reward": 1.0}, {"trace_id": "k", "verdict": "fail", "reward": 0.0})
    assert len(conflicting_ids(frame)) == 2
    unscored = index_frame({"trace_id": "k", "reward": None}, {"trace_id": "k", "reward": None})
    assert conflicting_ids(unscored).empty


def test_one_id_with_two_contents_is_a_conflict_and_both_go():
    frame = index_frame(
        {"trace_id": "k", "content": "one"},
        {"trace_id": "k", "content": "two"},
        {"trace_id": "k", "content": "two", "run_id": "root/b"},
        {"trace_id": "s", "content": "same"},
        {"trace_id": "s", "content": "same"},
    )
    drops = conflicting_ids(frame)
    assert address(frame, drops) == [("root/run-a", "k")] * 2
    assert set(drops["stage"].astype(str) + "/" + drops["reason"].astype(str)) == {"read/conflicting_trace_id"}
    assert same_rollout(frame[:0], everyone(frame[:0])).empty
    assert conflicting_ids(frame[:0]).empty
