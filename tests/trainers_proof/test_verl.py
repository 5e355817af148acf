"""verl-sft through verl's own `MultiTurnSFTDataset`, its `sanity_check` included.

It renders each message by itself. So a template passes where no message's text depends on its neighbours; the one of
this test is such. Templates of the Qwen family put results that follow each other in one user turn, and verl refuses
every row with parallel calls there unless `ignore_input_ids_mismatch` is set.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from trace_flywheel.flow.containers import opened
from trace_flywheel.trainers.registry import layout

verl = pytest.importorskip("verl.utils.dataset.multiturn_sft_dataset", exc_type=ImportError)

SOME = 16
PLAIN = (
    "{% for m in messages %}{% if loop.first and tools %}{{ tools | tojson }}\n{% endif %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments }}{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def read(file: Path, tokenizer: Any, rows: int = -1, **config: Any) -> Any:
    config = {"max_length": 10**9, "pad_mode": "no_padding", **config}
    return verl.MultiTurnSFTDataset([str(file)], tokenizer, config, max_samples=rows)


def learned(tokenizer: Any, item: dict[str, Any]) -> str:
    pairs = zip(item["input_ids"].tolist(), item["loss_mask"].tolist(), strict=True)
    return str(tokenizer.decode([token for token, taught in pairs if taught]))


def test_each_kept_turn_is_learned_whole(sft_row, tokenizer, tmp_path) -> None:
    with opened(layout("verl-sft"), tmp_path / "rows.parquet") as file:
        file.writelines(json.dumps(row).encode() + b"\n" for row in layout("verl-sft").sft_rows(sft_row))
    tok = tokenizer("qwen3")
    tok.chat_template = PLAIN
    (item,) = list(map(read(tmp_path / "rows.parquet", tok).__getitem__, range(1)))
    assert learned(tok, item) == ('Two looks.bash{"command": "ls  -l", "timeout": 5}read{"path": "a.txt"}<|im_end|>\n')
    assert "A guess." not in tok.decode(item["input_ids"])


def test_every_row_passes_the_sanity_check(converted, tokenizer) -> None:
    tok = tokenizer("qwen3")
    tok.chat_template = PLAIN
    rows = read(converted("verl-sft"), tok, SOME)
    for position, written in enumerate(pq.read_table(converted("verl-sft")).to_pylist()[:SOME]):
        said = [m for m in written["messages"] if m["role"] == "assistant"]
        calls = [[c["function"]["name"] + c["function"]["arguments"] for c in m["tool_calls"]] for m in said]
        texts = [m["content"] + "".join(c) + "<|im_end|>\n" for m, c in zip(said, calls, strict=True)]
        assert learned(tok, rows[position]) == "".join(texts)


def test_qwen_passes_where_no_results_follow_each_other(converted, tokenizer) -> None:
    rows = read(converted("verl-sft"), tokenizer("qwen2_5"), SOME)
    for position, messages in enumerate(rows.messages):
        roles = [m["role"] for m in messages]
        if any(pair == ("tool", "tool") for pair in itertools.pairwise(roles)):
            with pytest.raises(AssertionError, match="apply_chat_template to each turn"):
                rows[position]
        else:
            assert rows[position]["loss_mask"].any()


def test_a_published_version_exports_to_a_table_that_verl_reads(exported, tokenizer) -> None:
    tok = tokenizer("qwen3")
    tok.chat_template = PLAIN
    folder = exported("sft_dataset", "verl-sft")
    rows = read(folder / "data-00000.parquet", tok)
    assert len(rows) == json.loads((folder / "manifest.json").read_text("utf-8"))["files"][0]["rows"] > 0
    assert all(rows[i]["loss_mask"].any() for i in range(len(rows)))
