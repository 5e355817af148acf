"""rl-prompts: the tasks alone, once each, with the name of what judges an answer. No model's answer is stored.

A task is known by its id and its judge, whose version is the digest of the task where the source records one: attempts
at it differ in what the machine made up for them (the host in a shell's prompt), and it is one task all the same.
"""

from collections.abc import Iterator
from typing import Any

from trace_flywheel.records.rows import PromptRow
from trace_flywheel.trainers.chat import chat_tools
from trace_flywheel.trainers.episode import Episode, EpisodeLayout, chat, task_turns
from trace_flywheel.trainers.layout import Row
from trace_flywheel.trainers.rules import part_faults
from trace_flywheel.trainers.schema import shape_faults


class RlPrompts(EpisodeLayout):
    NAME = "rl-prompts"
    VERSION = 1
    KINDS = ("rl", "prompt")
    DISTINCT = True
    LOSES = ("every answer", "rewards", "token ids and logprobs")

    def episode_row(self, episode: Episode) -> Row:
        version = f"@{episode.grader_version}" if episode.grader_version else ""
        return {
            "prompt": chat(episode.messages[: task_turns(episode.messages)]),
            "answer": None,
            "verifier": f"{episode.grader}{version}" if episode.grader else None,
            "task_id": episode.task_id,
            "tools": chat_tools(episode.tools),
        }

    def prompt_rows(self, row: PromptRow) -> Iterator[Row]:
        yield {
            "prompt": chat(row.prompt),
            "answer": row.answer,
            "verifier": row.verifier,
            "task_id": row.provenance.task_id,
            "tools": chat_tools(row.tools),
            "difficulty": row.difficulty,
        }

    def identity(self, row: Row) -> tuple[str, ...]:
        return (row["task_id"], row["verifier"] or "")

    def validate(self, row: Any) -> Iterator[str]:
        shape = list(shape_faults("rl-prompt-row.v1", row))
        yield from shape
        for i, message in enumerate(() if shape else row["prompt"]):
            yield from part_faults(message, f"prompt[{i}]")
            if message["role"] not in ("system", "user"):
                yield f"prompt[{i}]: a {message['role']} message; the prompt ends before the model's first turn"


LAYOUT = RlPrompts()
