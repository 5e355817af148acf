"""One BenchFlow trial with a readable result: its rollout, or the drop that says what its files lack.

The gateway's capture is the record of a trial; its ACP events stand in where no model call passed the gateway, and its
prompts where the agent never came to act.
"""

import os
from typing import Any

import msgspec

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.message import Message
from trace_flywheel.records.rollout import Rollout, Source
from trace_flywheel.sources import benchflow_folders as folders
from trace_flywheel.sources.assembly import Assembled, assemble
from trace_flywheel.sources.benchflow_folders import ACP, LLM
from trace_flywheel.sources.benchflow_identity import file_of, identity_of, lost, text_or_none
from trace_flywheel.sources.benchflow_retry import is_retried
from trace_flywheel.sources.benchflow_score import error_of, finite, grader_of, score_of
from trace_flywheel.sources.benchflow_vector import reward_vector_of
from trace_flywheel.sources.capture import Capture, RawFaultError, read_capture
from trace_flywheel.sources.jsonl import Document, Fault, Line, read_document, read_lines
from trace_flywheel.sources.reader import ReadOptions, Run, Unit
from trace_flywheel.sources.threads import Evidence, threads_of
from trace_flywheel.sources.wires import acp
from trace_flywheel.sources.wires.parts import WireError

SIDE_PURPOSES = frozenset({"title", "summary", "compaction"})
"""A capture that holds nothing else did not record the agent's own work."""
METADATA_KEYS = ("skill_mode", "skill_source", "trajectory_source", "partial_trajectory", "export_error")


