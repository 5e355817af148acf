"""Hypothesis strategies of texts, data and rollouts in which rule examples, near misses and plain text meet."""

import json
from typing import Any

from hypothesis import strategies as st

from trace_flywheel.records.message import Message, ToolCall
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.redaction.rules import expand, rules

EXAMPLES = [expand(template, rule.name) for rule in rules() for template in rule.examples]
NEAR = [expand(template, rule.name) for rule in rules() for template in rule.near]
GLUE = [
    " ",
    "\n",
    "\\n",
    '"',
    "'",
    "=",
    ": ",
    ", ",
    "&",
    "`",
    "|",
    "\\\n",
    "\\\\",
    "{",
    "}",
    "é",
    "\u2028",
    "😀",
    "\x00",
    "a",
]
MARKS = ["[REDACTED:github_token:1]", "***REDACTED***", "<TOKEN>", "xxxx", "[REDACTED:secret:7]"]
NAMES = ["password", "token", "API_KEY", "max_tokens", "note", "Authorization", "secret"]

fragments = st.one_of(
    st.sampled_from(EXAMPLES),
    st.sampled_from(NEAR),
    st.sampled_from(GLUE + MARKS + NAMES),
    st.text(max_size=12),
)
texts = st.lists(fragments, max_size=8).map("".join)
numbers = st.integers(-(10**19), 10**19) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.one_of(texts, st.none(), st.booleans(), numbers),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), texts), inner, max_size=3),
        inner.map(json.dumps),
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=5)), values, max_size=3)


def _message(parts: tuple[str, Any, str | None]) -> Message:
    text, arguments, reasoning = parts
    return Message("assistant", text, reasoning, (ToolCall("call_1", "run", json.dumps(arguments)),), token_ids=(1, 2))


messages = st.tuples(texts, objects, st.none() | texts).map(_message)


def rollout(*messages: Message, **fields: Any) -> Rollout:
    return Rollout("run", "t1", "task", Source("eval_run", "r.json", "0" * 64), messages, **fields)


rollouts = st.lists(messages, max_size=3).map(lambda ms: rollout(*ms))
