"""Which of the pairs are kept, what every candidate and member is told, and that order does not matter."""

import json
import tracemalloc
import weakref

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curation.index_frames import everyone, fates, index_frame
from tests.curation.pair_frames import build, group, pairs_of
from trace_flywheel.curation import compiled, preference
from trace_flywheel.curation.preference import build_pairs
from trace_flywheel.curation.ragged import Ragged
from trace_flywheel.settings import Pairs


def test_one_pair_per_task_the_widest():
    rows = [
        *group([0.8, 0.7], [0.3, 0.2], prefix="a", context_hash="a"),
        *group([0.9, 0.7], [0.3, 0.1], prefix="b", context_hash="b"),
    ]
    frame, answer = build(*rows)
    assert (pairs_of(frame, answer), answer.built) == ([("bp0", "bf1")], 8)
    assert set(fates(frame, answer.drops).values()) == {"pairs/not_selected_for_pair"}
    frame, answer = build(*rows, pairs=Pairs(per_task=2))
    assert pairs_of(frame, answer) == [("bp0", "bf1"), ("ap0", "af1")]


def test_more_pairs_of_a_task_share_no_member():
    frame, answer = build(*group([0.9, 0.8], [0.1, 0.2]), pairs=Pairs(per_task=3))
    assert pairs_of(frame, answer) == [("p0", "f0"), ("p1", "f1")]
    assert answer.drops.empty


def test_the_top_by_delta_goes_round_the_tasks():
    rows = [
        *group([0.99, 0.98, 0.5], [0.0, 0.01], prefix="a", task_id="a"),
        *group([0.8, 0.7], [0.2, 0.3], prefix="b", task_id="b"),
        *group([0.6, 0.5], [0.3, 0.35], prefix="c", task_id="c"),
    ]
    frame, answer = build(*rows, pairs=Pairs(per_task=2, keep=2))
    assert pairs_of(frame, answer) == [("ap0", "af0"), ("bp0", "bf0")]
    dropped = fates(frame, answer.drops)
    assert {dropped[t] for t in ("ap1", "af1", "cp0", "cf0")} == {"pairs/below_delta"}
    assert dropped["ap2"] == "pairs/not_selected_for_pair"
    below = answer.drops[answer.drops["reason"] == "below_delta"]["evidence"].map(orjson.loads)
    assert {(e["rank"], e["keep"]) for e in below} == {(3, 2), (4, 2), (5, 2), (6, 2)}


def test_deltas_on_any_scale_stand_in_one_ranking():
    """9 of 100 points is less than 0.3 of 1, and a judge's 0.4 of the 0.5 that it ever spans is more than both."""
    rows = [
        *group([59.0, 58.0], [50.0, 51.0], prefix="a", task_id="a", grader="points", reward_low=0, reward_high=100),
        *group([0.6, 0.6], [0.3, 0.35], prefix="b", task_id="b", reward_low=0, reward_high=1),
        *group([0.2, 0.2], [0.1, 0.1], prefix="c", task_id="c", judge="j", grader="other"),
    ]
    for row in rows:
        if row["task_id"] == "c":
            row["judge_score"] = 0.9 if row["verdict"] == "pass" else 0.5
    rows.append({"trace_id": "z", "task_id": "z", "judge": "j", "judge_score": 0.4})
    frame, answer = build(*rows, pairs=Pairs(keep=2))
    told = answer.table[["task_id", "delta", "delta_source", "strength"]].to_dict("records")
    assert [(r["task_id"], r["delta_source"], round(r["delta"], 6), r["strength"]) for r in told] == [
        ("b", "reward", 0.3, 0.3),
        ("c", "judge", 0.4, 0.8),
    ]
    assert fates(frame, answer.drops)["ap0"] == "pairs/below_delta"


def test_a_grader_without_a_scale_spans_what_it_ever_gave():
    rows = [
        *group([9.0, 8.0], [7.0, 7.5], prefix="a", task_id="a"),
        *group([3.0, 3.0], [0.0, 1.0], prefix="b", task_id="b"),
    ]
    _, answer = build(*rows)
    assert answer.table["strength"].tolist() == [round(2 / 9, 12), round(3 / 9, 12)]


