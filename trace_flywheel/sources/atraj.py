"""`.atraj` recordings: one JSON object per rollout, `steps` with role, content and, where recorded, the call made.

A folder that holds such files is one run, with everything below it. The recorder writes a call twice, as the turn's
text (`{"tool": name, "arguments": {...}}`) and as `tool_call`: where both say the same the text moves to
`extra["recorded_content"]`, so that nothing is lost and no turn teaches it twice; any other text stays beside the call.
A tool step becomes the JSON that the model was fed (`exit_code, stderr, stdout, tool`, keys sorted), of which the step
itself stores stdout only. The format has neither verdict nor tool schemas: the grader is `ungraded`.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, get_args

import msgspec
import orjson

from trace_flywheel.records.canonical import canonical_arguments, canonical_json, folded, sha256_hex
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message, Role, ToolCall
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.sources.atraj_steps import Recording, Step, recording_of
from trace_flywheel.sources.grades import reward_of
from trace_flywheel.sources.jsonl import Fault, read_document
from trace_flywheel.sources.pairing import pair
from trace_flywheel.sources.reader import (
    Folder,
    ReadOptions,
    Run,
    Unit,
    dropped,
    files_below,
    job_of,
    noting_surrogates,
    size_of,
    text_or_none,
)
from trace_flywheel.sources.wires.acp import inferred_tools
from trace_flywheel.sources.wires.parts import call_of

SUFFIX = ".atraj"
PACKED_SUFFIX = ".atraj.gz"
CALL_KEYS = {"tool", "arguments"}
SUPPORTED_VERSION = 1
ROLES: dict[str, Role] = {"developer": "system", **{role: role for role in get_args(Role)}}
"""Role of each recorded role; a recording with any other one cannot be read."""


class AtrajReader:
    """See the module's docstring."""

    format = "atraj"
    precedence = 40

    def claims(self, folder: Folder) -> bool:
        """The topmost folder that holds recordings itself."""
        return any(name.endswith(SUFFIX) for name in folder.files)

    def finished(self, folder: Folder) -> bool:
        """Always: the format has no marker, so quiet time alone decides."""
        return True

    def units(self, run: Run) -> Sequence[Unit]:
        """One file each at any depth; packed ones, links and folders so called too, which reading refuses by name."""
        if not run.path.is_dir():
            return (Unit(run.path, run.path.name, size_of(run.path)),)
        found = [
            Unit(path, path.relative_to(run.root).as_posix(), size_of(path))
            for path in files_below(run.path, links=True, folders=(SUFFIX, PACKED_SUFFIX))
            if path.name.endswith((SUFFIX, PACKED_SUFFIX))
        ]
        return tuple(sorted(found, key=lambda unit: unit.relative))

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
        """The one rollout of a file."""
        if unit.path.name.endswith(PACKED_SUFFIX):
            yield dropped(run, unit, "unknown_shape", {"text": "packed recordings are not read; unpack the file"})
            return
        document = read_document(unit.path, run.root, options.max_line_bytes)
        if isinstance(document, Fault):
            yield dropped(run, unit, document.reason, document.evidence())
            return
        known = document.value if isinstance(document.value, dict) else {}
        try:
            if (version := known.get("version")) != SUPPORTED_VERSION:
                raise msgspec.ValidationError(f"version {version!r}; known: {SUPPORTED_VERSION}")
            recording = recording_of(document.value)
            _check_roles(recording)
        except msgspec.ValidationError as error:
            yield dropped(run, unit, "unknown_shape", {"text": str(error)}, trace_id=text_or_none(known.get("id")))
            return
        found = pair(_messages(recording.steps), repair=False)
        if found.orphans:
            evidence = {"step": found.orphans[0], "text": "a tool step without a call before it"}
            yield dropped(run, unit, "orphan_tool_result", evidence, trace_id=recording.id)
            return
        source = Source(self.format, unit.relative, document.sha256)
        yield noting_surrogates(_rollout(run, source, recording, found.messages), document.surrogates)


