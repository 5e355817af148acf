"""Rows for the trainers' own loaders: the sample's jobs and real ones through `convert`, `refresh` and `export`.

The loaders run in an environment of their own (`make test-trainers`); elsewhere these tests skip. No model hub is
asked: the tokenizer is a byte-level alphabet, one token a byte, with a chat template that TRL ships.
"""

import importlib
import os
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typing_extensions

from trace_flywheel.cli.main import main
from trace_flywheel.records.message import Message, Tool, ToolCall
from trace_flywheel.records.rows import Provenance, SftRow
from trace_flywheel.sample.write import write_sample

LOADERS = (
    *("datasets", "trl", "verl.utils.dataset.multiturn_sft_dataset", "skyrl.train.sft_trainer"),
    *("skyrl.train.dataset.pretokenized", "openenv.core.harness.collect"),
)
REAL = ("benchflow-jobs-skill-lift", "harbor-jobs-refresh")
SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
)


def pytest_configure() -> None:
    """In the trainers' own environment nothing may skip: what cannot be imported there ends the run."""
    if sys.version_info < (3, 12):
        # skyrl asks for Python 3.12 for this alone: pydantic wants the backport's TypedDict before it
        typing.TypedDict = typing_extensions.TypedDict  # type: ignore[misc]
    if os.environ.get("TRAINERS_REQUIRED"):
        for module in LOADERS:
            importlib.import_module(module)


@pytest.fixture(scope="session")
def tokenizer() -> Callable[[str], Any]:
    """`tokenizer("qwen3")`: one token a byte and the special ones, with that chat template."""
    import trl
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    def make(template: str) -> Any:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        bytewise = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
        bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        bytewise.decoder = decoders.ByteLevel()
        tokens = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": "<|begin_of_text|>"}
        made = PreTrainedTokenizerFast(tokenizer_object=bytewise, **tokens)
        made.add_special_tokens({"additional_special_tokens": list(SPECIAL)})
        folder = Path(str(trl.__file__)).parent / "chat_templates"
        made.chat_template = (folder / f"{template}.jinja").read_text("utf-8")
        return made

    return make


@pytest.fixture(scope="session", params=["sample", pytest.param("corpus", marks=pytest.mark.corpus)])
def jobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Job folders: the sample's, and real BenchFlow and Harbor jobs."""
    if request.param == "sample":
        folder = tmp_path_factory.mktemp("sample")
        write_sample(folder)
        return folder
    unpack = request.getfixturevalue("corpus")
    # all are needed, beside each other
    folders = [unpack(source) for source in REAL]
    return folders[0].parent


@pytest.fixture(scope="session")
def converted(jobs: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`converted("trl-sft")`: what `flywheel convert` writes of the jobs in that layout."""
    made: dict[str, Path] = {}

    def convert(layout: str, *options: str) -> Path:
        key = " ".join((layout, *options))
        if key not in made:
            out = tmp_path_factory.mktemp(layout) / ("rows.parquet" if layout == "verl-sft" else "rows.jsonl")
            assert main(["convert", str(jobs), "--format", layout, "--out", str(out), *options]) == 0
            made[key] = out
        return made[key]

    return convert


@pytest.fixture(scope="session")
def versions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of the sample's dataset versions, by dataset, with every layout that a dataset can hold."""
    folder = tmp_path_factory.mktemp("datasets")
    write_sample(folder / "jobs")
    assert main(["refresh", "--root", str(folder / "jobs"), "--home", str(folder / "home")]) == 0
    latest = sorted(folder.glob("home/datasets/*/latest"))
    return {file.parent.name: file.parent / file.read_text("utf-8").strip() for file in latest}


@pytest.fixture(scope="session")
def exported(versions: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """`exported("sft_dataset", "verl-sft")`: the folder that `flywheel export` writes."""

    def export(name: str, layout: str) -> Path:
        out = tmp_path_factory.mktemp("exports") / f"{name}-{layout}"
        home = versions[name].parents[2]
        assert main(["export", name, "--format", layout, "--out", str(out), "--home", str(home)]) == 0
        return out

    return export


@pytest.fixture(scope="session")
def sft_row() -> SftRow:
    """Two tools whose schemas differ, parallel calls answered out of order, a masked turn, then the answer."""
    bash = {"type": "object", "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}}}
    read = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    calls = (
        ToolCall("call_1", "bash", '{"command": "ls  -l", "timeout": 5}'),
        ToolCall("call_2", "read", '{"path": "a.txt"}'),
    )
    messages = (
        Message("system", "You are careful."),
        Message("user", "Measure it."),
        Message("assistant", "Two looks.", reasoning="First look.", tool_calls=calls),
        Message("tool", "a.txt", tool_call_id="call_1"),
        Message("tool", "12.3", tool_call_id="call_2"),
        Message("assistant", "A guess.", train_on=False),
        Message("user", "No guesses."),
        Message("assistant", "It is 12.3."),
    )
    tools = (Tool("bash", "Run a command.", bash), Tool("read", "Read a file.", read))
    about = Provenance(row_id="r1", kind="sft", task_id="t", run_id="jobs/a", trace_ids=("t1",), rewards=(1.0,))
    return SftRow("r1", messages, tools, about)
