"""No secret comes out of any command, however its file is broken: not in what is printed, logged, stored or written.

The sample is damaged in many ways, each with a canary secret where the damage is, and every command is run over it. The
canary may be in the inputs and in the private partition (`graded_traces`), and nowhere else.
"""

import base64
import contextlib
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.sample.write import write_sample

CANARY = "ghp_" + "Zb9qT4" * 6
FORMS = (CANARY, CANARY.encode().hex(), base64.b64encode(CANARY.encode()).decode()[:-4])


def _value(node: Any, rng: random.Random, change: Callable[[Any], Any]) -> Any:
    """The data with one of its values changed."""
    if isinstance(node, dict) and node:
        key = rng.choice(sorted(node))
        return {**node, key: _value(node[key], rng, change)}
    if isinstance(node, list) and node:
        at = rng.randrange(len(node))
        return [*node[:at], _value(node[at], rng, change), *node[at + 1 :]]
    return change(node)


def _renamed(node: Any, rng: random.Random) -> Any:
    if isinstance(node, dict) and node:
        key = rng.choice(sorted(node))
        if rng.random() < 0.5:
            return {(CANARY if name == key else name): value for name, value in node.items()}
        return {**node, key: _renamed(node[key], rng)}
    if isinstance(node, list) and node:
        at = rng.randrange(len(node))
        return [*node[:at], _renamed(node[at], rng), *node[at + 1 :]]
    return CANARY


def _with_text(text: str, rng: random.Random, damage: str) -> str:
    if damage == "cut":
        at = rng.randrange(len(text) + 1)
        return f"{text[:at]} {CANARY}"
    if damage == "bare":
        return f"{CANARY}\n{text}" if rng.random() < 0.5 else f"{text}\n{CANARY}\n"
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if line.strip()[:1] in ("{", "[")] if "\n" in text.strip() else []
    try:
        whole = json.loads(text)
    except ValueError:
        if not places:
            return f"{text} {CANARY}"
        at = rng.choice(places)
        with contextlib.suppress(ValueError):
            lines[at] = json.dumps(_damaged(json.loads(lines[at]), rng, damage))
        return "\n".join(lines)
    return json.dumps(_damaged(whole, rng, damage))


def _damaged(data: Any, rng: random.Random, damage: str) -> Any:
    if damage == "key":
        return _renamed(data, rng)
    changes: dict[str, Callable[[Any], Any]] = {
        "inside": lambda old: f"{old} {CANARY}",
        "instead": lambda old: CANARY,
        "list": lambda old: [CANARY],
        "object": lambda old: {"value": CANARY},
    }
    return _value(data, rng, changes[damage])


SIDE = {
    "trace_id": "refund-window-a0",
    "task_id": "kb-041",
    "verdict": "pass",
    "reward": 1.0,
    "score": 0.5,
    "grader": "human",
    "judge": "m",
    "corrected_response": "Refund it.",
    "corrected_by": "Ann",
    "prompt": "Say where the key is.",
    "answer": "In the drawer.",
}
MORE: list[dict[str, Any]] = [{}, *({key: f"{value} {CANARY}"} for key, value in SIDE.items()), {CANARY: 1}]

DAMAGES = ("inside", "instead", "list", "object", "key", "cut", "bare")


def damaged_sample(root: Path, seed: int) -> None:
    """The sample with a canary in two of three files."""
    write_sample(root)
    rng = random.Random(seed)
    for path in sorted(root.rglob("*")):
        if path.is_file() and rng.random() < 0.66:
            with contextlib.suppress(UnicodeDecodeError):
                path.write_text(_with_text(path.read_text("utf-8"), rng, rng.choice(DAMAGES)), "utf-8")