def _rollout(run: Run, source: Source, recording: Recording, messages: tuple[Message, ...]) -> Rollout:
    steps = recording.steps
    first_user = next((step.content for step in steps if step.role == "user"), "")
    times = [step.timestamp for step in steps if step.timestamp is not None]
    rewards = [step.reward for step in steps]
    reward, reward_text = reward_of(next((r for r in reversed(rewards) if r is not None), None))
    metadata = {
        "summary": recording.summary,
        "checkpoint_path": recording.checkpoint_path,
        "assistant_steps": [i for i, step in enumerate(steps) if step.role == "assistant"],
    }
    return Rollout(
        run_id=run.run_id,
        trace_id=recording.id,
        task_id=f"{recording.task or 'atraj'}/{sha256_hex(folded(first_user).encode())[:12]}",
        source=source,
        messages=messages,
        tools=inferred_tools(messages),
        suite=recording.task,
        # A path names a machine and its user; its last part names the model.
        model=PurePosixPath(recording.checkpoint_path).name if recording.checkpoint_path else None,
        policy_version=recording.model_fingerprint,
        job=job_of(run),
        session_id=recording.id,
        started_at=_iso(min(times)) if times else None,
        finished_at=_iso(max(times)) if times else None,
        reward=reward,
        reward_text=reward_text,
        rewards={"steps": rewards} if any(r is not None for r in rewards) else None,
        grader="ungraded",
        metadata={key: value for key, value in metadata.items() if value},
    )


def _check_roles(recording: Recording) -> None:
    for i, step in enumerate(recording.steps):
        if step.role not in ROLES:
            raise msgspec.ValidationError(f"step {i}: role {step.role!r}; known: {', '.join(sorted(ROLES))}")


def _messages(steps: Sequence[Step]) -> list[Message]:
    """Calls are numbered, because the format has no ids: a tool step answers the latest call before it."""
    messages: list[Message] = []
    calls = 0
    for i, step in enumerate(steps):
        following = steps[i + 1] if i + 1 < len(steps) else None
        extra: dict[str, Any] = {"input_ids": step.input_ids, "timestamp": step.timestamp}
        if step.role == "tool":
            messages.append(_tool_message(step, f"call_{calls}", extra))
            continue
        if step.role != "assistant":
            messages.append(
                Message(ROLES[step.role], step.content, extra=_kept(extra | {"output_ids": step.output_ids}))
            )
            continue
        call = _call_of(step, f"call_{calls + 1}", answered=following is not None and following.role == "tool")
        calls += call is not None
        content: str | None = step.content or None
        if call is not None and _same_call(_written_call(step.content, call.id), call):
            content, extra["recorded_content"] = None, step.content
        made = () if call is None else (call,)
        messages.append(Message("assistant", content, tool_calls=made, token_ids=step.output_ids, extra=_kept(extra)))
    return messages


def _call_of(step: Step, id: str, answered: bool) -> ToolCall | None:
    """The recorded call; of a turn without one that a tool step answers, the call that its text spells."""
    if step.tool_call is not None:
        return call_of(id, step.tool_call.name, step.tool_call.arguments_json, 0)
    return _written_call(step.content, id) if answered else None


def _tool_message(step: Step, call_id: str, extra: dict[str, Any]) -> Message:
    result = step.tool_result
    if result is None:
        return Message("tool", step.content, tool_call_id=call_id, extra=_kept(extra))
    fed = {"exit_code": result.exit_code, "stderr": result.stderr, "stdout": result.stdout, "tool": result.name}
    return Message(
        "tool",
        orjson.dumps(fed).decode(),
        tool_call_id=call_id,
        name=result.name,
        is_error=result.exit_code != 0,
        extra=_kept(extra | {"duration_sec": result.duration_sec}),
    )


def _written_call(content: str, id: str) -> ToolCall | None:
    """The call that a turn's text spells, its arguments as the recorder writes them: keys sorted, no blanks."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict) or not isinstance(name := value.get("tool"), str) or not value.keys() <= CALL_KEYS:
        return None
    arguments = canonical_json(value.get("arguments") or {}).decode()
    return call_of(id, name, arguments, 0)


def _same_call(written: ToolCall | None, call: ToolCall) -> bool:
    return (
        written is not None and written.name == call.name and written.arguments == canonical_arguments(call.arguments)
    )


def _kept(extra: dict[str, Any]) -> dict[str, Any] | None:
    return {key: value for key, value in extra.items() if value is not None} or None


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


READER = AtrajReader()
