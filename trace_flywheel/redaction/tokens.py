"""Token ids, token strings and logprobs decode to text: what spells a redacted text goes with it.

A touched message loses its own tokens, and one whose token strings spell a finding counts as touched; every prompt
that holds it, that is every later call's, loses its prompt tokens.
"""

from typing import Any

import msgspec

from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Exchange, Rollout
from trace_flywheel.redaction.fields import TOKEN_KEYS, Owner

PROMPT_KEYS = frozenset({"input_ids", "prompt_ids", "prompt_token_ids", "prompt_logprobs"})
"""Of the token keys, those that spell the prompt and not the answer."""
NEVER = 1 << 60


def without_tokens(rollout: Rollout, touched: set[Owner]) -> tuple[Rollout, bool]:
    """The rollout without the tokens that spell touched text, and whether there were any."""
    if not rollout.exchanges and not _have_tokens(rollout.messages):
        return rollout, False
    tools = any(owner.kind == "tools" for owner in touched)
    main = {owner.message for owner in touched if owner.kind == "message"}
    first = -1 if tools else min(main, default=NEVER)
    messages = tuple(_message(m, i in main, i > first or tools) for i, m in enumerate(rollout.messages))
    exchanges = tuple(_exchange(e, i, touched, main, first) for i, e in enumerate(rollout.exchanges))
    removed = messages != rollout.messages or exchanges != rollout.exchanges
    if not removed:
        return rollout, False
    return msgspec.structs.replace(rollout, messages=messages, exchanges=exchanges), True


def _have_tokens(messages: tuple[Message, ...]) -> bool:
    for message in messages:
        if message.token_ids is not None or message.logprobs is not None or message.extra is not None:
            return True
    return False


def _message(message: Message, own: bool, prompt: bool) -> Message:
    changes: dict[str, Any] = {}
    if own and (message.token_ids is not None or message.logprobs is not None):
        changes |= {"token_ids": None, "logprobs": None}
    if message.extra is not None:
        gone = (PROMPT_KEYS if prompt or own else frozenset()) | (TOKEN_KEYS if own else frozenset())
        if not message.extra.keys().isdisjoint(gone):
            changes["extra"] = {k: v for k, v in message.extra.items() if k not in gone} or None
    return msgspec.structs.replace(message, **changes) if changes else message


def _exchange(exchange: Exchange, index: int, touched: set[Owner], main: set[int], first: int) -> Exchange:
    """One call: its prompt is touched when a message before its answer is, or its tools are."""
    inside = {owner.message for owner in touched if owner.kind == "exchange" and owner.exchange == index}
    tools = first < 0 if exchange.tools is None else Owner("exchange_tools", index) in touched
    if exchange.messages:
        answer = len(exchange.messages) - 1
        prompt_hit = tools or any(i < answer for i in inside)
        answer_hit = answer in inside
        messages = tuple(
            _message(m, i in inside, tools or any(j < i for j in inside)) for i, m in enumerate(exchange.messages)
        )
    else:
        context = exchange.context if exchange.context is not None else 0
        prompt_hit = tools or any(i < context for i in main)
        answer_hit = context in main
        messages = exchange.messages
    capture = exchange.token_capture
    if capture is not None:
        spells = Owner("capture", index) in touched
        gone = (PROMPT_KEYS if prompt_hit or spells else frozenset()) | (
            (TOKEN_KEYS - PROMPT_KEYS) if answer_hit or spells else frozenset()
        )
        if gone:
            capture = {k: v for k, v in capture.items() if k not in gone and k != "digest"}
    if capture == exchange.token_capture and messages == exchange.messages:
        return exchange
    return msgspec.structs.replace(exchange, token_capture=capture, messages=messages)
