"""What the compact index says about one redacted rollout: the one place where text becomes columns.

Everything that needs the text of a rollout for a global decision is worked out here, once per run: masks and quality,
content hashes, sketches and shingles, near-duplicate goldens.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import orjson

from trace_flywheel.curation.golden_text import spelt
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.masking import SupervisedRollout, supervised
from trace_flywheel.curation.message_hashes import Conversation, attempt_hash, fold_together, masks_of, roles
from trace_flywheel.curation.quality import quality
from trace_flywheel.curation.sketch import Spans, prompt_text, supervised_text
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.index import IndexEntry
from trace_flywheel.records.message import Message, text_of
from trace_flywheel.records.rollout import Rollout

BATCH_CHARS, BATCH_ROLLOUTS = 1 << 19, 64
"""Of rollouts that are described together."""


class _View(NamedTuple):
    """A rollout with the row that it would become."""

    position: int
    rollout: Rollout
    row: SupervisedRollout | Drop
    messages: tuple[Message, ...]
    """The row's; the recorded ones of a rollout that becomes none."""
    recorded: Conversation
    learned: str
    n_chars: int


def entries(
    rollouts: Iterable[tuple[int, Rollout]],
    part: int,
    holdout: Holdout,
    supervise_placeholders: Literal["mask", "keep"],
) -> Iterator[IndexEntry]:
    """The index entry of each rollout, which stands at its position of part `part` of its redacted partition.

    Texts of several rollouts are folded and sketched together: a call costs as much as a short text.
    """
    batch: list[_View] = []
    size = 0
    for position, rollout in rollouts:
        row = supervised(rollout, supervise_placeholders)
        messages = row.messages if isinstance(row, SupervisedRollout) else rollout.messages
        n_chars = sum(len(text_of(m.content)) for m in rollout.messages)
        recorded = Conversation(rollout.messages, rollout.tools)
        batch.append(_View(position, rollout, row, messages, recorded, supervised_text(messages), n_chars))
        size += n_chars
        if size >= BATCH_CHARS or len(batch) == BATCH_ROLLOUTS:
            yield from _described(batch, part, holdout)
            batch, size = [], 0
    yield from _described(batch, part, holdout)


def _described(batch: Sequence[_View], part: int, holdout: Holdout) -> Iterator[IndexEntry]:
    fold_together([view.recorded for view in batch])
    prompts = Spans.of_texts(prompt_text(view.messages) for view in batch)
    answers = Spans.of_texts(view.learned for view in batch)
    for i, view in enumerate(batch):
        yield _entry(view, part, holdout, prompts.of_row(i), answers.of_row(i))


def _entry(
    view: _View,
    part: int,
    holdout: Holdout,
    prompt: tuple[bytes, np.ndarray],
    answer: tuple[bytes, np.ndarray],
) -> IndexEntry:
    """`prompt`, `answer`: sketch and shingles of both texts."""
    position, rollout, row, messages, recorded, learned, n_chars = view
    fault = row if isinstance(row, Drop) else quality(row)
    # A row without a fault that says what was recorded leaves nothing to find there.
    pair_fault = quality(rollout) if fault or rollout.correction else None
    # Only a correction changes what the row says; masks are apart.
    learned_from = recorded if rollout.correction is None else Conversation(messages, rollout.tools)
    found = holdout.find(rollout.messages)
    if rollout.correction:
        found = found.joined(holdout.find(messages))
    low, high = rollout.reward_range or (None, None)
    return IndexEntry(
        run_id=rollout.run_id,
        trace_id=rollout.trace_id,
        task_id=rollout.task_id,
        part=part,
        position=position,
        suite=rollout.suite,
        task_digest=rollout.task_digest,
        agent=rollout.agent,
        model=rollout.model,
        policy_version=rollout.policy_version,
        job=rollout.job,
        source_format=rollout.source.format,
        source_path=rollout.source.path,
        source_sha256=rollout.source.sha256,
        source_run_id=rollout.source_run_id,
        started_at=rollout.started_at,
        finished_at=rollout.finished_at,
        attempt_hash=attempt_hash(rollout, recorded.content),
        content_hash=recorded.content,
        verdict=rollout.verdict,
        verdict_text=rollout.verdict_text,
        reward=rollout.reward,
        reward_text=rollout.reward_text,
        reward_low=low,
        reward_high=high,
        judge_score=rollout.judge_score,
        grader=rollout.grader,
        grader_version=rollout.grader_version,
        error_category=rollout.error.category if rollout.error else None,
        error_by=rollout.error.by if rollout.error else None,
        is_truncated=rollout.is_truncated,
        never_called=rollout.never_called,
        retried=rollout.retried,
        stop_reason=rollout.stop_reason,
        has_correction=rollout.correction is not None,
        corrected_by=rollout.correction.corrected_by if rollout.correction else None,
        has_step_verdicts=rollout.step_verdicts is not None,
        masked_steps=row.masked_steps if isinstance(row, SupervisedRollout) else 0,
        quality_reason=fault.reason if fault else None,
        quality_evidence=orjson.dumps(fault.evidence, option=orjson.OPT_SORT_KEYS).decode() if fault else None,
        pair_quality_reason=pair_fault.reason if pair_fault else None,
        context_hash=recorded.context,
        roles=roles(rollout.messages),
        message_hashes=recorded.hashes,
        message_norms=recorded.norms,
        n_supervised_chars=len(learned),
        n_chars=n_chars,
        exact_hash=learned_from.exact(masks_of(messages)),
        prompt_sketch=prompt[0],
        supervised_sketch=answer[0],
        prompt_shingles=prompt[1],
        supervised_shingles=answer[1],
        golden_hits=orjson.dumps(found.whole, option=orjson.OPT_SORT_KEYS).decode() if found.whole else None,
        golden_grams=spelt(found.grams),
        golden_asked=spelt(found.asked),
        redactions=sum((rollout.redactions or {}).values()),
        training_grade=_training_grade(rollout),
    )


def _training_grade(rollout: Rollout) -> bool:
    """Every sampled turn has its token ids with a log-probability each, and none were taken out."""
    turns = [m for m in rollout.messages if m.role == "assistant"]
    if rollout.tokens_removed or not turns:
        return False
    return all(
        bool(m.token_ids) and m.logprobs is not None and len(m.token_ids or ()) == len(m.logprobs) for m in turns
    )