def told_of(frame, answer):
    names = frame["trace_id"].tolist()
    rows = zip(answer.drops["row"], answer.drops["evidence"], strict=True)
    return {names[row]: json.loads(evidence) for row, evidence in rows}


def test_every_candidate_is_told_of_its_members():
    """Two passes and three failures: p0 > f0 is kept, p1 > f1 is a pair too many; f2 scored above both passes."""
    frame, answer = build(*group([0.8, 0.7], [0.1, 0.2, 0.75]))
    assert pairs_of(frame, answer) == [("p0", "f0")]
    assert answer.candidates == {
        "paired": 2,  # p0 > f0 and p1 > f1
        "member_used": 3,  # p0 > f1, p0 > f2, p1 > f0
        "non_positive_delta": 1,  # p1 > f2
        "identical_responses": 0,
        "user_divergence": 0,
    }
    assert answer.built == 5
    told = told_of(frame, answer)
    assert told["p1"] == {
        "group_id": "task=task|context=context|grader=exact_match|version=null",
        "per_task": 1,
        "candidates": {"paired": 1, "member_used": 1, "non_positive_delta": 1},
    }
    assert told["f2"]["candidates"] == {"member_used": 1, "non_positive_delta": 1}


def test_a_pair_that_another_context_of_its_task_outdid_says_its_delta():
    rows = [
        *group([0.8, 0.7], [0.3, 0.2], prefix="a", context_hash="a"),
        *group([0.9, 0.7], [0.3, 0.1], prefix="b", context_hash="b"),
    ]
    told = told_of(*build(*rows))
    assert (told["ap0"]["delta"], told["ap0"]["per_task"]) == (pytest.approx(0.6), 1)
    assert told["ap0"]["candidates"] == {"paired": 1, "member_used": 1}
    assert "delta" not in told["ap1"]


def test_a_member_that_may_be_no_side_of_a_pair_says_so():
    rows = group([0.9, 0.8], [0.0, 0.3])
    rows[2] |= {"is_truncated": True}
    frame, answer = build(*rows)
    assert told_of(frame, answer)["f0"]["errored_or_truncated"] is True


