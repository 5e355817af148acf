"""The YAML front matter of a dataset card, by which `datasets.load_dataset` takes a version's folder.

One configuration a layout, with the type of every column: left to guess, the library takes the types of the first ten
megabytes for all, and a column that is null so long and then is not fails to load. A table names its own types.

A split without rows is not named beside one that has some: the library reads no data out of it and gives up on all.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from trace_flywheel.lake.shards import SPLITS, shard_stem

CANONICAL = "messages"


def front_matter(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Its lines, the dashes around it included."""
    yield from ("---", f"pretty_name: {quoted(manifest['dataset'])}", f"size_categories: [{_size(manifest['rows'])}]")
    if license := manifest.get("settings", {}).get("card", {}).get("license"):
        yield f"license: {quoted(license)}"
    yield from ("tags: [agent-trajectories, trace-flywheel]", "configs:")
    typed: list[str] = []
    for folder, paths in _folders(manifest).items():
        name = folder.removeprefix("layouts/").rstrip("/") or "default"
        yield from (f"- config_name: {name}", *_data_files(folder, paths))
        if name == "default":
            yield "  default: true"
        layout = manifest.get("layout", CANONICAL) if name == "default" else name
        columns = manifest.get("columns", {}).get(layout, {})
        if columns and paths[0].endswith(".jsonl"):
            typed += [f"- config_name: {name}", "  features:"]
            for column, kind in columns.items():
                typed += [f"  - name: {quoted(column)}", f"    {kind if ': ' in kind else f'dtype: {kind}'}"]
    yield from ("dataset_info:", *typed) if typed else ()
    yield from ("---", "")


def quoted(text: str) -> str:
    """A YAML scalar: JSON strings are YAML."""
    return json.dumps(text, ensure_ascii=False)


def _folders(manifest: Mapping[str, Any]) -> dict[str, list[str]]:
    """The files by the folder of their layout; those of the version folder itself are an export's one layout too."""
    found: dict[str, list[str]] = {}
    empty: dict[str, list[str]] = {}
    for file in sorted(manifest["files"], key=lambda file: str(file["path"])):
        where = found if file["rows"] else empty
        where.setdefault(file["path"].rpartition("data-")[0], []).append(file["path"])
    return dict(sorted({**empty, **found}.items()))


def _data_files(folder: str, paths: list[str]) -> Iterator[str]:
    """All files of a folder, or the files of each split."""
    if not any(path.startswith(f"{folder}data-") for path in paths):
        yield f"  data_files: {quoted(paths[0])}"
        return
    suffix = PurePosixPath(paths[0]).suffix
    stems = {split: f"{folder}{shard_stem(split)}" for split in SPLITS}
    there = [s for s, stem in stems.items() if any(p.startswith(stem) and p[len(stem)].isdigit() for p in paths)]
    if there == ["train"]:
        yield f"  data_files: {quoted(f'{folder}data-*{suffix}')}"
        return
    yield "  data_files:"
    for split in there:
        yield from (f"  - split: {split}", f"    path: {quoted(f'{stems[split]}[0-9]*{suffix}')}")


def _size(rows: int) -> str:
    for limit, name in ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")):
        if rows < limit:
            return name
    return "n>1M"
