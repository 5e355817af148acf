"""A published folder loads with `datasets.load_dataset`, in every layout, and gives the rows that were written.

Two differences belong to tables and to the library, and no value is lost by them in the files: a column that a row
leaves out is None, and numbers have ten decimals, because rows with tool schemas of mixed types go through a JSON
writer that stops there.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.cli.main import main
from trace_flywheel.sample.write import write_sample

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
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": ""}
    command = [sys.executable, "-c", LOAD, str(tmp_path / "cache"), *map(str, versions)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    by_name = {version.parent.name: version for version in versions}
    assert {"sft_dataset", "dpo_dataset", "rl_dataset", "balanced_mix"} <= set(by_name)
    assert {"sft_dataset/default", "sft_dataset/trl-sft", "dpo_dataset/trl-dpo", "rl_dataset/default"} <= set(loaded)
    for address, rows in loaded.items():
        name, layout = address.split("/")
        expected = written(by_name[name], layout)
        columns = {column for row in expected for column in row}
        assert rounded(rows) == rounded([dict.fromkeys(columns) | row for row in expected]), address
        assert rows, address
