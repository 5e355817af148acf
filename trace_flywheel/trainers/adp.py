"""adp: one trajectory of the Agent Data Protocol (1.3.1) a line: observations and actions in turn, the reward on the
last action. A text beside calls is an action of its own before them; arguments are the calls' keyword arguments.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.trainers.episode import Episode, EpisodeLayout, arguments_of, plain, results_of
from trace_flywheel.trainers.layout import Row, dropped_nulls
from trace_flywheel.trainers.schema import shape_faults


class Adp(EpisodeLayout):
    NAME = "adp"
    VERSION = 1
    LOSES = ("tool declarations", "token ids and logprobs", "masks", "which calls were made in one turn")

    def episode_row(self, episode: Episode) -> Row:
        content = list(_content(episode))
        actions = [item for item in content if item["class_"] != "text_observation"]
        if actions and episode.reward is not None:
            actions[-1]["reward"] = episode.reward
        about = {"task_id": episode.task_id, "agent": episode.agent, "model": episode.model, **episode.extra}
        return {"schema_version": "1.3.1", "id": episode.id, "content": content, "details": dropped_nulls(about)}

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("adp-row.v1", row))
        yield from shape
        if shape:
            return
        content = row["content"]
        if not any(item["class_"] != "text_observation" for item in content):
            yield "content: the agent never acts"
        answered = {item.get("tool_call_id") for item in content if item["class_"] == "text_observation"}
        calls = [i for i, item in enumerate(content) if item["class_"] == "api_action"]
        yield from (
            f"content[{i}]: the call has no result"
            for i in calls
            # open calls are legal only where nothing but other calls follows them
            if content[i]["tool_call_id"] not in answered and len(content) - i > sum(call >= i for call in calls)
        )


def _content(episode: Episode) -> Iterator[Row]:
    results = results_of(episode.messages)
    for position, message in enumerate(episode.messages):
        if message.role in ("system", "user"):
            source = "user" if message.role == "user" else "environment"
            yield {"class_": "text_observation", "content": plain(message), "source": source}
        if message.role != "assistant":
            continue
        text, thought = plain(message), message.reasoning or None
        if text or not message.tool_calls:
            yield dropped_nulls({"class_": "message_action", "content": text, "reasoning_content": thought})
            thought = None
        for call in message.tool_calls:
            action = {"class_": "api_action", "function": call.name, "kwargs": arguments_of(call.arguments)}
            yield dropped_nulls({**action, "tool_call_id": call.id, "reasoning_content": thought})
            thought = None
            result = results.get(position, {}).get(call.id)
            if result is not None:
                seen = {"class_": "text_observation", "content": plain(result), "source": "environment"}
                yield {**seen, "tool_call_id": call.id}


LAYOUT = Adp()