def test_five_hundred_attempts_give_their_whole_candidate_set_and_little_memory():
    """250 passes and 250 failures: 62,500 candidates. A tenth of the answers repeat, a tenth part at a user turn."""
    rows = [
        *({"trace_id": f"p{i:03}", "reward": 0.6 + i / 1000, "says": f"q a u p{i % 225}"} for i in range(250)),
        *({"trace_id": f"f{i:03}", "verdict": "fail", "reward": i / 1000, "says": f"q a u f{i}"} for i in range(250)),
    ]
    for row in rows[:25]:
        row["says"] = f"q a v{row['trace_id']} x"
    for row in rows:
        row["roles"] = "uaua"
    options = Pairs(per_task=200, keep=150)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "PATIENCE", -1.0)
        build(*rows, pairs=options)  # compiled and imported
    tracemalloc.start()
    _, answer = build(*rows, pairs=options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(answer.candidates.values()) == 62_500
    assert answer.candidates["user_divergence"] == 25 * 250
    assert answer.built == 225 * 250
    assert answer.candidates["paired"] == 225
    assert len(answer.table) == 150
    assert len(answer.drops) == 500 - 300
    assert answer.table["delta"].is_monotonic_decreasing
    assert peak < 8_000_000


def test_an_empty_frame_gives_no_pairs():
    frame = index_frame({"trace_id": "t"})[:0]
    answer = build_pairs(frame, everyone(frame), everyone(frame), lambda _: (Ragged.of([]), Ragged.of([])), Pairs(), 42)
    assert (len(answer.table), len(answer.drops), answer.built) == (0, 0, 0)


member = st.fixed_dictionaries(
    {
        "task_id": st.sampled_from("ab"),
        "context_hash": st.sampled_from(["c", "c", "d"]),
        "grader": st.sampled_from(["g", "g", "h"]),
        "verdict": st.sampled_from(["pass", "fail"]),
        "reward": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        "judge_score": st.sampled_from([None, 0.1, 0.9]),
        "error_category": st.sampled_from([None, None, "timeout"]),
        "word": st.sampled_from(["x", "y", "X", "z", "x u1 z", "x u2 z", "x u1 y", "y u1"]),
    }
)


def offered(frame, answer):
    """Passes times failures of the groups that no reason of the whole group bars, unfit members apart."""
    whole = {"no_contrast", "prompt_mismatch", "group_too_small", "zero_spread", "mixed_graders"}
    barred = set(answer.drops["row"][answer.drops["reason"].isin(whole)].tolist())
    sound = frame[~frame.index.isin(barred) & frame["error_category"].isna()]
    groups = sound.groupby(["task_id", "context_hash", "grader"])["verdict"]
    return sum(int((v == "pass").sum()) * int((v == "fail").sum()) for _, v in groups)


@given(st.lists(member, min_size=1, max_size=16), st.randoms(use_true_random=False), st.sampled_from([1, 3, "all"]))
def test_every_member_has_one_fate_and_order_does_not_matter(members, random, keep):
    rows = [
        {
            **{k: v for k, v in m.items() if k != "word"},
            "trace_id": f"t{i:02}",
            "says": f"q {m['word']}",
            "roles": "uaua"[: 1 + len(m["word"].split())],
        }
        for i, m in enumerate(members)
    ]
    shuffled = list(rows)
    random.shuffle(shuffled)
    options = Pairs(keep=keep, per_task=2)
    frame, answer = build(*rows, pairs=options)
    other_frame, other = build(*shuffled, pairs=options)
    assert pairs_of(frame, answer) == pairs_of(other_frame, other)
    assert fates(frame, answer.drops) == fates(other_frame, other.drops)
    used = [t for pair in pairs_of(frame, answer) for t in pair]
    assert len(used) == len(set(used))
    assert sorted([*used, *fates(frame, answer.drops)]) == frame["trace_id"].tolist()
    assert answer.drops["row"].is_unique
    assert answer.candidates == other.candidates
    assert sum(answer.candidates.values()) == offered(frame, answer)
    for chosen, rejected in zip(answer.table["chosen"], answer.table["rejected"], strict=True):
        sides = frame.loc[[chosen, rejected]]
        assert sides["verdict"].tolist() == ["pass", "fail"]
        assert sides["reward"].iat[0] > sides["reward"].iat[1]
        assert (sides[["task_id", "context_hash", "grader"]].nunique() == 1).all()
    assert np.all(answer.table["delta"] > 0)


def test_messages_are_read_of_rows_that_are_compared_and_gone_when_drops_are_told(monkeypatch):
    frame = index_frame(
        *({"trace_id": f"{task}{n}", "task_id": task, "verdict": "fail" if n else "pass", "reward": 1.0 - n / 2,
           "roles": "ua"} for task in "ab" for n in range(2)),
        *({"trace_id": f"c{n}", "task_id": "c", "roles": "ua"} for n in range(3)),
    )  # fmt: skip
    asked, held = [], []

    def messages(mask):
        asked.append(frame["trace_id"][mask].tolist())
        said = Ragged.of([[1, n] for n in range(len(frame))]), Ragged.of([[1, n] for n in range(len(frame))])
        held.extend(map(weakref.ref, said))
        return said

    tell = preference.fates_of_pairs
    told = []
    monkeypatch.setattr(
        preference, "fates_of_pairs", lambda *given: told.append([ref() for ref in held]) or tell(*given)
    )
    answer = build_pairs(frame, everyone(frame), everyone(frame), messages, Pairs(min_group=2), 42)
    assert len(answer.table) == 2
    assert asked == [["a0", "a1", "b0", "b1"]], "task c has nobody to be worse"
    assert told == [[None, None]]
