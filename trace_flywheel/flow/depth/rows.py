"""Rows of a JSONL file as the depth commands see them: the prompt, the conversation, and who they belong to.

The prompt of a row with `messages` is the last user turn before its target (its last assistant turn), or the first user
turn; of any other row the text of a field. Reading keeps the line's own bytes, so that what is chosen is written as it
stood, but for secrets and personal data: those are replaced before anything else sees the row.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import numpy as np
import orjson

from trace_flywheel.curation.depth import DepthModel
from trace_flywheel.curation.tgfr import TgfrModel
from trace_flywheel.records.canonical import content_id
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.message import Message, Role, ToolCall, text_of
from trace_flywheel.redaction.budget import RuleTimeoutError
from trace_flywheel.redaction.depth import DeepDataError
from trace_flywheel.redaction.fields import TOKEN_KEYS
from trace_flywheel.redaction.redact import NumberFindingError, Redactor, SecretLeftError
from trace_flywheel.sources.jsonl import Fault, read_lines

MAX_LINE_BYTES = 64_000_000
SPELLING = {"single": "single-hop", "multi": "multi-hop", "comparison": "comparison", "other": "other"}
"""Classes as they stand in files."""
UNCERTAIN = "uncertain"
Turn = Literal["last", "first"]


class Classifier(Protocol):
    """The default model and the original's alike."""

    def label(self, prompts: Sequence[str]) -> tuple[list[str], np.ndarray]: ...


class FileRow(msgspec.Struct, frozen=True):
    number: int
    data: bytes
    """The line without its end; written anew where something in it was replaced."""
    value: dict[str, Any]


def rows_of(path: Path, clean: Redactor | None = None) -> Iterator[FileRow]:
    """The rows of a file, streamed, redacted by `clean`. Raises `FlywheelError` with file and line for what is no JSON
    object, and for a row in which a finding cannot be replaced."""
    if not path.exists():
        raise FlywheelError(f"{path}: no such file; give a file of rows")
    for line in read_lines(path, path.parent, MAX_LINE_BYTES, lambda data: (data.strip(b"\r"), orjson.loads(data))):
        if isinstance(line, Fault):
            raise FlywheelError(f"{path}{f':{line.line}' if line.line else ''}: {line.reason}: {line.text}")
        data, value = line.value
        if not isinstance(value, dict):
            raise FlywheelError(f"{path}:{line.number}: a row is a JSON object")
        if clean is not None:
            try:
                safe = _redacted(value, clean)
            except FlywheelError as error:
                raise FlywheelError(
                    f"{path}:{line.number}: {error}; `flywheel redact` leaves such rows out. Nothing written"
                ) from None
            value, data = safe, data if safe is value else orjson.dumps(safe)
        yield FileRow(line.number, data, value)


def _redacted(row: dict[str, Any], clean: Redactor) -> dict[str, Any]:
    """The row without findings, the same object where there are none."""
    try:
        safe: dict[str, Any] = clean.redact_value(row)[0]
    except (NumberFindingError, SecretLeftError, RuleTimeoutError) as left:
        raise FlywheelError(f"a finding where nothing is replaced ({left.rule})") from None
    except DeepDataError:
        raise FlywheelError("nested too deep to be looked through") from None
    if safe is not row and _has_tokens(row):
        raise FlywheelError("a finding in a text whose token ids or log-probabilities stand beside it")
    return safe


def _has_tokens(value: Any) -> bool:
    if isinstance(value, dict):
        return any((key in TOKEN_KEYS and item) or _has_tokens(item) for key, item in value.items())
    return isinstance(value, list) and bool(value) and not isinstance(value[0], int) and any(map(_has_tokens, value))


def prompt_of(row: dict[str, Any], field: str, turn: Turn) -> str:
    """The row's prompt, empty where it has none. `field` is `messages` (then `prompt` or `text` where a row has no
    messages) or the name of a top-level text."""
    if field != "messages":
        return _text(row.get(field))
    messages = row.get("messages", row.get("prompt"))
    if not isinstance(messages, list):
        return _text(row.get("prompt")) or _text(row.get("text"))
    turns = [m for m in messages if isinstance(m, dict)]
    last = max((i for i, m in enumerate(turns) if m.get("role") == "assistant"), default=len(turns))
    said = [_text(m.get("content")) for m in turns[:last] if m.get("role") == "user"]
    spoken = [text for text in said if text]
    return (spoken[-1] if turn == "last" else spoken[0]) if spoken else ""


def conversation_of(row: dict[str, Any]) -> list[Message]:
    """The row's messages, calls in the chat shape or the recorder's; messages of unknown shape are left out."""
    messages = row.get("messages")
    return [
        Message(_role(m), _text(m.get("content")), tool_calls=tuple(_calls(m)))
        for m in (messages if isinstance(messages, list) else ())
        if isinstance(m, dict)
    ]


def owner_of(row: dict[str, Any], number: int) -> str:
    """The rollout that a row comes from; a row that names none stands for itself."""
    for key in ("rollout_id", "trace_id"):
        if isinstance(value := row.get(key), str) and value:
            return value
    return f"row {number}"


def id_of(row: dict[str, Any]) -> str:
    """The row's own id, else a hash of its content."""
    for key in ("row_hash", "row_id"):
        if isinstance(value := row.get(key), str) and value:
            return value
    return content_id(row)


def model_of(path: Path | None) -> Classifier:
    """A `.tgfr` file, a folder that `depth train` wrote, or for None the classifier of the seed set."""
    if path is None:
        from trace_flywheel.curation.depth import seed_set, train

        return DepthModel.of_seed_set() or train(seed_set())
    single = path.suffix == ".tgfr"
    for file in (path,) if single else (path / "depth.json", path / "depth.npz"):
        if file.exists() and not file.is_file():  # a pipe would be waited for
            raise FlywheelError(f"{file}: no regular file")
    try:
        return TgfrModel.load(path) if single else DepthModel.load(path)
    except (ValueError, KeyError) as error:
        raise FlywheelError(f"{path}: cannot be used as a classifier: {error}") from None


def _role(message: dict[str, Any]) -> Role:
    role = message.get("role")
    return role if role in ("system", "assistant", "tool") else "user"


def _text(value: Any) -> str:
    if isinstance(value, list):
        value = [part for part in value if isinstance(part, dict)]
    text = text_of(value) if isinstance(value, str | list) else ""
    return text if text.strip() else ""


def _calls(message: dict[str, Any]) -> Iterator[ToolCall]:
    if isinstance(call := message.get("tool_call"), dict):
        yield ToolCall("", str(call.get("name")), str(call.get("arguments_json", "{}")))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = function.get("arguments")
            text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
            yield ToolCall("", str(function.get("name")), text)
