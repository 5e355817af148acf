"""What a conversation asks, teaches and shares with another, told in plain Python over the rows of `results.json`."""

import json
from typing import Any

Row = dict[str, Any]
Message = dict[str, Any]


def folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def calls(message: Message) -> list[tuple[str, str]]:
    """Names and arguments of the calls of a message, the arguments in one spelling."""
    found = [call["function"] for call in message.get("tool_calls", ())]
    return [(f["name"], json.dumps(json.loads(f["arguments"]), sort_keys=True, separators=(",", ":"))) for f in found]


class View:
    """The SFT row that a rollout would be: its messages, which assistant turns are learned, or why it is none."""

    def __init__(self, row: Row) -> None:
        self.messages: list[Message] = list(row["messages"])
        self.fault: str | None = None
        turns = [i for i, m in enumerate(self.messages) if m["role"] == "assistant"]
        self.learned = [True] * len(turns)
        if row.get("correction"):
            self._correct(row["correction"], turns)
        elif row.get("step_verdicts") is not None:
            if len(row["step_verdicts"]) != len(turns):
                self.fault = "quality/mask_mismatch"
            self.learned = [verdict == "pass" for verdict in row["step_verdicts"]]
        if self.fault is None and row.get("error") and not row.get("correction") and not row.get("step_verdicts"):
            self.fault = "quality/truncated"
        if self.fault is None and not any(self.learned):
            self.fault = "quality/nothing_to_train_on"

    def _correct(self, correction: Row, turns: list[int]) -> None:
        turn = correction.get("turn", len(turns) - 1)
        if not 0 <= turn < len(turns):
            self.fault = "quality/mask_mismatch"
            return
        at = turns[turn]
        made_calls = bool(calls(self.messages[at]))
        if made_calls and "turn" not in correction:
            self.fault = "quality/unpaired_calls"
        after = [] if made_calls else self.messages[at + 1 :]
        self.messages = [*self.messages[:at], {"role": "assistant", "content": correction["content"]}, *after]
        self.learned = [i == at for i, m in enumerate(self.messages) if m["role"] == "assistant"]

    @property
    def asked(self) -> str:
        return "\n".join(m["content"] for m in self.messages if m["role"] == "user")

    @property
    def taught(self) -> str:
        answers = [m for m in self.messages if m["role"] == "assistant"]
        said = [m for m, on in zip(answers, self.learned, strict=True) if on]
        pieces = [[m["content"], *(" ".join(call) for call in calls(m))] for m in said]
        return "\n".join(piece for of_turn in pieces for piece in of_turn if piece)

    @property
    def exact(self) -> tuple[Any, ...]:
        return (*(told(m, folded(m["content"])) for m in self.messages), *self.learned)


def told(message: Message, text: str) -> tuple[Any, ...]:
    return (message["role"], text, *calls(message))


def context(row: Row) -> tuple[Any, ...]:
    """The task and all that was said before the first answer."""
    said = row["messages"]
    first = next(i for i, m in enumerate(said) if m["role"] == "assistant")
    return (row["task_id"], *(told(m, m["content"]) for m in said[:first]))


def parted(chosen: Row, rejected: Row) -> str | None:
    """Why two attempts at one prompt are no preference; None where they are one."""
    for fold in (folded, str):
        sides = [[told(m, fold(m["content"])) for m in row["messages"]] for row in (chosen, rejected)]
        at = next((i for i, (a, b) in enumerate(zip(*sides, strict=False)) if a != b), min(map(len, sides)))
        if fold is folded and sides[0] == sides[1]:
            return "identical_responses"
        if any(len(side) <= at or side[at][0] != "assistant" for side in sides):
            return "user_divergence"
    return None
