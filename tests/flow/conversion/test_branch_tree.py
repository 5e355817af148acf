"""Branched trials to child rows and pairs, over trees that the tests write."""

import json

import pytest

from tests.flow.conversion.branch_trees import PREFIX, child, convert, said, three_children, write_trial
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.branch_tree import LAYOUT


@pytest.fixture
def trial(tmp_path):
    return three_children(tmp_path)


def test_children_share_the_prefix_up_to_the_fork(trial, tmp_path):
    children, _, counts, _ = convert(tmp_path)
    assert [row["child"]["node_id"] for row in children] == ["n0", "n1", "n2"]
    assert [row["advantage"] for row in children] == [0.5, -0.5, 0.0]
    for row in children:
        assert [m["role"] for m in row["prefix"]] == ["user", "assistant", "tool", "assistant"]
        assert row["messages"] == row["prefix"] + row["continuation"]
        assert row["tool_names"] == "inferred"
        assert row["tools"][0]["function"]["name"] == "Write"
        assert list(LAYOUT.validate(row)) == []
    assert (counts.trials, counts.forks, counts.child_rows) == (1, 1, 3)


def test_whole_rows_key_by_key(tmp_path):
    """Child and pair as the documents of BenchFlow's `branch-child-row.v2` and `branch-pair-row.v2` have them."""
    write_trial(
        tmp_path / "job" / "hello__1", [child(0, 1.0), child(1, 0.0)], {"n0": said("Good."), "n1": said("Bad.")}
    )
    children, pairs, _, _ = convert(tmp_path)
    call = {"name": "Write", "arguments": '{"file_path": "/d", "content": "x"}'}
    prefix = [
        {"role": "user", "content": "Make draft.txt."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": call}]},
        {"role": "tool", "tool_call_id": "c1", "content": "created"},
        {"role": "assistant", "content": "Made."},
    ]
    asked = {"role": "user", "content": "Make hello.txt."}
    good, bad = ({"role": "assistant", "content": text} for text in ("Good.", "Bad."))
    parameters = {"type": "object", "properties": {"content": {}, "file_path": {}}}
    inferred = "Inferred from the calls seen; the source recorded no declaration."
    declared = {"name": "Write", "description": inferred, "parameters": parameters}
    shared = {
        "schema_version": 2,
        "task": "hello",
        "trial": "hello__1",
        "agent": "claude",
        "model": "m",
        "fork_id": "f1",
        "parent_node": "p",
        "depth": 1,
        "session": "fresh",
        "prefix_complete": True,
        "tools": [{"type": "function", "function": declared}],
    }
    about = {"index": 0, "node_id": "n0", "label": "child 0", "requested": None, "status": "scored", "reward": 1.0}
    assert children[0] == {
        "kind": "branch_child",
        **shared,
        "fork_kind": "fork",
        "parent_child": None,
        "fork_status": "completed",
        "value": 0.5,
        "value_stderr": None,
        "siblings": 2,
        "child": {**about, "reward_source": None, "path": "branches/f1/children/n0"},
        "advantage": 0.5,
        "prefix_source": None,
        "prefix": prefix,
        "continuation": [asked, good],
        "messages": [*prefix, asked, good],
        "tool_names": "inferred",
    }
    assert (children[1]["advantage"], children[1]["continuation"]) == (-0.5, [asked, bad])
    assert pairs == [
        {
            "kind": "branch_pair",
            **shared,
            "same_request": True,
            "prompt": [*prefix, asked],
            "chosen": [good],
            "rejected": [bad],
            "chosen_reward": 1.0,
            "rejected_reward": 0.0,
            "chosen_label": "child 0",
            "rejected_label": "child 1",
            "margin": 1.0,
        }
    ]


def test_pairs_are_of_the_same_request(trial, tmp_path):
    _, pairs, counts, _ = convert(tmp_path)
    (pair,) = pairs
    assert pair["prompt"][-1] == {"role": "user", "content": "Make hello.txt."}
    assert [m["content"] for m in (*pair["chosen"], *pair["rejected"])] == ["Good.", "Bad."]
    assert (pair["chosen_reward"], pair["rejected_reward"], pair["margin"]) == (1.0, 0.0, 1.0)
    assert counts.pairs_skipped_different_request == 2
    assert list(LAYOUT.validate(pair)) == []


def test_or_of_any_request_with_the_users_turns_inside(trial, tmp_path):
    _, pairs, counts, _ = convert(tmp_path, any_request=True)
    assert [(p["chosen_label"], p["rejected_label"], p["same_request"]) for p in pairs] == [
        ("child 0", "child 1", True),
        ("child 0", "child 2", False),
        ("child 2", "child 1", False),
    ]
    assert pairs[1]["chosen"][0]["role"] == "user"
    assert counts.pair_rows == 3


def test_a_nested_fork_goes_on_from_its_child(tmp_path):
    inner = child(7, 1.0)
    forks = [{"id": "f2", "rollout": "n0", "parent_node": "q", "value": 0.5, "children": [inner]}]
    observed = {"n0": [*said("Good."), *said("More.")], "n1": said("Bad."), "n7": said("Deep.", "Deeper.")}
    write_trial(tmp_path / "job" / "hello__1", [child(0, 1.0), child(1, 0.0)], observed, forks=forks)
    nested = convert(tmp_path)[0][-1]
    assert (nested["depth"], nested["parent_child"], nested["fork_id"]) == (2, "n0", "f2")
    assert [m["content"] for m in nested["messages"]][-4:] == ["Make hello.txt.", "Good.", "Deeper.", "Deep."]


def test_a_secret_of_one_child_is_gone_from_all_and_prefixes_stay_equal(tmp_path):
    secret = "ghp_" + "d" * 36
    events = [{"type": "user_message", "text": f"Use {secret}."}, *PREFIX[1:]]
    observed = {"n0": said(f"I used {secret}."), "n1": said("Bad.")}
    write_trial(tmp_path / "job" / "hello__1", [child(0, 1.0, secret), child(1, 0.0)], observed, events=events)
    children, pairs, _, _ = convert(tmp_path)
    assert children[0]["prefix"] == children[1]["prefix"]
    assert children[0]["prefix"][0]["content"] == "Use [REDACTED:github_token:1]."
    assert children[0]["child"]["label"] == "[REDACTED:github_token:1]"
    assert secret not in json.dumps([children, pairs])


def test_what_is_left_out_is_counted(tmp_path):
    children = [child(0, 1.0), child(1, None), child(2, 0.0)]
    write_trial(tmp_path / "job" / "hello__1", children, {"n0": said("Good."), "n1": said("Open.")})
    found, _, counts, _ = convert(tmp_path, min_reward=0.5)
    assert [row["child"]["node_id"] for row in found] == ["n0"]
    assert (counts.unscored_children, counts.missing_observations, counts.below_min_reward) == (1, 1, 1)
    told = [(drop["child"], drop["reason"], drop["evidence"]) for drop in counts.drops]
    floor = {"reward": None, "min_reward": 0.5}
    assert told == [("n2", "missing_observation", {}), ("n1", "reward", floor)]
    assert {(drop["tree"], drop["fork_id"]) for drop in counts.drops} == {(f"{tmp_path}/job/hello__1/tree.json", "f1")}


def test_an_answer_that_never_came_is_named(tmp_path):
    write_trial(tmp_path / "job" / "hello__1", [child(0, 1.0)], {"n0": said("")[:1]})
    found, _, counts, _ = convert(tmp_path)
    assert found == []
    assert counts.drops[0]["evidence"]["faults"] == ["continuation: no assistant turn to train on"]


@pytest.mark.parametrize(("include", "expected"), [(False, []), (True, ["[oracle] solve.sh exited 0"])])
def test_the_oracles_children_only_when_asked_for(tmp_path, include, expected):
    acted = [{"type": "oracle", "command": "solve.sh", "return_code": 0}]
    write_trial(tmp_path / "job" / "hello__1", [child(0, 1.0)], {"n0": acted}, agent="oracle")
    found, _, counts, _ = convert(tmp_path, include_oracle=include)
    assert [drop["reason"] for drop in counts.drops] == ([] if include else ["oracle"])
    assert [row["continuation"][0]["content"] for row in found] == expected
    assert counts.skipped_oracle == (0 if include else 1)


class TestCheckpoints:
    def start(self, trial, source, events):
        document = {"trial": "hello__0", "fork_id": "k", "prefix_events": events, "trial_path": str(source)}
        (trial / "checkpoint_source.json").write_text(json.dumps(document))

    def test_a_trial_begins_with_the_events_it_was_started_from(self, trial, tmp_path):
        source = write_trial(tmp_path / "job" / "hello__0", [], {}, events=said("First.", "Begin."))
        self.start(trial, source, 2)
        row = convert(tmp_path)[0][0]
        assert [m["content"] for m in row["prefix"]][:2] == ["Begin.", "First."]
        assert row["prefix_source"] == {"trial": "hello__0", "checkpoint": "k", "events": 2}
        assert row["prefix_complete"]

    def test_but_no_file_outside_is_opened_for_it(self, trial, tmp_path):
        source = write_trial(tmp_path / "elsewhere" / "hello__0", [], {}, events=said("First.", "Begin."))
        self.start(trial, source, 2)
        row = convert(tmp_path)[0][0]
        assert row["prefix"][0]["content"] == "Make draft.txt."
        assert row["prefix_complete"] is False

    def test_nor_an_observation(self, tmp_path):
        outside = child(0, 1.0, artifacts={"path": "../../../elsewhere"})
        write_trial(tmp_path / "job" / "hello__1", [outside], {})
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "observation.json").write_text(json.dumps({"trajectory": said("Stolen.")}))
        found, _, counts, _ = convert(tmp_path)
        assert (found, counts.missing_observations) == ([], 1)


