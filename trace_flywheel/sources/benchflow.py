"""BenchFlow jobs: every trial folder becomes one rollout, or one Drop that says whose rollout is lost.

The gateway's capture is the record of a trial; its ACP events stand in where no model call passed the gateway, and its
prompts where the agent never came to act. Trainer files beside them are derived and are not read. A trial without a
readable `result.json` is lost to its group, not to the count: its Drop carries the task of its folder's name and the
agent and model of its own configuration or of its siblings.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from trace_flywheel.records.fate import Drop, Stage
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.assembly import Assembled, assemble
from trace_flywheel.sources.benchflow_retry import is_retried
from trace_flywheel.sources.benchflow_score import error_of, grader_of, score_of
from trace_flywheel.sources.capture import Capture, RawFaultError, read_capture
from trace_flywheel.sources.jsonl import Document, Fault, Line, read_document, read_lines
from trace_flywheel.sources.reader import Folder, ReadOptions, Run, Unit
from trace_flywheel.sources.threads import Evidence, threads_of
from trace_flywheel.sources.wires import acp
from trace_flywheel.sources.wires.parts import WireError

LLM, ACP = (f"trajectory/{name}" for name in folders.CAPTURES)
METADATA_KEYS = ("skill_mode", "skill_source", "trajectory_source", "partial_trajectory", "export_error")


class BenchFlow:
    """The reader. A job folder holds trials as children; a trial alone is a run of its own."""

    format = "benchflow"
    precedence = 10

    def claims(self, folder: Folder) -> bool:
        marked = folders.RESULT in folder.files or "trajectory" in folder.folders
        return (marked and folders.is_benchflow(folder.path)) or folders.holds_trials(folder)

    def finished(self, folder: Folder) -> bool:
        """By the job's `results.jsonl`, else its `summary.json`, else when every trial has its result."""
        if "results.jsonl" in folder.files:
            return _ends_whole(folder.path / "results.jsonl", folder.path)
        if "summary.json" in folder.files:
            document = read_document(folders.inside(folder.path / "summary.json"), folder.path, folders.DOCUMENT_BYTES)
            return isinstance(document, Document)
        return all(os.path.lexists(trial / folders.RESULT) for trial in folders.trials(folder.path))

    def units(self, run: Run) -> Sequence[Unit]:
        return [Unit(trial, trial.relative_to(run.root).as_posix(), _size(trial)) for trial in folders.trials(run.path)]

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
        result = read_document(folders.inside(unit.path / folders.RESULT), run.root, options.max_line_bytes)
        if isinstance(result, Fault):
            missing = not (unit.path / folders.RESULT).is_file()
            reason = "missing_result" if missing and "leads out" not in result.text else result.reason
            yield _lost(run, unit, reason, result.evidence(), None)
        elif not isinstance(result.value, dict):
            text = f"result is a {type(result.value).__name__}"
            yield _lost(run, unit, "unknown_shape", {"text": text}, None)
        elif result.value.get("purpose") != "reviewer":
            yield _Trial(run, unit, options, result.value, result.sha256).read()


READER = BenchFlow()


