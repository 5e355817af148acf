"""skyrl-sft through SkyRL's own row tokenisation: the conversation as the template renders it, tools parsed."""

import json
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.trainers.registry import layout

trainer = pytest.importorskip("skyrl.train.sft_trainer", exc_type=ImportError)

from skyrl.train.config.sft_config import TrainOnWhat  # noqa: E402

SOME = 16
PROMPTS = ([1, 2, 3], [1, 2, 3, 10, 11, 20])
ANSWERS = ([10, 11], [30])


def told(tokenizer: Any, made: dict[str, Any]) -> tuple[str, str]:
    """All text, and the text that is learned."""
    window = made["input_ids"][-made["num_actions"] :]
    assert len(window) == len(made["loss_mask"])
    learned = [token for token, taught in zip(window, made["loss_mask"], strict=True) if taught]
    return tokenizer.decode(made["input_ids"]), tokenizer.decode(learned)


def test_the_turns_before_the_masked_one_are_learned(sft_row, tokenizer) -> None:
    (row,) = layout("skyrl-sft").sft_rows(sft_row)
    made = trainer.tokenize_chat_example(
        row, tok := tokenizer("qwen2_5"), train_on_what=TrainOnWhat.ALL_ASSISTANT_MESSAGES
    )
    whole, learned = told(tok, made)
    assert learned == (
        "Two looks.\n"
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls  -l", "timeout": 5}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call><|im_end|>'
    )
    assert '"parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}' in whole
    assert "A guess." not in whole


@pytest.mark.parametrize("template", ["qwen3", "qwen2_5"])
def test_every_row_renders_as_its_template_does(converted, tokenizer, template: str) -> None:
    tok = tokenizer(template)
    rows = [json.loads(line) for line in converted("skyrl-sft").read_bytes().splitlines()][:SOME]
    assert rows
    for row in rows:
        whole, learned = told(tok, trainer.tokenize_chat_example(row, tok))
        said = list(row["messages"])
        while said[-1]["role"] == "tool":  # SkyRL takes off results that nothing follows
            said.pop()
        for message in said:
            for call in message.get("tool_calls") or ():
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        expected = tok.apply_chat_template(said, tools=json.loads(row["tools"]) or None, tokenize=False)
        assert whole == expected
        assert learned
        assert expected.endswith(learned)


def token_trial(trial: Path) -> None:
    """A BenchFlow trial of two calls whose capture has token ids."""
    messages: list[dict[str, Any]] = []
    lines = []
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True):
        messages.append({"role": "user", "content": f"ask {prompt[-1]}"})
        said = {"role": "assistant", "content": f"say {answer[0]}"}
        body = {"model": "p", "messages": list(messages)}
        completion = {"index": 0, "token_ids": answer, "logprobs": [-0.5] * len(answer)}
        block = {"schema_version": "benchflow.token_capture.v1", "provider": "vllm", "unavailable": {}}
        block |= {"prompt_token_ids": prompt, "completions": [completion]}
        response = {"status_code": 200, "body": {"choices": [{"index": 0, "message": said}]}}
        lines.append({"request": {"body": body}, "response": response, "metadata": {"token_capture": block}})
        messages.append(said)
    (trial / "trajectory").mkdir(parents=True)
    (trial / "trajectory/llm_trajectory.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (trial / "result.json").write_text(json.dumps({"task_name": "t", "agent": "a", "rewards": {"reward": 1.0}}))


def test_token_rows_load_as_a_pretokenised_set(tmp_path: Path) -> None:
    from skyrl.train.dataset.pretokenized import load_from_pretokenized

    token_trial(tmp_path / "job/t__1")
    out = tmp_path / "rows.jsonl"
    assert main(["convert", str(tmp_path / "job"), "--format", "skyrl-tokens", "--out", str(out)]) == 0
    rows = load_from_pretokenized(str(out))
    assert len(rows) == 1
    learned = {name: rows[0][name] for name in ("input_ids", "num_actions", "loss_mask")}
    assert learned == {"input_ids": [1, 2, 3, 10, 11, 20, 30], "num_actions": 4, "loss_mask": [1, 1, 0, 1]}
