"""The `.atraj` file as its recorder writes it: one object with `steps`. The schema and nothing else.

Absent and null optional values are one. Any integer `version` and any role load here, as they do in the original; what
a reader supports is the reader's to say.
"""

from typing import Any

import msgspec


class Call(msgspec.Struct):
    name: str
    arguments_json: str = "{}"


class Result(msgspec.Struct):
    name: str
    stdout: str
    stderr: str
    exit_code: int
    duration_sec: float | None = None


class Step(msgspec.Struct):
    role: str
    content: str
    """Of a tool step stdout only; of an assistant step the decoded text."""
    input_ids: tuple[int, ...] | None = None
    output_ids: tuple[int, ...] | None = None
    tool_call: Call | None = None
    tool_result: Result | None = None
    reward: Any = None
    timestamp: float | None = None
    """Unix seconds."""


class Recording(msgspec.Struct):
    version: int
    id: str
    steps: list[Step]
    summary: dict[str, str]
    checkpoint_path: str | None = None
    model_fingerprint: str | None = None
    task: str | None = None


def recording_of(value: Any) -> Recording:
    """The recording in a decoded JSON document. Raises `msgspec.ValidationError` with the place that does not fit."""
    return msgspec.convert(value, Recording)