class _Trial:
    """One trial with a readable result."""

    def __init__(self, run: Run, unit: Unit, options: ReadOptions, result: dict[str, Any], sha256: str) -> None:
        self.run, self.unit, self.options, self.result, self.sha256 = run, unit, options, result, sha256

    def read(self) -> Rollout | Drop:
        capture = self._capture()
        if isinstance(capture, Fault):
            return self._drop(capture.reason, capture.evidence(), LLM)
        if capture is None or not capture.calls:
            return self._uncaptured(capture)
        try:
            threads = threads_of(capture.calls, _text(self.result.get("agent")), self._evidence)
            told = assemble(threads, self.options.exchanges)
        except RawFaultError as error:
            return self._drop(error.fault.reason, error.fault.evidence(), LLM)
        except WireError as error:
            return self._drop("unknown_shape", {"text": str(error)}, LLM)
        if told.orphans:
            evidence = {"messages": list(told.orphans), "text": "tool results that answer no earlier call"}
            return self._drop("orphan_tool_result", evidence, LLM)
        return self._rollout(capture, told)

    def _capture(self) -> Capture | Fault | None:
        path = self.unit.path / LLM
        if not os.path.lexists(path):
            return None
        return read_capture(folders.inside(path), self.run.root, self.options.max_line_bytes)

    def _rollout(self, capture: Capture, told: Assembled) -> Rollout:
        source = Source("benchflow", _file(self.unit, LLM), capture.sha256)
        agent_result = self.result.get("agent_result")
        stop = None
        if isinstance(agent_result, dict):
            stop = _text(agent_result.get("acp_stop_reason")) or _text(agent_result.get("stop_reason"))
        return msgspec.structs.replace(
            self._scalars(source, ran=True, metadata={**told.metadata, **_counts(capture)}),
            messages=told.messages,
            tools=told.tools,
            exchanges=told.exchanges,
            request_model=told.model,
            sampling=told.sampling,
            stop_reason=stop or told.stop_reason,
            is_truncated=self._partial or told.truncated or capture.torn_line is not None,
        )

    def _uncaptured(self, capture: Capture | None) -> Rollout | Drop:
        """From ACP events, else from the prompts alone: a trial that never ran still counts in its group."""
        events, sha256, fault = self._events()
        if fault is not None and not fault.torn:
            return self._drop(fault.reason, fault.evidence(), ACP)
        messages = acp.messages_of(events)
        acted = any(message.role == "assistant" for message in messages)
        called = acted and (capture is None or capture.records == 0)
        source = Source("benchflow", _file(self.unit, ACP), sha256)
        if not messages:
            prompts = self._prompts()
            messages = tuple(Message(role="user", content=prompt) for prompt in prompts)
            source = Source("benchflow", _file(self.unit, folders.RESULT), self.sha256)
        metadata: dict[str, Any] = {"trajectory": "acp" if acted else "none", **_counts(capture)}
        torn = fault is not None or (capture is not None and capture.torn_line is not None)
        if fault is not None:
            metadata["torn_line"] = fault.line
        return msgspec.structs.replace(
            self._scalars(source, ran=acted, metadata=metadata),
            messages=messages,
            tools=acp.inferred_tools(messages),
            never_called=not called,
            is_truncated=self._partial or torn,
        )

    def _scalars(self, source: Source, ran: bool, metadata: dict[str, Any]) -> Rollout:
        result = self.result
        score = score_of(result)
        grader, version = grader_of(result, self._rubric())
        scoring = result.get("scoring")
        reward = score.reward
        identity = _identity(self.run, self.unit, result)
        kept = {key: result[key] for key in METADATA_KEYS if result.get(key) not in (None, False, "")}
        rewards, usage = result.get("rewards"), result.get("agent_result")
        return Rollout(
            run_id=self.run.run_id,
            trace_id=identity["trace_id"] or self.unit.path.name,
            task_id=identity["task_id"] or self.unit.path.name,
            source=source,
            task_digest=_text(result.get("task_digest")),
            agent=identity["agent"],
            agent_version=_text(result.get("agent_version")),
            model=identity["model"],
            job=identity["job"],
            session_id=_text(result.get("session_id")),
            started_at=_text(result.get("started_at")),
            finished_at=_text(result.get("finished_at")),
            retried=is_retried(self.unit.path, self.run.root),
            verdict=None if reward is None else "pass" if reward >= self.options.pass_reward else "fail",
            reward=reward,
            reward_text=score.text,
            rewards=rewards if isinstance(rewards, dict) else None,
            reward_range=(0.0, 1.0) if score.by_rubric and reward is not None else None,
            grader=grader,
            grader_version=version,
            scoring=scoring if isinstance(scoring, dict) else None if scoring is None else {"malformed": scoring},
            error=error_of(result, ran),
            token_usage=usage if isinstance(usage, dict) else None,
            metadata={**kept, **metadata} or None,
        )

    @property
    def _partial(self) -> bool:
        return self.result.get("partial_trajectory") is True

    def _rubric(self) -> str | None:
        """Digest of the rubric that scored the trial, from the review's revision file."""
        scoring = self.result.get("scoring")
        revision = scoring.get("revision") if isinstance(scoring, dict) else None
        if not isinstance(revision, str) or not revision:
            return None
        path = folders.inside(self.unit.path / revision)
        document = read_document(path, folders.inside(self.unit.path), self.options.max_line_bytes)
        found = document.value if isinstance(document, Document) else None
        return _text(found.get("rubric_sha256")) if isinstance(found, dict) else None

    def _events(self) -> tuple[list[Any], str, Fault | None]:
        path = self.unit.path / ACP
        if not os.path.lexists(path):
            return [], "", None
        lines = read_lines(folders.inside(path), self.run.root, self.options.max_line_bytes)
        events: list[Any] = []
        fault = None
        for line in lines:
            if isinstance(line, Line):
                events.append(line.value)
            else:
                fault = line
                if not line.torn:
                    break
        return events, lines.sha256, fault

    def _prompts(self) -> tuple[str, ...]:
        document = read_document(
            folders.inside(self.unit.path / "prompts.json"), self.run.root, self.options.max_line_bytes
        )
        listed = document.value if isinstance(document, Document) else None
        return tuple(p for p in listed if isinstance(p, str)) if isinstance(listed, list) else ()

    def _evidence(self) -> Evidence:
        links = {}
        for event in self._events()[0]:
            if isinstance(event, dict):
                child, parent = event.get("tool_call_id"), event.get("parent_tool_call_id")
                if isinstance(child, str) and isinstance(parent, str) and parent:
                    links[child] = parent
        return Evidence(links, self._prompts())

    def _drop(self, reason: str, evidence: dict[str, Any], file: str) -> Drop:
        return _lost(self.run, self.unit, reason, evidence, self.result, file)


