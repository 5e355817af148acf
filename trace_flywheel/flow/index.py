"""What the compact index says about one redacted rollout: the one place where text becomes columns.

Everything that needs the text of a rollout for a global decision is worked out here, once per run: masks and quality,
content hashes, sketches and shingles, near-duplicate goldens.
"""

from typing import Literal

import orjson

from trace_flywheel.curation.golden_text import spelt
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.curation.masking import SupervisedRollout, supervised
from trace_flywheel.curation.message_hashes import Conversation, attempt_hash, masks_of, roles
from trace_flywheel.curation.quality import quality
from trace_flywheel.curation.sketch import prompt_text, shingle_hashes, sketch, supervised_text
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.index import IndexEntry
from trace_flywheel.records.message import text_of
from trace_flywheel.records.rollout import Rollout


def entry(
    rollout: Rollout, part: int, position: int, holdout: Holdout, supervise_placeholders: Literal["mask", "keep"]
) -> IndexEntry:
    """The index entry of a rollout that stands at `position` of part `part` of its redacted partition."""
    row = supervised(rollout, supervise_placeholders)
    fault = row if isinstance(row, Drop) else quality(row)
    pair_fault = quality(rollout)
    messages = row.messages if isinstance(row, SupervisedRollout) else rollout.messages
    recorded = Conversation(rollout.messages, rollout.tools)
    # Only a correction changes what the row says; masks are apart.
    learned_from = recorded if rollout.correction is None else Conversation(messages, rollout.tools)
    prompt, learned = prompt_text(messages), supervised_text(messages)
    prompt_shingles, learned_shingles = shingle_hashes(prompt), shingle_hashes(learned)
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
        n_chars=sum(len(text_of(m.content)) for m in rollout.messages),
        exact_hash=learned_from.exact(masks_of(messages)),
        prompt_sketch=sketch(prompt_shingles).astype("<u4").tobytes(),
        supervised_sketch=sketch(learned_shingles).astype("<u4").tobytes(),
        prompt_shingles=prompt_shingles,
        supervised_shingles=learned_shingles,
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
