"""How many tokens of a row are learned: what a mix by `supervised_tokens` weighs rollouts by.

Recorded token ids are counted where they stand. Elsewhere a quarter of the UTF-8 bytes of text, reasoning and calls,
rounded up, stands for them: the usual rate of byte-pair vocabularies on English. Shares need proportions, not lengths.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from trace_flywheel.records.message import text_of

BYTES_A_TOKEN = 4


def supervised_tokens(messages: Sequence[dict[str, Any]]) -> int:
    """Of a row's plain messages; at least 1. Learned are the assistant turns marked `supervise`, where any message has
    that mark, else those not marked `train_on: false`."""
    marked = any("supervise" in message for message in messages)
    learned = [
        message
        for message in messages
        if message.get("role") == "assistant"
        and (message.get("supervise") is True if marked else message.get("train_on") is not False)
    ]
    return max(1, sum(map(_tokens, learned)))


def _tokens(message: dict[str, Any]) -> int:
    for name in ("output_ids", "token_ids"):
        if isinstance(ids := message.get(name), list):
            return len(ids)
    content = message.get("content")
    parts = [text_of(content) if isinstance(content, str | list) else "", message.get("reasoning_content") or ""]
    if message.get("tool_calls"):
        parts.append(orjson.dumps([call.get("function", call) for call in message["tool_calls"]]).decode())
    return -(-sum(len(str(part).encode("utf-8", "replace")) for part in parts) // BYTES_A_TOKEN)