def _lost(
    run: Run,
    unit: Unit,
    reason: str,
    evidence: dict[str, Any],
    result: dict[str, Any] | None,
    file: str = folders.RESULT,
) -> Drop:
    identity = _identity(run, unit, result)
    return Drop(Stage.READ, reason, evidence, run_id=run.run_id, path=_file(unit, file), **identity)


def _identity(run: Run, unit: Unit, result: dict[str, Any] | None) -> dict[str, str | None]:
    """Trace, task, agent, model and job; without a result by the folder's name, its configuration, its siblings."""
    path = unit.path
    nested = path.parent != run.path and path != run.path
    named = path.name.rpartition("__")[0] or path.name
    known = result if result is not None else _neighbour(run, path)
    task = _text(result.get("task_name")) if result is not None else None
    return {
        "trace_id": path.relative_to(run.path).as_posix() if nested else path.name,
        "task_id": task or named,
        "agent": _text(known.get("agent")),
        "model": _text(known.get("model")),
        "job": path.parent.name,
    }


def _neighbour(run: Run, trial: Path) -> dict[str, Any]:
    """What says an unreadable trial's agent and model: its own configuration, else the first sibling's result."""
    config = read_document(folders.inside(trial / "config.json"), run.root, folders.DOCUMENT_BYTES)
    if isinstance(config, Document) and isinstance(config.value, dict) and config.value.get("agent"):
        return config.value
    for sibling in folders.trials(trial.parent) if trial != run.path else ():
        found = folders.read_result(sibling, run.root)
        if isinstance(found, dict) and found.get("agent"):
            return found
    return {}


def _file(unit: Unit, name: str) -> str:
    return (PurePosixPath(unit.relative) / name).as_posix()


def _counts(capture: Capture | None) -> dict[str, Any]:
    if capture is None:
        return {}
    told = {
        "failed_calls": capture.failed,
        "retried_calls": capture.retried,
        "torn_line": capture.torn_line,
        "bom": capture.bom,
    }
    return {key: value for key, value in told.items() if value}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _size(trial: Path) -> int:
    total = 0
    for name in (folders.RESULT, LLM, ACP):
        try:
            total += (trial / name).stat().st_size
        except OSError:
            continue
    return total


def _ends_whole(path: Path, root: Path) -> bool:
    """Whether the last line is whole: newline-terminated JSON. An empty file is still being written."""
    last: Line | Fault | None = None
    for line in read_lines(folders.inside(path), root, folders.DOCUMENT_BYTES):
        last = line
    if not isinstance(last, Line):
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
