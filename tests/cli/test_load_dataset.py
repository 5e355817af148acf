"""A published folder loads with `datasets.load_dataset`, in every layout, and gives the rows that were written.

A version without rows has its columns all the same, streamed: without streaming the library (5.2) refuses any split of
no rows, whatever its file is. Two differences belong to tables and to the library, and no value is lost by them in the
files: a column that a row leaves out is None, and numbers have ten decimals, because columns of JSON values go through
a JSON writer that stops there.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import Flow, trace, write_runs
from trace_flywheel.cli.main import main
from trace_flywheel.curation.splits import split_of
from trace_flywheel.lake.front_matter import front_matter
from trace_flywheel.sample.write import write_sample
from trace_flywheel.settings import Splits
from trace_flywheel.trainers.columns import column_types

LOAD = """
import json, sys
from pathlib import Path
from datasets import get_dataset_config_names, load_dataset
found = {}
for folder in sys.argv[2:]:
    for name in get_dataset_config_names(folder):
        rows = load_dataset(folder, name, cache_dir=sys.argv[1])["train"]
        found[f"{Path(folder).parent.name}/{name}"] = list(rows)
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("load")
    write_sample(folder / "jobs")
    assert main(["refresh", "--root", str(folder / "jobs"), "--home", str(folder / "home")]) == 0
    return [latest.parent / latest.read_text().strip() for latest in sorted(folder.glob("home/datasets/*/latest"))]


LINES = """
import json, sys
from datasets import load_dataset
rows = load_dataset(sys.argv[2], cache_dir=sys.argv[1])["train"]
json.dump([rows.column_names, rows[0], rows[len(rows) - 1]], sys.stdout)
"""


