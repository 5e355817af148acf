"""`convert --format branch-tree` and `validate` of its rows as commands, and BenchFlow's own branch fixture."""

import hashlib
import json

import pytest

from tests.flow.conversion.branch_trees import convert, rows, three_children, validator
from trace_flywheel.cli.main import main
from trace_flywheel.flow.conversion.branch_tree import Request, convert_branches
from trace_flywheel.flow.conversion.manifest import code_version


@pytest.fixture
def trial(tmp_path):
    return three_children(tmp_path)


class TestCommand:
    def run(self, tmp_path, *flags):
        base = ["convert", str(tmp_path / "job"), "--out", str(tmp_path / "rows.jsonl")]
        return main([*base, *flags])

    def test_rows_pairs_and_manifest(self, trial, tmp_path, capsys):
        flags = ["--pairs", str(tmp_path / "p.jsonl"), "--manifest", str(tmp_path / "m.json")]
        assert self.run(tmp_path, "--format", "branch-tree", *flags) == 0
        assert "Converted 3 row(s) from 1 fork(s)" in capsys.readouterr().out
        manifest = json.loads((tmp_path / "m.json").read_text())
        validator("branch-manifest.v1").validate(manifest)
        assert (manifest["child_rows"], manifest["pair_rows"]) == (3, 1)
        assert manifest["settings"] == {
            "pairs": True,
            "pairs_any_request": False,
            "include_oracle": False,
            "min_reward": None,
            "redaction": "standard",
        }
        assert manifest["version"] == code_version()
        tree = hashlib.sha256((trial / "tree.json").read_bytes()).hexdigest()
        assert manifest["inputs"] == [{"path": f"{tmp_path}/job/hello__1/tree.json", "sha256": tree}]
        asked = [(drop["pair"], drop["reason"]) for drop in manifest["drops"]]
        assert asked == [(["n0", "n2"], "different_request"), (["n1", "n2"], "different_request")]
        assert main(["validate", str(tmp_path / "rows.jsonl"), "--format", "branch-tree"]) == 0
        assert main(["validate", str(tmp_path / "p.jsonl"), "--format", "branch-tree"]) == 0

    @pytest.mark.parametrize(
        "flags",
        [
            ["--format", "branch-tree", "--row-mode", "exchange"],
            ["--format", "branch-tree", "--group-advantage", "grpo"],
            ["--format", "branch-tree", "--subagent-rows"],
            ["--pairs", "p.jsonl"],
            ["--format", "trl-sft", "--include-oracle"],
        ],
    )
    def test_flags_of_other_formats_are_refused(self, trial, tmp_path, flags):
        assert self.run(tmp_path, *flags) == 2
        assert not (tmp_path / "rows.jsonl").exists()


def test_validate_holds_siblings_to_one_prefix(trial, tmp_path, capsys):
    children = convert(tmp_path)[0]
    other = {"role": "user", "content": "Something else."}
    children[1] |= {"prefix": [other], "messages": [other, *children[1]["continuation"]]}
    file = tmp_path / "changed.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in children))
    assert main(["validate", str(file), "--format", "branch-tree"]) == 1
    assert capsys.readouterr().err == f"{file}:2: prefix: is not that of the fork's other children\n"


@pytest.mark.corpus
def test_the_repositorys_own_branch_fixture(shared_dir, tmp_path):
    """Conformance case c30: children and pairs as derived from BenchFlow's source."""
    import tarfile

    name = "benchflow-cases/c30_branch_tree"
    with tarfile.open(shared_dir / "conformance" / "benchflow-cases.tar.xz") as tar:
        tar.extractall(tmp_path, [m for m in tar if m.name.startswith(f"{name}/")], filter="data")
    case = tmp_path / name
    out, pairs = tmp_path / "rows.jsonl", tmp_path / "pairs.jsonl"
    convert_branches(Request((case / "input",), out, pairs=pairs, any_request=True))
    keys = ("fork_id", "depth", "value", "advantage", "child", "tool_names", "session")
    derived = case / "expected-derived" / "branch-tree"
    assert [[r[k] for k in keys] for r in rows(out)] == [[r[k] for k in keys] for r in rows(derived / "children.jsonl")]
    assert len(rows(pairs)) == 2


def test_validate_counts_kinds_forks_and_prefixes_that_are_not_whole(trial, tmp_path, capsys):
    out, pairs = tmp_path / "rows.jsonl", tmp_path / "pairs.jsonl"
    assert (
        main(["convert", str(trial.parent), "--format", "branch-tree", "--out", str(out), "--pairs", str(pairs)]) == 0
    )
    capsys.readouterr()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    out.write_text("".join(json.dumps({**row, "prefix_complete": i > 0}) + "\n" for i, row in enumerate(rows)))
    assert main(["validate", str(out), "--format", "branch-tree"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "format": "branch-tree",
        "ok": True,
        "path": str(out),
        "rows": 3,
        "rows_with_tool_calls": 3,
        "kinds": {"branch_child": 3},
        "forks": 1,
        "prefix_incomplete": 1,
    }
    assert main(["validate", str(pairs), "--format", "branch-tree"]) == 0
    said_of_pairs = json.loads(capsys.readouterr().out)
    assert (said_of_pairs["kinds"], said_of_pairs["forks"]) == ({"branch_pair": 1}, 1)
