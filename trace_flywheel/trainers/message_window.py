"""The message window of trl-sft: rows cut to a number of tokens, as a tokenizer's own chat template counts them.

A row that fits stays whole. Else the leading system turns and the first user turn stay, and of the rest whole groups
(an answer with its tool results, or any other single message) are kept from the end for as long as they fit, so that no
call loses its result. Every rendering checks that the prompt's tokens are a prefix of the row's: a template that breaks
this would train on the wrong tokens.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.trainers.layout import Row

Messages = Sequence[dict[str, Any]]
Render = Callable[[Messages, bool], list[int]]
"""Token ids of messages; True adds what opens the model's answer."""


class Window(msgspec.Struct, frozen=True):
    """Where rows are cut. `tokenizer`: a folder or a model's name; `revision` of a name pins its files."""

    tokenizer: str
    max_length: int
    revision: str | None = None


class WindowError(ValueError):
    """A row that no window makes loadable."""


def windowed(row: Row, window: Window) -> Row:
    """The trl-sft row cut to the window, with `context_window` told. Raises `WindowError`."""
    tools = row.get("tools") or None
    template = _tokenizer(window.tokenizer, window.revision)

    def render(messages: Messages, opens: bool) -> list[int]:
        text = template.apply_chat_template(list(messages), tools=tools, tokenize=False, add_generation_prompt=opens)
        ids: list[int] = template(text, add_special_tokens=False)["input_ids"]
        return ids

    prompt, before, after = cut(row["prompt"], row["completion"], render, window.max_length)
    told = {
        "policy": "message-window",
        "original_messages": len(row["prompt"]) + 1,
        "retained_messages": len(prompt) + 1,
        "messages_dropped": len(row["prompt"]) - len(prompt),
        "original_tokens": before,
        "final_tokens": after,
        "max_length": window.max_length,
        "tokenizer": window.tokenizer,
        "tokenizer_revision": window.revision,
    }
    return {**row, "prompt": prompt, "context_window": told}


def cut(prompt: Messages, completion: Messages, render: Render, max_length: int) -> tuple[list[Any], int, int]:
    """The prompt that fits beside the completion, and the tokens of both before and after. Raises `WindowError`."""
    before = _tokens(prompt, completion, render)
    if before <= max_length:
        return list(prompt), before, before
    head = _required(prompt)
    groups = _groups(prompt[head:])
    best: tuple[list[Any], int] | None = None
    for first in range(len(groups), -1, -1):
        kept = [*prompt[:head], *(message for group in groups[first:] for message in group)]
        tokens = _tokens(kept, completion, render)
        if tokens > max_length:
            break
        best = kept, tokens
    if best is None:
        raise WindowError(f"the first turns and the answer alone are longer than {max_length} tokens")
    return best[0], before, best[1]


def _required(prompt: Messages) -> int:
    """How many messages always stay: leading system turns and the first user turn, else the first message."""
    system = next((n for n, message in enumerate(prompt) if message["role"] != "system"), len(prompt))
    opens = system < len(prompt) and prompt[system]["role"] == "user"
    return max(system + opens, 1)


def _groups(messages: Messages) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = []
    for message in messages:
        if message["role"] == "tool" and groups and groups[-1][0]["role"] == "assistant":
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _tokens(prompt: Messages, completion: Messages, render: Render) -> int:
    opened, whole = render(prompt, True), render([*prompt, *completion], False)
    if whole[: len(opened)] != opened:
        raise WindowError("by this chat template the prompt's tokens are no prefix of the row's")
    if len(whole) == len(opened):
        raise WindowError("by this chat template the answer has no token to train on")
    return len(whole)


@lru_cache(maxsize=1)
def _tokenizer(name: str, revision: str | None) -> Any:
    """Raises `FlywheelError` where the optional package or the tokenizer is not there."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise FlywheelError(
            "--tokenizer needs the extra `tokenizer`: pip install 'trace-flywheel[tokenizer]'"
        ) from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision or "main")
    except (OSError, ValueError) as error:
        raise FlywheelError(f"--tokenizer {name}: cannot be loaded ({str(error).splitlines()[0]})") from None
    if not tokenizer.chat_template:
        raise FlywheelError(f"--tokenizer {name}: has no chat template; name one of a chat model")
    return tokenizer


def check_window(window: Window) -> None:
    """Raises `FlywheelError` where rows cannot be cut at all, before anything is read."""
    _tokenizer(window.tokenizer, window.revision)