def leaks(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "graded_traces" in path.parts:
            continue
        data = path.read_bytes()
        if path.suffix == ".parquet":
            data += json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
        if any(form.encode() in data or form in str(path) for form in FORMS):
            yield str(path.relative_to(folder))


LAYOUTS = """prime-sft trl-dpo kto branch-tree atif messages trl-sft instruct verl-sft skyrl-sft openenv-episodes
    openai-ft rl-prompts verifiers adp"""


def commands(root: Path, out: Path, few: bool) -> Iterator[list[str]]:
    below = sorted(p for depth in ("*/*/*", "*") for p in root.glob(depth) if p.is_dir())
    jobs = [root, *below]
    yield ["sources", str(root), "--json"]
    yield ["sources", str(root)]
    yield ["refresh", "--root", str(root), "--json"]
    yield ["doctor"]
    yield ["doctor", "--json"]
    for name in ("sft_dataset", "dpo_dataset", "balanced_mix", "rl_dataset"):
        yield ["ledger", name]
        yield ["ledger", name, "--json"]
        yield ["export", name, "--format", "messages", "--out", str(out / f"export-{name}")]
    yield ["withdraw", "--run", "runs/recordings", "--reason", f"it holds {CANARY}"]
    yield ["purge", "--trace", "refund-window-a0", "--reason", f"it holds {CANARY}"]
    yield ["refresh", "--root", str(root), "--json"]
    yield ["datasets", "--json"]
    yield ["datasets", "--rescan"]
    for trace in ("refund-window-a0", CANARY):
        yield ["why", trace]
        yield ["why", trace, "--json"]
    for number, job in enumerate(jobs[: 3 if few else 8]):
        for layout in LAYOUTS.split()[: 6 if few else None]:
            target = out / f"{number}-{layout}.jsonl"
            yield ["convert", str(job), "--out", str(target), "--format", layout, "--manifest", f"{target}.manifest"]
        yield ["convert", str(job), "--out", str(out / f"{number}-x.jsonl"), "--row-mode", "exchange", "--strict"]
        yield ["convert", str(job), "--out", str(out / f"{number}-a.jsonl"), "--group-advantage", "grpo"]
        yield ["token-coverage", str(job), "--json"]
        yield ["token-coverage", str(job)]
        yield ["stream", str(job), "--no-follow", "--timeout", "1"]
        yield ["stream", str(job), "--no-follow", "--timeout", "1", "--group-size", "2"]
    recordings = sorted({p.parent for p in root.rglob("*.atraj")})
    for number, folder in enumerate(recordings):
        for export in ("answer-only", "trajectory"):
            yield ["traces-to-data", str(folder), "--out", str(out / f"t{number}-{export}.jsonl"), "--export", export]
    for file in sorted(root.rglob("*.jsonl"))[: 4 if few else 12]:
        yield ["validate", str(file)]
        yield ["validate", str(file), "--json"]
        yield ["depth", "train", str(file), "--out", str(out / "classifier"), "--json"]
        yield ["depth", "score", str(file), "--out", str(out / "scored.jsonl"), "--unscorable", "keep", "--json"]
        yield ["depth", "label", str(file), "--out", str(out / "unsure.jsonl")]
        yield ["depth", "filter", str(file), "--out", str(out / "mix.jsonl"), "--column", "id", "--target-mix", "a=1"]
        yield ["redact", str(file), "--out", str(out / "redacted"), "--report", str(out / "report.json"), "--json"]


class Temporary:
    """A folder for temporary files that looks into each of them as it is removed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.leaks, self.on = folder, list[str](), True
        folder.mkdir()
        sys.addaudithook(self._look)

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on or event not in ("os.remove", "os.rename", "shutil.rmtree"):
            return
        path = Path(str(args[0]))
        if not path.is_absolute() or not path.is_relative_to(self.folder):
            return
        self.on = False  # looking opens files, which are events too
        if path.is_dir():
            self.leaks += leaks(path)
        elif path.is_file() and any(form.encode() in path.read_bytes() for form in FORMS):
            self.leaks.append(str(path))
        self.on = True


def _around(text: str) -> str:
    at = min(text.find(form) for form in FORMS if form in text)
    return text[max(0, at - 120) : at + 80]


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_no_command_lets_a_secret_out(
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    root, out, home = tmp_path / "in" / "runs", tmp_path / "out", tmp_path / "home"
    out.mkdir()
    monkeypatch.chdir(out)
    monkeypatch.setenv("FLYWHEEL_HOME", str(home))
    temporary = Temporary(tmp_path / "tmp")
    monkeypatch.setenv("TMPDIR", str(temporary.folder))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary.folder))
    damaged_sample(root, seed)
    for name in ("GRADING__VERDICTS", "CORRECTIONS", "JUDGE_SCORES", "GOLDENS__PATHS"):
        path = tmp_path / "in" / f"{name.lower()}.jsonl"
        path.write_text("".join(json.dumps({**SIDE, **more}) + "\n" for more in MORE) + f"{{bad {CANARY}\n")
        monkeypatch.setenv(f"FLYWHEEL_{name}", json.dumps([str(path)]))
    told = []
    done = set()
    for command in commands(root, out, few=seed == 1):
        code = main(command)
        said = capfd.readouterr()
        done.add((command[0], code))
        if any(form in said.out + said.err + caplog.text for form in FORMS):
            told.append((command[:2], code, _around(said.out + said.err + caplog.text)))
        caplog.clear()
    assert {name for name, _ in done} >= {"sources", "refresh", "convert", "stream", "validate", "traces-to-data"}
    temporary.on = False
    assert told == []
    assert [*leaks(home), *leaks(out), *leaks(temporary.folder), *temporary.leaks] == []


def test_a_temporary_file_with_a_secret_is_seen(tmp_path: Path) -> None:
    temporary = Temporary(tmp_path / "tmp")
    for name in ("a", "b"):
        (temporary.folder / name).write_text(f"x {CANARY}" if name == "a" else "x")
        (temporary.folder / name).unlink()
    temporary.on = False
    assert temporary.leaks == [str(temporary.folder / "a")]
