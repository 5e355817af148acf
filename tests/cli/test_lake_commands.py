"""datasets, ledger, why, export over a published home: documents for programs, lines for people, words for errors."""

import json
import shutil
from pathlib import Path

import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.lake.dataset import find_version

Capture = pytest.CaptureFixture[str]
SETS = ["balanced_mix", "dpo_dataset", "kto_dataset", "rl_dataset", "rl_prompts", "sft_dataset"]


def document(capsys: Capture, *words: str) -> object:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_datasets_lists_the_newest_version_of_each(published_home: Path, capsys: Capture) -> None:
    listed = document(capsys, "datasets", "--home", str(published_home))
    assert isinstance(listed, list)
    assert [one["name"] for one in listed] == SETS
    assert [one["rows"] for one in listed] == [1, 1, 2, 4, 1, 1]
    assert all(Path(one["card"]).is_file() and one["bytes"] > 0 and one["latest"] for one in listed)
    assert main(["datasets", "sft_dataset", "--home", str(published_home)]) == 0
    assert listed[-1]["version"] in capsys.readouterr().out


def test_datasets_of_an_empty_home_says_what_to_do(tmp_path: Path, capsys: Capture) -> None:
    assert main(["datasets", "--home", str(tmp_path)]) == 0
    assert "run `flywheel refresh`" in capsys.readouterr().out


def test_ledger_adds_up_and_names_stages_in_their_order(published_home: Path, capsys: Capture) -> None:
    found = document(capsys, "ledger", "sft_dataset", "--home", str(published_home))
    assert isinstance(found, dict)
    assert (found["in"], found["kept"]) == (5, 1)
    assert found["dropped"] == {
        "convertible": {"no_verdict": 1},
        "selection": {"below_fraction": 1, "not_passing": 2},
    }
    assert [step["stage"] for step in found["funnel"]] == ["convertible", "selection"]
    version = find_version(published_home, "sft_dataset").version
    assert document(capsys, "ledger", f"sft_dataset@{version}", "--home", str(published_home)) == found
    assert main(["ledger", "sft_dataset", "--home", str(published_home)]) == 0
    assert "2 not_passing" in capsys.readouterr().out


def test_why_tells_a_rollouts_fate_in_every_dataset(published_home: Path, capsys: Capture) -> None:
    fates = document(capsys, "why", "a-1", "--run", "r1", "--home", str(published_home))
    assert isinstance(fates, list)
    told = {fate["dataset"]: (fate["kept"], fate["reason"]) for fate in fates}
    assert told == {
        "balanced_mix": (False, "below_fraction"),
        "dpo_dataset": (False, "not_selected_for_pair"),
        "kto_dataset": (True, None),
        "rl_dataset": (True, None),
        "rl_prompts": (False, "over_task_cap"),
        "sft_dataset": (False, "below_fraction"),
    }
    (cut,) = (fate for fate in fates if fate["dataset"] == "sft_dataset")
    assert cut["evidence"]["rank"] == 2
    assert main(["why", "a-0", "--home", str(published_home)]) == 0
    assert "kept: " in capsys.readouterr().out