class Trial:
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
            threads = threads_of(capture.calls, text_or_none(self.result.get("agent")), self._evidence)
            if threads[0].purpose in SIDE_PURPOSES:
                return self._uncaptured(capture)
            told = assemble(threads, self.options.exchanges)
        except RawFaultError as error:
            return self._drop(error.fault.reason, error.fault.evidence(), LLM)
        except WireError as error:
            return self._drop("unknown_shape", {"text": str(error)}, LLM)
        return self._rollout(capture, told)

    def _capture(self) -> Capture | Fault | None:
        path = self.unit.path / LLM
        found = read_capture(path, self.run.root, self.options.max_line_bytes)
        if not isinstance(found, Fault):
            return found
        # Most are there, and no link: nobody asks before it is opened.
        if not os.path.lexists(path):
            return None
        behind = folders.inside(path)
        return found if behind is path else read_capture(behind, self.run.root, self.options.max_line_bytes)

    def _rollout(self, capture: Capture, told: Assembled) -> Rollout:
        source = Source("benchflow", file_of(self.unit, LLM), capture.sha256)
        agent_result = self.result.get("agent_result")
        stop = None
        if isinstance(agent_result, dict):
            stop = text_or_none(agent_result.get("acp_stop_reason")) or text_or_none(agent_result.get("stop_reason"))
        return msgspec.structs.replace(
            self._scalars(source, ran=True, metadata={**told.metadata, **_counts(capture)}),
            messages=told.messages,
            tools=told.tools,
            exchanges=told.exchanges,
            request_model=told.model,
            sampling=told.sampling,
            stop_reason=stop or told.stop_reason,
            is_truncated=self._partial or told.truncated or capture.torn is not None,
        )

    def _uncaptured(self, capture: Capture | None) -> Rollout | Drop:
        """From ACP events, else from the prompts alone: a trial that never ran still counts in its group."""
        events, sha256, fault = self._events()
        if fault is not None and not fault.torn:
            return self._drop(fault.reason, fault.evidence(), ACP)
        messages = acp.messages_of(events)
        acted = any(message.role == "assistant" for message in messages)
        called = bool(capture.calls) if capture is not None and capture.records else acted
        source = Source("benchflow", file_of(self.unit, ACP), sha256)
        if not messages:
            prompts = self._prompts()
            messages = tuple(Message(role="user", content=prompt) for prompt in prompts)
            source = Source("benchflow", file_of(self.unit, folders.RESULT), self.sha256)
        metadata: dict[str, Any] = {"trajectory": "acp" if acted else "none", **_counts(capture)}
        if fault is not None:
            metadata["torn"] = _torn(ACP, fault)
        return msgspec.structs.replace(
            self._scalars(source, ran=acted, metadata=metadata),
            messages=messages,
            tools=acp.inferred_tools(messages),
            never_called=not called,
            is_truncated=self._partial or "torn" in metadata,
        )

    def _scalars(self, source: Source, ran: bool, metadata: dict[str, Any]) -> Rollout:
        result = self.result
        score = score_of(result)
        revision = self._revision()
        grader, version = grader_of(result, text_or_none(revision.get("rubric_sha256")))
        scoring = result.get("scoring")
        reward = score.reward
        identity = identity_of(self.run, self.unit, result)
        kept = {key: result[key] for key in METADATA_KEYS if result.get(key) not in (None, False, "")}
        rewards, usage = result.get("rewards"), result.get("agent_result")
        return Rollout(
            run_id=self.run.run_id,
            trace_id=identity["trace_id"] or self.unit.path.name,
            task_id=identity["task_id"] or self.unit.path.name,
            source=source,
            task_digest=text_or_none(result.get("task_digest")),
            agent=identity["agent"],
            agent_version=text_or_none(result.get("agent_version")),
            model=identity["model"],
            job=identity["job"],
            session_id=text_or_none(result.get("session_id")),
            started_at=text_or_none(result.get("started_at")),
            finished_at=text_or_none(result.get("finished_at")),
            retried=is_retried(self.unit.path, self.run),
            verdict=None if reward is None else "pass" if reward >= self.options.pass_reward else "fail",
            reward=reward,
            reward_text=score.text,
            rewards=finite(rewards) if isinstance(rewards, dict) else None,
            reward_range=(0.0, 1.0) if score.by_rubric and reward is not None else None,
            reward_vector=self._vector(revision) if reward is not None else None,
            grader=grader,
            grader_version=version,
            scoring=scoring if isinstance(scoring, dict) else None if scoring is None else {"malformed": scoring},
            error=error_of(result, ran),
            token_usage=finite(usage) if isinstance(usage, dict) else None,
            metadata={**kept, **metadata} or None,
        )

    @property
    def _partial(self) -> bool:
        return self.result.get("partial_trajectory") is True

    def _revision(self) -> dict[str, Any]:
        """The review's revision file that a scored trial names."""
        scoring = self.result.get("scoring")
        name = scoring.get("revision") if isinstance(scoring, dict) else None
        return self._beside(name) if isinstance(name, str) and name else {}

    def _vector(self, revision: dict[str, Any]) -> dict[str, Any]:
        name = revision.get("rubric_snapshot")
        return reward_vector_of(self.result, revision, self._beside(name) if isinstance(name, str) and name else {})

    def _beside(self, name: str) -> dict[str, Any]:
        """A JSON object in the trial folder, empty where there is none."""
        path = folders.inside(self.unit.path / name)
        document = read_document(path, folders.inside(self.unit.path), self.options.max_line_bytes)
        return document.value if isinstance(document, Document) and isinstance(document.value, dict) else {}

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
        return lost(self.run, self.unit, reason, evidence, self.result, file)


def _torn(file: str, fault: Fault) -> dict[str, Any]:
    """What is told of a recording whose last line was cut in mid-write."""
    return {"file": file, "line": fault.line, "text": fault.text}


def _counts(capture: Capture | None) -> dict[str, Any]:
    if capture is None:
        return {}
    told = {
        "calls": capture.records,
        "failed_calls": capture.failed,
        "retried_calls": capture.retried,
        "torn": _torn(LLM, capture.torn) if capture.torn else None,
        "bom": capture.bom,
        "replaced_surrogates": capture.surrogates,
    }
    return {key: value for key, value in told.items() if value}
