"""trl-sft, trl-dpo and kto through TRL's own trainers: what they make of our rows, token by token."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.trainers.registry import layout

trl = pytest.importorskip("trl", exc_type=ImportError)

from datasets import Dataset, load_dataset  # noqa: E402

TEMPLATES = ["qwen3", "qwen2_5"]
SOME = 16
"""Rows of a real file that are tokenised: each is a long conversation."""


@pytest.fixture(scope="module")
def model() -> Any:
    """A model of a few thousand numbers: the trainers want one, its weights do not matter."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=320, num_key_value_heads=1, **sizes))


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[Path], Dataset]:
    """The file's rows as TRL's users read them."""
    return lambda path: load_dataset("json", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))


@pytest.fixture
def trainer(model: Any, tmp_path: Path) -> Callable[..., Any]:
    """`trainer("SFT", rows, tokenizer)`, built as a user builds it."""

    def make(kind: str, rows: Dataset, tokenizer: Any) -> Any:
        options = {"use_cpu": True, "bf16": False, "max_length": None, "report_to": []}
        args = getattr(trl, f"{kind}Config")(output_dir=str(tmp_path / "run"), **options)
        reference = {} if kind == "SFT" else {"ref_model": copy.deepcopy(model)}
        make_it = getattr(trl, f"{kind}Trainer")
        return make_it(model, args=args, train_dataset=rows, processing_class=tokenizer, **reference)

    return make


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def trained(tokenizer: Any, tokens: dict[str, Any]) -> tuple[str, str]:
    """The text that is context and the text that is learned."""
    pairs = list(zip(tokens["input_ids"], tokens["labels"], strict=True))
    assert all(label in (-100, token) for token, label in pairs)
    context, learned = ([t for t, label in pairs if (label != -100) is taught] for taught in (False, True))
    return tokenizer.decode(context), tokenizer.decode(learned)


def test_sft_learns_each_supervised_turn_and_nothing_else(sft_row, loaded, trainer, tokenizer, tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in layout("trl-sft").sft_rows(sft_row)))
    made = trainer("SFT", loaded(path), tok := tokenizer("qwen3")).train_dataset
    (_, call), (before, answer) = (trained(tok, tokens) for tokens in made)
    assert call == (
        "<think>\n\n</think>\n\nTwo looks.\n"
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls  -l", "timeout": 5}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call><|im_end|>\n'
    )
    assert answer == "<think>\n\n</think>\n\nIt is 12.3.<|im_end|>\n"
    declared = '"parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}'
    assert declared in before
    assert "<tool_response>\na.txt\n</tool_response>\n<tool_response>\n12.3\n</tool_response>" in before
    assert "A guess." in before  # the masked turn is context and no target


@pytest.mark.parametrize("template", TEMPLATES)
def test_sft_learns_the_completion_of_every_row(converted, loaded, trainer, tokenizer, template: str) -> None:
    path = converted("trl-sft")
    written = rows_of(path)[:SOME]
    rows = loaded(path).select(range(len(written)))
    made = trainer("SFT", rows, tok := tokenizer(template)).train_dataset
    assert len(made) == len(written) > 0
    for row, tokens in zip(written, made, strict=True):
        whole = tok.apply_chat_template(row["prompt"] + row["completion"], tools=row["tools"], tokenize=False)
        asked = {"tools": row["tools"], "tokenize": False, "add_generation_prompt": True}
        prompt = tok.apply_chat_template(row["prompt"], **asked)
        assert trained(tok, tokens) == (prompt, whole[len(prompt) :])


def test_sft_takes_a_published_dataset_and_a_step(versions, trainer, tokenizer, tmp_path) -> None:
    rows = load_dataset(str(versions["sft_dataset"]), "trl-sft", split="train", cache_dir=str(tmp_path / "cache"))
    ready = trainer("SFT", rows, tokenizer("qwen3"))
    batch = ready.data_collator([ready.train_dataset[i] for i in range(2)])
    assert float(ready.model(**{k: v for k, v in batch.items() if k != "position_ids"}).loss) > 0


@pytest.mark.parametrize("template", TEMPLATES)
def test_dpo_splits_where_the_answers_part(versions, trainer, tokenizer, template: str, tmp_path) -> None:
    folder = str(versions["dpo_dataset"])
    rows = load_dataset(folder, "trl-dpo", split="train", cache_dir=str(tmp_path / "cache"))
    written = rows_of(versions["dpo_dataset"] / "layouts/trl-dpo/data-00000.jsonl")
    made = trainer("DPO", rows, tok := tokenizer(template)).train_dataset
    assert len(made) == len(written) > 0
    for row, tokens in zip(written, made, strict=True):
        options = {"tools": row["tools"], "tokenize": False}
        prompt = tok.apply_chat_template(row["prompt"], add_generation_prompt=True, **options)
        assert tok.decode(tokens["prompt_ids"]) == prompt
        for side in ("chosen", "rejected"):
            whole = tok.apply_chat_template(row["prompt"] + row[side], **options)
            assert prompt + tok.decode(tokens[f"{side}_ids"]) == whole


def test_kto_reads_prompt_completion_and_label(converted, loaded, trainer, tokenizer) -> None:
    path = converted("kto")
    written = rows_of(path)[:SOME]
    rows = loaded(path).select(range(len(written)))
    made = trainer("KTO", rows, tok := tokenizer("qwen3")).train_dataset
    assert len(made) == len(written) > 0
    for row, tokens in zip(written, made, strict=True):
        whole = tok.apply_chat_template(row["prompt"] + row["completion"], tools=row["tools"], tokenize=False)
        assert bool(tokens["label"]) is row["label"]
        assert tok.decode(tokens["prompt_ids"]) + tok.decode(tokens["completion_ids"]) == whole
