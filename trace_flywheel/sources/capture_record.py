"""A line of a BenchFlow capture, decoded for its outline: conversations, tools and answers stay raw JSON."""

from typing import Any

import msgspec

ABSENT = msgspec.Raw(b"")
PASSED_THROUGH = "pass_through_endpoint"


class Body(msgspec.Struct):
    """Of a request. The dialects' fields side by side; `messages` wins over `input`, which may only repeat it."""

    model: Any = None
    messages: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT
    system: msgspec.Raw = ABSENT
    instructions: msgspec.Raw = ABSENT
    tools: msgspec.Raw = ABSENT
    tool_defs: msgspec.Raw = ABSENT
    temperature: Any = None
    top_p: Any = None
    max_tokens: Any = None
    reasoning_effort: Any = None
    thinking: Any = None


class Request(msgspec.Struct):
    body: Body | None = None


class Response(msgspec.Struct):
    status_code: Any = None
    body: msgspec.Raw = ABSENT


class Metadata(msgspec.Struct):
    call_purpose: Any = None
    call_type: Any = None
    token_capture: msgspec.Raw = ABSENT


class Record(msgspec.Struct):
    request: Request | None = None
    response: Response | None = None
    metadata: Metadata | None = None


DECODER = msgspec.json.Decoder(Record)
