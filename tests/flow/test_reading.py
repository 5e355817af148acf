"""What a dataset reads of a rollout is all that its rows are made of."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trace_flywheel.flow.dataset_rows import GROUP, kto_row, pairs_among, prompt_row, rl_row, sft_row
from trace_flywheel.flow.reading import FIELDS, Reading, read
from trace_flywheel.lake.parts import RolloutParts, read_rollouts
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Correction, Exchange, Rollout, RolloutError, Source

CHAT = tuple(
    Message(role, text) for role, text in (("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b"))
)
BASE = Rollout(
    "r/run",
    "t",
    "task",
    Source("eval_run", "runs/r/results.json", "0" * 64),
    CHAT,
    suite="s",
    verdict="pass",
    reward=1.0,
    grader="g",
    grader_version="1",
    policy_version="v1",
    metadata={"answer": "42"},
    redactions={"rule": 1},
)
FAILED = msgspec.structs.replace(BASE, verdict="fail", reward=0.0, redactions=None)
ROLLOUTS = {
    "plain": BASE,
    "corrected": msgspec.structs.replace(BASE, correction=Correction("better", "someone")),
    "judged by step": msgspec.structs.replace(BASE, step_verdicts=("pass", "fail"), verdict="fail"),
}
PAIR = {
    "chosen": 0,
    "rejected": 1,
    "prefix": 1,
    "delta": 1.0,
    "delta_source": "reward",
    "rejected_is_min": True,
    "group_size": 2,
    "sigma": 0.5,
    "group_id": "g",
}
OTHER: dict[str, Any] = {
    "exchanges": (Exchange(0, context=1),),
    "sampling": {"temperature": 1},
    "rewards": {"x": 2.0},
    "reward_range": (0.0, 9.0),
    "reward_vector": {"y": 1},
    "scoring": {"by": "z"},
    "error": RolloutError("timeout", "late"),
    "token_usage": {"n": 1},
    "judge_score": 0.25,
    "is_truncated": True,
    "never_called": True,
    "retried": True,
    "tokens_removed": True,
}


def every_row(rollout: Rollout) -> Iterator[Any]:
    yield sft_row(rollout, "mask")
    yield kto_row(rollout)
    yield rl_row(dict.fromkeys(GROUP, 1), rollout)
    yield prompt_row({"n": 2, "passes": 1}, rollout)
    yield list(pairs_among([(0, rollout), (1, FAILED)], [PAIR]))


def with_all_else(rollout: Rollout) -> Rollout:
    """The rollout with a value in every field that is not read."""
    names = [field.name for field in msgspec.structs.fields(Rollout)]
    rest = {name for name in names if name not in FIELDS and name != "source"}
    return msgspec.structs.replace(rollout, **{name: OTHER.get(name, f"some {name}") for name in rest})


@pytest.mark.parametrize("name", ROLLOUTS)
def test_rows_are_those_of_whole_rollouts(tmp_path: Path, name: str) -> None:
    """Whatever a source says beside what is read: the rows from the part are those of the rollout itself."""
    whole = with_all_else(ROLLOUTS[name])
    parts = RolloutParts(tmp_path, "part")
    parts.add(whole)
    (part,) = parts.close()
    ((_, back),) = read_rollouts(tmp_path / part.name)
    assert back == whole, "the part holds all of it"
    ((row, some),) = read(Reading("r/run", tmp_path / part.name, {0: 7}, {}))
    assert row == 7
    assert some != whole
    assert list(every_row(some)) == list(every_row(whole))


def test_fields_are_those_of_a_rollout() -> None:
    assert set(Rollout.__struct_fields__) >= FIELDS
