"""Harbor jobs: a folder of trial folders, each with `result.json` (told by its `trial_name`) and an ATIF trajectory.

The trials that stand there are read, not the job's own summary, which resumed jobs leave behind. A trial without a
readable `result.json` is a Drop that names its task, agent and model, from its own `config.json`, else from its folder
name (`<task, cut>__<id>`) and the job's configuration. A trial without trajectory stays a member of its group.
Absolute paths of the machine that ran (`trial_uri` and the like) are not taken over.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import ErrorBy, Rollout, RolloutError, Source
from trace_flywheel.sources.grades import passes, reward_of
from trace_flywheel.sources.harbor_folders import CONFIG, RESULT, is_job, is_trial, object_in, trials
from trace_flywheel.sources.jsonl import Document, Fault, read_document
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
from trace_flywheel.sources.wires.atif import Conversation, OrphanedObservationError, conversation_of
from trace_flywheel.sources.wires.parts import WireError

TRAJECTORY = "agent/trajectory.json"
SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "seed")


class HarborReader:
    """See the module's docstring."""

    format = "harbor"
    precedence = 20

    def claims(self, folder: Folder) -> bool:
        """A trial by itself, or a folder with a trial in it and no job: beside jobs, a stray trial is its own run."""
        if RESULT in folder.files and is_trial(folder.path):
            return True
        inside = [folder.path / name for name in folder.folders]
        return any(map(is_trial, inside)) and not any(map(is_job, inside))

    def finished(self, folder: Folder) -> bool:
        """By the job's own `finished_at`, else when every trial has its result."""
        job = object_in(folder.path / RESULT, folder.path) if RESULT in folder.files else {}
        if "finished_at" in job:
            return job["finished_at"] is not None
        return all((trial / RESULT).is_file() for trial in trials(folder.path))

    def units(self, run: Run) -> Sequence[Unit]:
        """The trial folders."""
        return [
            Unit(trial, trial.relative_to(run.root).as_posix(), sum(size_of(path) for path in files_below(trial)))
            for trial in trials(run.path)
        ]

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
        """The rollout of a trial, or the drop that says whose is lost."""
        result = read_document(unit.path / RESULT, run.root, options.max_line_bytes)
        known = result.value if isinstance(result, Document) and isinstance(result.value, dict) else {}
        identity = _identity(run, unit, known)
        if isinstance(result, Fault):
            if (unit.path / RESULT).exists():
                yield dropped(run, unit, result.reason, result.evidence(), **identity)
            else:
                text = f"no {RESULT}: the trial was killed, or still runs"
                yield dropped(run, unit, "missing_result", {"text": text}, **identity)
            return
        if not isinstance(known.get("trial_name"), str):
            yield dropped(run, unit, "unknown_shape", {"text": "a result without trial_name"}, **identity)
            return
        try:
            said = _conversation(run, unit, options)
        except OrphanedObservationError as error:
            yield dropped(run, unit, "orphan_tool_result", {"text": str(error)}, **identity)
        except WireError as error:
            yield dropped(run, unit, "unknown_shape", {"text": str(error)}, **identity)
        else:
            if isinstance(said, Fault):
                yield dropped(run, unit, said.reason, said.evidence(), **identity)
            else:
                rollout = _rollout(run, unit, options, result, said, identity)
                yield noting_surrogates(rollout, said[1].surrogates if said else 0)


READER = HarborReader()


def _conversation(run: Run, unit: Unit, options: ReadOptions) -> tuple[Conversation, Document] | Fault | None:
    """What the trial's trajectory says and its file; None where there is none."""
    path = unit.path / TRAJECTORY
    if not path.exists():
        return None
    document = read_document(path, run.root, options.max_line_bytes)
    if isinstance(document, Fault):
        return document

    def load(reference: str) -> Any:
        other = read_document(path.parent / reference, unit.path, options.max_line_bytes)
        return other.value if isinstance(other, Document) else None

    return conversation_of(document.value, load, options.exchanges), document


