"""atif: one ATIF-v1.7 trajectory a line. Results stand with the step whose calls they answer; arguments are objects.

BenchFlow's file of this name tells the task twice and leaves arguments empty; here a step is what was said, once.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.records.message import Message
from trace_flywheel.trainers.episode import Episode, EpisodeLayout, arguments_of, plain, results_of
from trace_flywheel.trainers.layout import Row, dropped_nulls
from trace_flywheel.trainers.schema import shape_faults

METRICS = {
    "n_input_tokens": "total_prompt_tokens",
    "n_output_tokens": "total_completion_tokens",
    "n_cache_read_tokens": "total_cached_tokens",
    "cost_usd": "total_cost_usd",
}


class Atif(EpisodeLayout):
    NAME = "atif"
    VERSION = 1
    LOSES = ("tool declarations", "token ids and logprobs", "masks")

    def episode_row(self, episode: Episode) -> Row:
        steps = list(_steps(episode))
        usage = episode.token_usage or {}
        used = {ours: usage[theirs] for theirs, ours in METRICS.items() if usage.get(theirs) is not None}
        return {
            "schema_version": "ATIF-v1.7",
            "session_id": episode.id,
            "agent": dropped_nulls(
                {"name": episode.agent or "unknown", "version": "unknown", "model_name": episode.model}
            ),
            "steps": steps,
            "final_metrics": {"total_steps": len(steps), **used},
            "extra": dropped_nulls({"task_id": episode.task_id, "reward": episode.reward, **episode.extra}),
        }

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("atif-row.v1", row))
        yield from shape
        if shape:
            return
        for i, step in enumerate(row["steps"]):
            if step["step_id"] != i + 1:
                yield f"steps[{i}]: step_id is {step['step_id']}, not {i + 1}"
            asked = {call["tool_call_id"] for call in step.get("tool_calls") or ()}
            for result in (step.get("observation") or {}).get("results", ()):
                if result["source_call_id"] not in asked:
                    yield f"steps[{i}]: a result answers no call of its step"
            answered = {result["source_call_id"] for result in (step.get("observation") or {}).get("results", ())}
            # an open call is legal only where nothing can follow it
            if not asked <= answered and (answered or i + 1 < len(row["steps"])):
                yield f"steps[{i}]: a call has no result"
        if not any(step["source"] == "agent" for step in row["steps"]):
            yield "steps: the agent never acts"


def _steps(episode: Episode) -> Iterator[Row]:
    results = results_of(episode.messages)
    number = 0
    for position, message in enumerate(episode.messages):
        if message.role == "tool":
            continue
        number += 1
        source = "agent" if message.role == "assistant" else message.role
        step: Row = {"step_id": number, "source": source, "message": plain(message)}
        if message.role == "assistant":
            step |= _acted(message, results.get(position, {}))
        yield step


def _acted(message: Message, results: dict[str, Message]) -> Row:
    acted: Row = {"reasoning_content": message.reasoning or None}
    if message.tool_calls:
        acted["tool_calls"] = [
            {"tool_call_id": c.id, "function_name": c.name, "arguments": arguments_of(c.arguments)}
            for c in message.tool_calls
        ]
        answered = [c for c in message.tool_calls if c.id in results]
        if answered:
            told = [{"source_call_id": c.id, "content": plain(results[c.id])} for c in answered]
            acted["observation"] = {"results": told}
    return dropped_nulls(acted)


LAYOUT = Atif()