def run(script: str, tmp_path: Path, *paths: Path) -> Any:
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": ""}
    command = [sys.executable, "-c", script, str(tmp_path / "cache"), *map(str, paths)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def written(version: Path, layout: str) -> list[dict[str, Any]]:
    folder = version if layout == "default" else version / "layouts" / layout
    shards = sorted(folder.glob("data-*.jsonl"))
    return [json.loads(line) for shard in shards for line in shard.read_bytes().split(b"\n") if line]


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def test_every_layout_of_every_dataset_loads_as_it_was_written(versions: list[Path], tmp_path: Path) -> None:
    loaded: dict[str, list[dict[str, Any]]] = run(LOAD, tmp_path, *versions)
    by_name = {version.parent.name: version for version in versions}
    assert {"sft_dataset", "dpo_dataset", "rl_dataset", "balanced_mix"} <= set(by_name)
    assert {"sft_dataset/default", "sft_dataset/trl-sft", "dpo_dataset/trl-dpo", "rl_dataset/default"} <= set(loaded)
    for address, rows in loaded.items():
        name, layout = address.split("/")
        expected = written(by_name[name], layout)
        columns = {column for row in expected for column in row}
        assert rounded(rows) == rounded([dict.fromkeys(columns) | row for row in expected]), address
        assert rows, address


def test_a_column_that_is_null_for_ten_megabytes_and_then_is_not_loads(tmp_path: Path) -> None:
    """The library guesses types from the first ten megabytes; the card names them."""
    said = {"role": "user", "content": "x" * 1_000_000}
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}
    early = {"row_id": "a", "messages": [said], "tools": [], "reward": None, "group": None}
    late = {"row_id": "b", "messages": [said, {"role": "assistant", "content": None, "tool_calls": [call]}]}
    late |= {"tools": [{"type": "function"}], "reward": 1, "group": {"mean": 0.5}}
    rows = [*[early] * 12, late]
    (tmp_path / "set").mkdir()
    (tmp_path / "set/data-00000.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [{"path": "data-00000.jsonl", "rows": 13}]
    manifest = {"dataset": "d", "rows": 13, "files": files, "columns": {"messages": column_types("messages", early)}}
    (tmp_path / "set/README.md").write_text("\n".join(front_matter(manifest)))
    names, first, last = run(LINES, tmp_path, tmp_path / "set")
    assert (names, first, last) == (sorted(early), early, {**late, "reward": 1.0})


@pytest.mark.parametrize("layout", ["skyrl-sft", "verl-sft", "openai-ft"])
def test_an_export_loads_whatever_its_container(versions: list[Path], layout: str, tmp_path: Path) -> None:
    home = versions[0].parents[2]
    assert main(["export", "sft_dataset", "--format", layout, "--out", str(tmp_path / "out"), "--home", str(home)]) == 0
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    names, first, _ = run(LINES, tmp_path, tmp_path / "out")
    assert set(manifest["columns"][layout]) <= set(names)
    assert first["messages"][0]["role"] in {"system", "user"}


def test_an_export_that_is_a_folder_loads(versions: list[Path], tmp_path: Path) -> None:
    home, out = versions[0].parents[2], tmp_path / "out"
    assert main(["export", "rl_dataset", "--format", "openenv-episodes", "--out", str(out), "--home", str(home)]) == 0
    lines = (out / "episodes/results.jsonl").read_text().splitlines()
    names, first, _ = run(LINES, tmp_path, out)
    assert names == sorted(json.loads(lines[0]))
    assert rounded(first) == rounded(json.loads(lines[0]))


STREAMED = """
import json, sys
from datasets import get_dataset_config_names, load_dataset
found = {}
for folder in sys.argv[2:]:
    for name in get_dataset_config_names(folder):
        for split, rows in load_dataset(folder, name, cache_dir=sys.argv[1], streaming=True).items():
            found[f"{folder}/{name}/{split}"] = [list(rows.features), len(list(rows))]
json.dump(found, sys.stdout)
"""


def test_a_version_of_any_kind_without_rows_has_its_columns(versions: list[Path], tmp_path: Path) -> None:
    """One rollout that nobody graded makes an empty version of every kind, in every layout."""
    root = write_runs(tmp_path / "data", {"r1": [trace("t", "a", None, 1, verdict="unsure")]})
    made = Flow(root, tmp_path / "home").run()
    folders = {name: one.path for name, one in made.items() if (one.path / "README.md").exists()}
    assert set(folders) == {"sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset", "rl_prompts", "balanced_mix"}
    assert {one.rows for name, one in made.items() if name in folders} == {0}
    found = run(STREAMED, tmp_path, *folders.values())
    assert {rows for _, rows in found.values()} == {0}
    # The sample's versions have rows: their columns, and what only some rows have apart, are those of empty ones.
    for version in versions:
        for layout in ("default", *(path.name for path in (version / "layouts").glob("*"))):
            columns = {column for row in written(version, layout) for column in row}
            (name,) = [path for path in folders.values() if path.parent.name == version.parent.name]
            assert set(found[f"{name}/{layout}/train"][0]) == columns, (version, layout)
    assert "streaming=True" in (folders["sft_dataset"] / "README.md").read_text()


def test_a_version_whose_rows_are_all_outside_train_loads(tmp_path: Path) -> None:
    root = write_runs(tmp_path / "data", {"r1": [trace("t", "a", 1.0, 1)]})
    shares = Splits(eval=0.45, held_out=0.45)
    seed = next(seed for seed in range(99) if split_of("a", shares, seed) != "train")
    made = Flow(root, tmp_path / "home", splits=shares.model_dump(), seed=seed).run()
    splits = made["sft_dataset"].path / "manifest.json"
    (split,) = json.loads(splits.read_text())["splits"]
    assert split == split_of("a", shares, seed)
    found = run(STREAMED.replace(", streaming=True", ""), tmp_path, splits.parent)
    assert {address.rpartition("/")[2] for address in found} == {split}
    assert {rows for _, rows in found.values()} == {1}


@pytest.mark.parametrize("layout", ["verl-sft", "messages", "openai-ft"])
def test_an_export_without_rows_has_its_columns(layout: str, tmp_path: Path) -> None:
    root = write_runs(tmp_path / "data", {"r1": [trace("t", "a", None, 1, verdict="unsure")]})
    Flow(root, tmp_path / "home").run()
    out = tmp_path / "out"
    words = ["export", "sft_dataset", "--format", layout, "--out", str(out), "--home", str(tmp_path / "home")]
    assert main(words) == 0
    (columns, rows) = run(STREAMED, tmp_path, out)[f"{out}/default/train"]
    assert (rows, "messages" in columns) == (0, True)