class TestFailures:
    def test_a_broken_tree_is_told_and_the_rest_converted(self, trial, tmp_path):
        (tmp_path / "job" / "other").mkdir()
        (tmp_path / "job" / "other" / "tree.json").write_text("{")
        found, _, counts, warnings = convert(tmp_path)
        assert len(found) == 3
        assert [drop["reason"] for drop in counts.drops if "tree" in drop and "pair" not in drop] == ["bad_json"]
        assert "other/tree.json: bad_json" in warnings[0]
        with pytest.raises(FlywheelError, match=r"other/tree\.json"):
            convert(tmp_path, strict=True)

    @pytest.mark.parametrize(("at", "line"), [(1, 2), (4, 5)])
    def test_forks_are_counted_in_events_so_none_may_be_damaged(self, trial, tmp_path, at, line):
        events = trial / "trajectory" / "acp_trajectory.jsonl"
        lines = [*map(json.dumps, PREFIX), ""]
        lines[at] = '{"type": "agent'
        events.write_text("\n".join(lines))
        found, _, counts, (warning,) = convert(tmp_path)
        assert found == []
        assert (counts.drops[0]["reason"], counts.drops[0]["evidence"]["line"]) == ("bad_json", line)
        assert f"tree.json: bad_json (acp_trajectory.jsonl:{line}: " in warning

    def test_damaged_events_of_its_checkpoint_leave_the_prefix_incomplete(self, trial, tmp_path):
        source = write_trial(tmp_path / "job" / "hello__0", [], {}, events=said("First.", "Begin."))
        (source / "tree.json").unlink()
        TestCheckpoints().start(trial, source, 1)
        events = source / "trajectory" / "acp_trajectory.jsonl"
        assert convert(tmp_path)[0][0]["prefix_complete"] is True
        events.write_text("{\n" + events.read_text())
        row = convert(tmp_path)[0][0]
        assert (row["prefix"][0]["content"], row["prefix_complete"]) == ("Make draft.txt.", False)

    def test_no_tree_is_an_error(self, tmp_path):
        (tmp_path / "job").mkdir()
        with pytest.raises(FlywheelError, match=r"no tree\.json found"):
            convert(tmp_path)

    def test_another_number_of_rows_writes_nothing(self, trial, tmp_path):
        with pytest.raises(FlywheelError, match="row count 3 != expected 4"):
            convert(tmp_path, expected_rows=4)
        assert not (tmp_path / "rows.jsonl").exists()
        assert not (tmp_path / "pairs.jsonl").exists()

    def test_golden_tasks_are_held_out(self, trial, tmp_path):
        goldens = tmp_path / "goldens.jsonl"
        goldens.write_text(json.dumps({"task_id": "hello", "prompt": "Make hello.txt."}) + "\n")
        found, _, counts, _ = convert(tmp_path, goldens=(goldens,))
        assert found == []
        assert {drop["reason"] for drop in counts.drops} == {"golden_id"}
