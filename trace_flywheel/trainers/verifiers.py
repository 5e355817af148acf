"""verifiers: scored rollouts as the verifiers library saves them, with the tools' own calls and the reward as it was.

BenchFlow's file of this name writes calls as text, clamps rewards and scores an unscored rollout 0.0; here calls are
calls, a reward is raw and a rollout without one is refused. A prompt without an answer is a row of an environment's
dataset: `prompt`, `answer` and `info`, what its rubric reads.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.rows import PromptRow
from trace_flywheel.trainers.chat import chat_tools
from trace_flywheel.trainers.episode import Episode, EpisodeLayout, chat, numbers, task_turns
from trace_flywheel.trainers.layout import Row
from trace_flywheel.trainers.rules import conversation_faults, part_faults
from trace_flywheel.trainers.schema import shape_faults


class Verifiers(EpisodeLayout):
    NAME = "verifiers"
    VERSION = 1
    KINDS = ("rl", "prompt")
    LOSES = ("reasoning", "token ids and logprobs", "masks")

    def episode_row(self, episode: Episode) -> Row:
        split = task_turns(episode.messages)
        messages = chat(episode.messages)
        return {
            "example_id": int(content_id(episode.task_id, 8), 16),
            "prompt": messages[:split],
            "completion": messages[split:],
            "reward": episode.reward,
            "metrics": numbers(episode.token_usage or {}),
            "is_completed": not episode.is_truncated,
            "is_truncated": episode.is_truncated,
            "info": {
                "task_id": episode.task_id,
                "rollout": episode.id,
                "agent": episode.agent,
                "model": episode.model,
                "grader": episode.grader,
                "error": episode.error,
                "tools": chat_tools(episode.tools),
                **episode.extra,
            },
        }

    def prompt_rows(self, row: PromptRow) -> Iterator[Row]:
        task = row.provenance.task_id
        info = {"task_id": task, "verifier": row.verifier, **row.difficulty, "tools": chat_tools(row.tools)}
        yield {
            "example_id": int(content_id(task, 8), 16),
            "prompt": chat(row.prompt),
            "answer": row.answer or "",
            "info": info,
        }

    def validate(self, row: Any) -> Iterator[str]:
        if isinstance(row, dict) and "completion" not in row and "answer" in row:
            shape = list(shape_faults("verifiers-prompt-row.v1", row))
            yield from shape
            for i, message in enumerate(() if shape else row["prompt"]):
                yield from part_faults(message, f"prompt[{i}]")
            return
        shape = list(shape_faults("verifiers-row.v1", row))
        yield from shape
        if not shape:
            tools = row["info"].get("tools") or ()
            yield from conversation_faults(row["prompt"] + row["completion"], tools, "prompt + completion")
            if not any(message["role"] == "assistant" for message in row["completion"]):
                yield "completion: no assistant turn"


LAYOUT = Verifiers()
