"""What the index says of one rollout: numbers, hashes and verdicts of the row it would become, and no text."""

import msgspec
import pytest

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.message_hashes import exact_hash
from trace_flywheel.curation.quality import quality
from trace_flywheel.flow.index import BATCH_ROLLOUTS, entries
from trace_flywheel.lake.index import INDEX_SCHEMA, index_table
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.index import IndexEntry
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rollout import Correction, Rollout, RolloutError, Source

NONE = Holdout((), 0.5)
ROLLOUT = Rollout(
    "root/run",
    "t1",
    "task",
    Source("eval_run", "results.json", "0" * 64),
    (
        Message("system", "You sort."),
        Message("user", "Sort these words for me, please."),
        Message("assistant", None, tool_calls=(ToolCall("c1", "sort", '{"words": ["b", "a"]}'),)),
        Message("tool", "a b", tool_call_id="c1"),
        Message("assistant", "They are a and b."),
    ),
    (Tool("sort"),),
    verdict="pass",
    reward=1.0,
    reward_range=(0.0, 1.0),
    grader="exact",
    error=RolloutError("timeout", by="agent"),
)


def of(rollout: Rollout, holdout: Holdout = NONE) -> IndexEntry:
    (found,) = entries([(7, rollout)], 3, holdout, "mask")
    return found


def test_scalars_are_those_of_the_rollout() -> None:
    found = of(ROLLOUT)
    assert (found.part, found.position, found.roles) == (3, 7, "suata")
    assert (found.verdict, found.reward, found.reward_low, found.reward_high) == ("pass", 1.0, 0.0, 1.0)
    assert (found.error_category, found.error_by) == ("timeout", "agent")
    assert (found.quality_reason, found.pair_quality_reason, found.golden_hits) == ("truncated", None, None)
    assert found.exact_hash == exact_hash(ROLLOUT.messages, ROLLOUT.tools)


def test_no_column_holds_text_of_the_conversation() -> None:
    columns = {k: v for k, v in msgspec.structs.asdict(of(ROLLOUT)).items() if "sketch" not in k}
    kept = msgspec.json.encode(columns, enc_hook=lambda array: array.tolist())
    assert b"Sort these" not in kept
    assert b"They are" not in kept


def test_the_row_view_holds_the_correction_and_the_pair_view_does_not() -> None:
    corrected = of(msgspec.structs.replace(ROLLOUT, correction=Correction("They are b and a.", "me")))
    plain = of(ROLLOUT)
    assert (corrected.has_correction, corrected.corrected_by) == (True, "me")
    assert corrected.exact_hash != plain.exact_hash
    assert list(corrected.supervised_shingles) != list(plain.supervised_shingles)
    assert corrected.message_hashes == plain.message_hashes
    assert corrected.content_hash == plain.content_hash


def test_a_mask_that_does_not_fit_is_a_fault_of_the_row_alone() -> None:
    found = of(msgspec.structs.replace(ROLLOUT, step_verdicts=("pass",)))
    assert (found.quality_reason, found.pair_quality_reason) == ("mask_mismatch", None)
    assert found.quality_evidence == '{"assistant_turns":2,"step_verdicts":1}'


def test_a_golden_in_a_correction_is_found() -> None:
    answer = "one two three four five six seven eight nine"
    holdout = Holdout((Golden("other", answer=answer),), 0.5)
    assert of(ROLLOUT, holdout).golden_hits is None
    hit = of(msgspec.structs.replace(ROLLOUT, correction=Correction(answer, "me")), holdout).golden_hits
    assert hit is not None
    assert '"golden":"other"' in hit


@pytest.mark.parametrize(("removed", "grade"), [(False, True), (True, False)])
def test_training_grade_needs_a_logprob_for_every_token(removed: bool, grade: bool) -> None:
    said = Message("assistant", "x", token_ids=(1, 2), logprobs=(-0.1, -0.2))
    sampled = msgspec.structs.replace(ROLLOUT, messages=(Message("user", "q"), said), tokens_removed=removed)
    assert of(sampled).training_grade is grade
    short = msgspec.structs.replace(said, logprobs=(-0.1,))
    assert of(msgspec.structs.replace(sampled, messages=(Message("user", "q"), short))).training_grade is False
    assert of(ROLLOUT).training_grade is False


def test_entries_are_columns_of_one_schema() -> None:
    table = index_table([of(ROLLOUT), of(ROLLOUT)])
    assert table.schema == INDEX_SCHEMA
    row = table.to_pylist()[0]
    kept = {name: list(v) if "shingles" in name else v for name, v in msgspec.structs.asdict(of(ROLLOUT)).items()}
    assert row == kept
    assert index_table([]).num_rows == 0


def test_rollouts_described_together_are_as_rollouts_alone() -> None:
    said = ["", "one two three four five six seven", "Grüße  an\nalle", "login root@8e12451dab8a", "x" * 600_000]
    rollouts = [
        msgspec.structs.replace(ROLLOUT, trace_id=f"t{i}", messages=(*ROLLOUT.messages, Message("user", text), answer))
        for i, text in enumerate(said * (BATCH_ROLLOUTS // 4))
        for answer in [Message("assistant", said[i % 3], train_on=None if i % 2 else False)]
    ]
    rollouts[3] = msgspec.structs.replace(rollouts[3], correction=Correction("They are b and a.", "me"))
    rollouts[7] = msgspec.structs.replace(rollouts[7], messages=())
    together = entries(enumerate(rollouts), 3, NONE, "mask")
    alone = [next(entries([(i, rollout)], 3, NONE, "mask")) for i, rollout in enumerate(rollouts)]
    assert index_table(list(together)).equals(index_table(alone))
    assert [e.trace_id for e in alone] == [r.trace_id for r in rollouts]
    assert list(entries([], 3, NONE, "mask")) == []


@pytest.mark.parametrize("content", ["The end.", "", "[REDACTED:email]", None])
@pytest.mark.parametrize("verdicts", [None, ("pass", "pass"), ("pass", "fail"), ("fail", "fail")])
@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_the_pair_view_is_judged_as_recorded(content: str | None, verdicts: tuple[str, ...] | None, first: int) -> None:
    messages = (*ROLLOUT.messages[first:-1], Message("assistant", content))
    for truncated in (False, True):
        rollout = msgspec.structs.replace(
            ROLLOUT, messages=messages, step_verdicts=verdicts, is_truncated=truncated, error=None
        )
        fault = quality(rollout)
        assert of(rollout).pair_quality_reason == (fault and fault.reason)
