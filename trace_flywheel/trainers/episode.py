"""A rollout as the layouts of whole rollouts need it, whether it comes from a dataset or straight from a job."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from trace_flywheel.records.message import Message, Tool, has_only_text, text_of
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.records.rows import RlRow
from trace_flywheel.trainers.chat import NO_JSON, argument_object, chat_messages, without_mask
from trace_flywheel.trainers.layout import Candidate, Kind, Layout, Row


class Episode(msgspec.Struct, frozen=True):
    """`extra` is what only one of the two sources knows (advantage and group, or token usage)."""

    id: str
    task_id: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    reward: float | None = None
    agent: str | None = None
    model: str | None = None
    grader: str | None = None
    grader_version: str | None = None
    is_truncated: bool = False
    error: str | None = None
    token_usage: dict[str, Any] | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class EpisodeLayout(Layout):
    """A layout of whole rollouts: a subclass says how one episode is written."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("rl",)

    def episode_row(self, episode: Episode) -> Row:
        raise NotImplementedError

    def rl_rows(self, row: RlRow) -> Iterator[Row]:
        about = row.provenance
        yield self.episode_row(
            Episode(
                id=f"{about.run_id}/{about.trace_ids[0]}",
                task_id=about.task_id,
                messages=row.messages,
                tools=row.tools,
                reward=row.reward,
                grader=about.grader,
                grader_version=about.grader_version,
                extra={
                    "row_id": row.row_id,
                    "advantage": row.advantage,
                    "group": row.group,
                    "policy": row.policy,
                },
            )
        )

    def candidate_row(self, rollout: Rollout, candidate: Candidate, base: str) -> Row:
        call = f"#{candidate.exchange_index}" if candidate.purpose != "agent" else ""
        return self.episode_row(
            Episode(
                id=f"{rollout.run_id}/{rollout.trace_id}{call}",
                task_id=rollout.task_id,
                messages=candidate.messages,
                tools=candidate.tools,
                reward=rollout.reward,
                agent=rollout.agent,
                model=candidate.model or rollout.model,
                grader=rollout.grader,
                grader_version=rollout.grader_version,
                is_truncated=rollout.is_truncated,
                error=rollout.error.category if rollout.error is not None else None,
                token_usage=rollout.token_usage,
            )
        )


def chat(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages with arguments as objects and no masks."""
    return [without_mask(message) for message in chat_messages(messages, arguments="object")]


def task_turns(messages: Sequence[Message]) -> int:
    """How many messages stand before the first assistant turn."""
    return next((i for i, message in enumerate(messages) if message.role == "assistant"), len(messages))


def arguments_of(text: str) -> dict[str, Any]:
    """A call's arguments as an object; text that holds none is kept under a name of its own."""
    value = argument_object(text)
    return {NO_JSON: text} if value is None else value


def results_of(messages: Sequence[Message]) -> dict[int, dict[str, Message]]:
    """By the position of an assistant turn: the results of its calls, by call id."""
    found: dict[int, dict[str, Message]] = {}
    asked = -1
    for position, message in enumerate(messages):
        if message.role == "assistant":
            asked = position
        elif message.role == "tool" and message.tool_call_id is not None:
            found.setdefault(asked, {})[message.tool_call_id] = message
    return found


def plain(message: Message) -> Any:
    """The message's text. Parts that are no text stay parts, which a layout of texts refuses: nothing is cut."""
    return text_of(message.content) if has_only_text(message.content) else message.content


def numbers(values: dict[str, Any]) -> dict[str, float]:
    """The numeric values."""
    return {k: float(v) for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