@pytest.mark.parametrize("words", [["why", "nobody"], ["why", "a-0", "--run", "r9"], ["ledger", "nothing"]])
def test_what_is_not_there_is_said_in_one_line(words: list[str], published_home: Path, capsys: Capture) -> None:
    assert main([*words, "--home", str(published_home)]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no rollout" in error or "no dataset" in error


def test_export_gives_the_published_bytes_of_a_layout(published_home: Path, tmp_path: Path, capsys: Capture) -> None:
    version = find_version(published_home, "sft_dataset")
    for layout in ("prime-sft", "trl-sft"):
        out = tmp_path / layout
        words = ["export", "sft_dataset", "--format", layout, "--out", str(out), "--home", str(published_home)]
        assert main(words) == 0
        published = version.path / "layouts" / layout / "data-00000.jsonl"
        assert (out / "data-00000.jsonl").read_bytes() == published.read_bytes()
        assert {p.name for p in out.iterdir()} == {
            "data-00000.jsonl",
            "provenance.parquet",
            "manifest.json",
            "README.md",
        }
    assert "1 rows of sft_dataset@" in capsys.readouterr().out


def test_export_of_pairs(published_home: Path, tmp_path: Path) -> None:
    version = find_version(published_home, "dpo_dataset")
    out = tmp_path / "pairs"
    assert main(["export", "dpo_dataset", "--format", "trl-dpo", "--out", str(out), "--home", str(published_home)]) == 0
    published = version.path / "layouts" / "trl-dpo" / "data-00000.jsonl"
    assert (out / "data-00000.jsonl").read_bytes() == published.read_bytes()


def test_export_refuses_a_layout_that_cannot_hold_the_rows_and_a_full_folder(
    published_home: Path, tmp_path: Path, capsys: Capture
) -> None:
    words = ["export", "dpo_dataset", "--out", str(tmp_path / "x"), "--home", str(published_home), "--format"]
    assert main([*words, "nope"]) == 2
    assert main([*words, "prime-sft"]) == 1
    assert "its rows fit: messages, trl-dpo" in capsys.readouterr().err
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_text("keep")
    assert main([*words, "trl-dpo"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "x" / "mine").read_text() == "keep"


def test_rescan_names_versions_with_findings_under_todays_rules(
    published_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert main(["datasets", "sft_dataset", "--rescan", "--home", str(published_home)]) == 0
    assert capsys.readouterr().out.startswith("sft_dataset@")
    # A rule that came after publication: the role of every message is a secret now.
    (tmp_path / "mine.toml").write_text(
        "family = 'f'\n[[rule]]\nname = 'ours'\ndetect = 'assistant'\nconfirm = '(assistant)'\n"
        "examples = ['assistant']\n"
    )
    (tmp_path / "flywheel.toml").write_text("[redaction]\nrules = ['mine.toml']\n")
    monkeypatch.chdir(tmp_path)
    assert main(["datasets", "sft_dataset", "--rescan", "--json", "--home", str(published_home)]) == 1
    (one,) = json.loads(capsys.readouterr().out)
    assert one["lines_with_findings"]
    assert list(one["findings"]) == ["ours"]


def test_brackets_in_a_path_are_printed(published_home, tmp_path, capsys):
    home = tmp_path / "H [x]"
    shutil.copytree(published_home, home)
    assert main(["datasets", "--home", str(home)]) == 0
    assert str(home / "datasets" / "sft_dataset") in capsys.readouterr().out


@pytest.fixture
def refused_home(tmp_path: Path, capsys: Capture) -> Path:
    """A home whose mix lost its whole set: a class of the target has no row."""
    run = tmp_path / "evals" / "runs" / "r1"
    run.mkdir(parents=True)
    turns = [{"role": "user", "content": "What is the capital of Peru?"}, {"role": "assistant", "content": "Lima."}]
    row = {"task_id": "t", "trace_id": "t-1", "verdict": "pass", "reward": 1.0, "grader": "g", "messages": turns}
    (run / "results.json").write_text(json.dumps([row]))
    (tmp_path / "flywheel.toml").write_text("[mix.target]\nsingle = 0.5\ncomparison = 0.5\n")
    home = tmp_path / "home"
    refresh = ["refresh", "--root", str(tmp_path / "evals"), "--home", str(home)]
    assert main([*refresh, "--config", str(tmp_path / "flywheel.toml")]) == 0
    capsys.readouterr()
    return home


REFUSED = "balanced_mix: comparison has no rows: the mix is empty; set mix.target or mix.shortage. Not published"


@pytest.mark.parametrize(
    "words",
    [
        ("export", "balanced_mix", "--format", "trl-sft", "--out", "out"),
        ("ledger", "balanced_mix"),
        ("datasets", "balanced_mix"),
    ],
)
def test_a_dataset_that_was_refused_and_never_published_says_why(
    refused_home: Path, capsys: Capture, words: tuple[str, ...]
) -> None:
    assert main([*words, "--home", str(refused_home)]) == 1
    assert f"{REFUSED}; there is no version yet" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("datasets",), ("why", "t-1")])
def test_what_names_all_datasets_names_the_refused_ones_too(
    refused_home: Path, capsys: Capture, words: tuple[str, ...]
) -> None:
    assert main([*words, "--home", str(refused_home), "--json"]) == 0
    told = capsys.readouterr()
    assert told.err == f"warning: {REFUSED}\n"
    assert "balanced_mix" not in told.out


def test_the_version_before_a_refused_one_is_given_with_a_word(
    refused_home: Path, tmp_path: Path, capsys: Capture
) -> None:
    config = tmp_path / "flywheel.toml"
    refresh = ["refresh", "--root", str(tmp_path / "evals"), "--home", str(refused_home), "--config", str(config)]
    lost = config.read_text()
    config.write_text("[mix.target]\nsingle = 1.0\n")
    assert main(refresh) == 0
    capsys.readouterr()
    assert main(["ledger", "balanced_mix", "--home", str(refused_home)]) == 0
    assert capsys.readouterr().err == ""
    config.write_text(lost)
    assert main(refresh) == 0
    capsys.readouterr()
    assert main(["ledger", "balanced_mix", "--home", str(refused_home)]) == 0
    assert capsys.readouterr().err == f"warning: {REFUSED}; the version before stays\n"
    out = ["export", "balanced_mix", "--format", "trl-sft", "--out", str(tmp_path / "out")]
    assert main([*out, "--home", str(refused_home)]) == 0
    assert capsys.readouterr().err == f"warning: {REFUSED}; the version before stays\n"
