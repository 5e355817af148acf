"""skyrl-tokens: SkyRL's pretokenised rows (0.4): `input_ids` as they were served and sampled, `loss_mask` 1 where the
policy sampled. No template takes part, so turns that are not trained on are masked token by token.

A row is a rollout's conversation when it is of training grade: every call has the ids of its prompt and of its answer
with a logprob each, and every prompt extends the prompt and answer before it. Redaction took the ids of what it
changed, so such a rollout has no row. With `--row-mode exchange` a row is one call, its answer alone trained on.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

import msgspec

from trace_flywheel.records.rollout import Exchange, Rollout
from trace_flywheel.trainers.layout import Candidate, Layout, Row, dropped_nulls
from trace_flywheel.trainers.schema import shape_faults

SUCCESS = 200


class Sampled(msgspec.Struct, frozen=True):
    """One call's tokens, and whether its answer is trained on."""

    index: int
    prompt: list[int]
    answer: list[int]
    taught: bool


class SkyrlTokens(Layout):
    NAME = "skyrl-tokens"
    VERSION = 1
    KINDS = ()
    CALLS = True
    LOSES = ("text: rows are token ids of the policy that was recorded", "logprobs")

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        about = {"task_id": rollout.task_id, "reward": rollout.reward, "exchange_index": candidate.exchange_index}
        calls = _calls(rollout, candidate)
        read = [_tokens(call, rollout) for call in calls]
        lost = next((told for told in read if isinstance(told, str)), None if read else "no call was recorded")
        sampled = [told for told in read if isinstance(told, Sampled)]
        lost = lost or next(_breaks(sampled), None)
        if lost is not None:
            return {"input_ids": [], "loss_mask": [], "untrainable": lost}
        last = sampled[-1]
        mask = [0] * (len(last.prompt) + len(last.answer))
        for one in sampled:
            start = len(one.prompt)
            mask[start : start + len(one.answer)] = [int(one.taught)] * len(one.answer)
        return dropped_nulls({"input_ids": [*last.prompt, *last.answer], "loss_mask": mask, **about})

    def validate(self, row: Any) -> Iterator[str]:
        if isinstance(row, dict) and "untrainable" in row:
            yield f"not of training grade: {row['untrainable']}"
            return
        shape = list(shape_faults("skyrl-tokens-row.v1", row))
        yield from shape
        if shape:
            return
        if len(row["input_ids"]) != len(row["loss_mask"]):
            yield f"loss_mask: {len(row['loss_mask'])} values for {len(row['input_ids'])} tokens"
        elif 1 not in row["loss_mask"]:
            yield "loss_mask: no token to train on"


def _calls(rollout: Rollout, candidate: Candidate) -> list[Exchange]:
    """The candidate's own call, and those of its conversation before it where it stands for all of them."""
    own = next((call for call in rollout.exchanges if call.index == candidate.exchange_index), None)
    if own is None or not candidate.thread_end:
        return [own] if own is not None else []
    before = [c for c in rollout.exchanges if c.thread == own.thread and c.status in (None, SUCCESS)]
    return [call for call in before if call.index <= own.index and call.purpose == own.purpose]


def _tokens(call: Exchange, rollout: Rollout) -> Sampled | str:
    """The call's tokens, or what they lack."""
    captured = call.token_capture or {}
    completions = captured.get("completions")
    first = completions[0] if isinstance(completions, list) and completions else {}
    prompt, answer = captured.get("prompt_token_ids"), first.get("token_ids")
    if not _ids(prompt):
        return f"call {call.index} has no token ids of its prompt"
    if not _ids(answer):
        return f"call {call.index} has no token ids of its answer"
    logprobs = first.get("logprobs")
    if not isinstance(logprobs, list) or len(logprobs) != len(answer):
        return f"call {call.index} has no logprob for each token of its answer"
    message = rollout.messages[call.context] if call.context is not None else call.messages[-1]
    return Sampled(call.index, prompt, answer, message.train_on is not False)


def _breaks(calls: Sequence[Sampled]) -> Iterator[str]:
    for before, after in pairwise(calls):
        known = [*before.prompt, *before.answer]
        if after.prompt[: len(known)] != known:
            yield f"the prompt of call {after.index} does not extend call {before.index}"


def _ids(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


LAYOUT = SkyrlTokens()