def _rollout(
    run: Run,
    unit: Unit,
    options: ReadOptions,
    document: Document,
    said: tuple[Conversation, Document] | None,
    identity: dict[str, str | None],
) -> Rollout:
    result: dict[str, Any] = document.value
    conversation, read_from = said or (None, document)
    source = Source("harbor", _below(unit, TRAJECTORY if said else RESULT), read_from.sha256)
    rewards = _at(result, "verifier_result", "rewards")
    reward, reward_text = reward_of(rewards.get("reward") if isinstance(rewards, dict) else None)
    usage = _at(result, "agent_result")
    usage = usage if isinstance(usage, dict) else {}
    kwargs = _at(result, "config", "agent", "kwargs")
    messages = conversation.messages if conversation else ()
    answered = any(message.role == "assistant" for message in messages)
    version = text_or_none(_at(result, "agent_info", "version"))
    return Rollout(
        run_id=run.run_id,
        trace_id=identity["trace_id"] or unit.path.name,
        task_id=identity["task_id"] or unit.path.name,
        source=source,
        messages=messages,
        tools=conversation.tools if conversation else (),
        exchanges=conversation.exchanges if conversation else (),
        task_digest=text_or_none(result.get("task_checksum")),
        suite=text_or_none(result.get("source")),
        agent=identity["agent"],
        agent_version=version if version != "unknown" else conversation.agent_version if conversation else None,
        model=identity["model"],
        request_model=(conversation and conversation.model)
        or text_or_none(_at(result, "agent_info", "model_info", "name")),
        job=job_of(run),
        session_id=text_or_none(result.get("id")),
        started_at=text_or_none(result.get("started_at")),
        finished_at=text_or_none(result.get("finished_at")),
        sampling=_chosen(kwargs, SAMPLING),
        is_truncated=conversation is not None and conversation.cut,
        never_called=not answered and not usage.get("n_output_tokens"),
        verdict=passes(reward, options.pass_reward),
        reward=reward,
        reward_text=reward_text,
        rewards=rewards if isinstance(rewards, dict) else None,
        grader="harbor-verifier",
        grader_version=text_or_none(result.get("task_checksum")),
        error=_error(result.get("exception_info")),
        token_usage={key: value for key, value in usage.items() if isinstance(value, int | float)} or None,
        metadata=_metadata(result, conversation),
    )


def _metadata(result: dict[str, Any], conversation: Conversation | None) -> dict[str, Any] | None:
    recorded = {
        "environment": _at(result, "config", "environment", "type"),
        "summarizations": _at(result, "agent_result", "metadata", "summarization_count"),
        "lost_trajectories": list(conversation.lost) if conversation else None,
        "trajectory": None if conversation else "none",
    }
    return {key: value for key, value in recorded.items() if value} or None


def _error(info: Any) -> RolloutError | None:
    if not isinstance(info, dict):
        return None
    category = text_or_none(info.get("exception_type")) or "exception"
    return RolloutError(category, text_or_none(info.get("exception_message")) or "", _by(category))


def _by(category: str) -> ErrorBy:
    """Whose failure an exception is: only the agent's own timeout says something about the agent."""
    if category == "AgentTimeoutError":
        return "agent"
    return "verifier" if category.startswith(("Verifier", "RewardFile")) else "infrastructure"


def _identity(run: Run, unit: Unit, result: dict[str, Any]) -> dict[str, str | None]:
    """Trace, task, agent and model as well as they are known."""
    config = _at(result, "config") or object_in(unit.path / CONFIG, run.root)
    agents = object_in(run.path / CONFIG, run.root).get("agents")
    only = agents[0] if isinstance(agents, list) and len(agents) == 1 else {}
    path = text_or_none(_at(config, "task", "path"))
    model = _at(result, "agent_info", "model_info")
    qualified = [text_or_none(_at(model, key)) for key in ("provider", "name")]
    name = unit.path.name
    return {
        "trace_id": text_or_none(result.get("trial_name")) or text_or_none(_at(config, "trial_name")) or name,
        "task_id": text_or_none(result.get("task_name"))
        or text_or_none(_at(config, "task", "name"))
        or (PurePosixPath(path).name if path else name.rpartition("__")[0] or name),
        "agent": text_or_none(_at(config, "agent", "name"))
        or text_or_none(_at(result, "agent_info", "name"))
        or text_or_none(_at(only, "name")),
        "model": text_or_none(_at(config, "agent", "model_name"))
        or "/".join(part for part in qualified if part)
        or text_or_none(_at(only, "model_name")),
    }


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _chosen(value: Any, keys: Sequence[str]) -> dict[str, Any] | None:
    return {key: value[key] for key in keys if key in value} or None if isinstance(value, dict) else None


def _below(unit: Unit, name: str) -> str:
    return PurePosixPath(unit.relative, name).as_posix()
