"""openenv-episodes: episodes as OpenEnv's harness (0.10) collects them, a folder with `results.jsonl` and
`metadata.json`. Each call stands in `tool_trace` with its result; an unscored rollout is refused.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.trainers.chat import chat_tools
from trace_flywheel.trainers.episode import Episode, EpisodeLayout, arguments_of, chat, numbers, plain, results_of
from trace_flywheel.trainers.layout import Row
from trace_flywheel.trainers.rules import conversation_faults
from trace_flywheel.trainers.schema import shape_faults


class OpenenvEpisodes(EpisodeLayout):
    NAME = "openenv-episodes"
    VERSION = 1
    CONTAINER = "folder"
    LOSES = ("reasoning", "token ids and logprobs", "masks")

    def episode_row(self, episode: Episode) -> Row:
        return {
            "episode_id": episode.id,
            "messages": chat(episode.messages),
            "reward": episode.reward,
            "done": not episode.is_truncated,
            "tool_trace": list(_trace(episode)),
            "metrics": numbers(episode.token_usage or {}),
            "verify_metrics": {},
            "artifacts": {},
            "task": {"task_id": episode.task_id, "tools": chat_tools(episode.tools)},
            "extra": {
                "agent": episode.agent,
                "model": episode.model,
                "grader": episode.grader,
                "error": episode.error,
                **episode.extra,
            },
        }

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("openenv-episode-row.v1", row))
        yield from shape
        if not shape:
            yield from conversation_faults(row["messages"], row["task"].get("tools") or ())


def _trace(episode: Episode) -> Iterator[Row]:
    results = results_of(episode.messages)
    for position, message in enumerate(episode.messages):
        for call in message.tool_calls:
            result = results.get(position, {}).get(call.id)
            failed = result is not None and bool(result.is_error)
            yield {
                "tool_name": call.name,
                "arguments": arguments_of(call.arguments),
                "result": {
                    "data": plain(result) if result is not None else None,
                    "done": False,
                    "metadata": {},
                    "error": plain(result) if result is not None and failed else None,
                },
            }


LAYOUT = OpenenvEpisodes()
