"""A file at target shares: both policies, uncertain rows, rollouts as a whole, any column."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.recordings import rows_of
from trace_flywheel.flow.depth.filter import MixOf, filter_rows
from trace_flywheel.records.errors import FlywheelError

TARGET = {"single": 0.3, "multi": 0.5, "comparison": 0.2}
SPELLING = ("single-hop", "multi-hop", "comparison", "other", "uncertain")


def file_of(tmp_path: Path, *supply: int) -> Path:
    path = tmp_path / "scored.jsonl"
    depths = [depth for depth, n in zip(SPELLING, supply, strict=False) for _ in range(n)]
    rows = ({"prompt": f"question {i}", "reasoning_depth": depth} for i, depth in enumerate(depths))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def kept(path: Path) -> dict[str, int]:
    return dict(Counter(row["reasoning_depth"] for row in rows_of(path)))


def test_shares_counts_and_the_limiting_class(tmp_path: Path) -> None:
    path, out = file_of(tmp_path, 60, 50, 40, 30, 9), tmp_path / "out.jsonl"
    told = filter_rows(path, out, MixOf(TARGET))
    assert kept(out) == {"single-hop": 30, "multi-hop": 50, "comparison": 20, "other": 20}
    assert told["limiting"] == "multi"
    assert (told["rows"], told["written"], told["uncertain_left_out"]) == (189, 120, 9)
    assert set(out.read_text().splitlines()) <= set(path.read_text().splitlines())


def test_uncertain_rows_by_policy(tmp_path: Path) -> None:
    path, out = file_of(tmp_path, 3, 5, 2, 0, 10), tmp_path / "out.jsonl"
    filter_rows(path, out, MixOf(TARGET, uncertain="keep"))
    assert kept(out)["uncertain"] == 10
    filter_rows(path, out, MixOf({**TARGET, "other": 0.5}, uncertain="other"))
    assert kept(out)["uncertain"] == 5


def test_a_wanted_class_without_a_row_is_a_failure_here_and_an_empty_file_there(tmp_path: Path) -> None:
    path, out = file_of(tmp_path, 7, 2, 0), tmp_path / "out.jsonl"
    with pytest.raises(FlywheelError, match="no row of class 'comparison'"):
        filter_rows(path, out, MixOf(TARGET))
    assert not out.exists()
    assert filter_rows(path, out, MixOf(TARGET, shortage="renormalize"))["written"] == 3
    told = filter_rows(path, out, MixOf(TARGET, policy="posttrainllm"))
    assert (told["written"], out.read_bytes()) == (0, b"")


def test_shortage_fail_names_its_own_option(tmp_path: Path) -> None:
    with pytest.raises(FlywheelError, match="--shortage shrink"):
        filter_rows(file_of(tmp_path, 9, 1, 9), tmp_path / "out.jsonl", MixOf(TARGET, shortage="fail"))


def test_upsampling_repeats_lines(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    filter_rows(file_of(tmp_path, 9, 2, 1), out, MixOf(TARGET, shortage="upsample", upsample=3))
    assert kept(out) == {"single-hop": 4, "multi-hop": 6, "comparison": 2}


def test_the_originals_policy_takes_what_is_unlabelled_as_other(tmp_path: Path) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"reasoning_depth": "single-hop"}\n{"reasoning_depth": "deep"}\n{}\n')
    told = filter_rows(path, out, MixOf({"single": 1.0, "other": 2.0}, policy="posttrainllm"))
    assert (told["written"], told["supply"]["other"], told["feasible"]) == (3, 2, 3)
    with pytest.raises(FlywheelError, match=r"in.jsonl:2: reasoning_depth is 'deep'; label the rows"):
        filter_rows(path, out, MixOf({"single": 1.0}))


def test_a_rollout_stays_or_goes_whole(tmp_path: Path) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows: list[dict[str, Any]] = [
        {"rollout_id": f"r{r}", "step": s, "reasoning_depth": "single-hop" if r < 4 or s else "multi-hop"}
        for r in range(6)
        for s in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = filter_rows(path, out, MixOf({"single": 0.5, "multi": 0.5}, unit="rollouts"))
    assert told["kept"] == {"multi": 2, "single": 2}
    assert set(Counter(row["rollout_id"] for row in rows_of(out)).values()) == {3}
    assert told["written"] == 12


def test_any_column_by_the_same_code(tmp_path: Path) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps({"task": task, "n": n}) + "\n" for n, task in enumerate("aaaab")))
    told = filter_rows(path, out, MixOf({"a": 1.0, "b": 1.0}, column="task"))
    assert told["kept"] == {"a": 2, "b": 1}
    with pytest.raises(FlywheelError, match="no 'model'"):
        filter_rows(path, out, MixOf({"a": 1.0}, column="model"))


def test_equal_rows_are_each_a_row(tmp_path: Path) -> None:
    path, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text('{"reasoning_depth": "other"}\n' * 4)
    assert filter_rows(path, out, MixOf({"other": 1.0}))["written"] == 4


def rollout_rows(tmp_path: Path) -> Path:
    """Two long single rollouts, six short multi ones of two rows each."""
    rows = [
        {
            "rollout_id": f"s{i}",
            "reasoning_depth": "single-hop",
            "messages": [{"role": "assistant", "content": "x" * 240}],
        }
        for i in range(2)
    ]
    rows += [
        {
            "rollout_id": f"m{i}",
            "reasoning_depth": "multi-hop",
            "messages": [{"role": "assistant", "content": f"{k}" * 40, "output_ids": [1] * 10}],
        }
        for i in range(6)
        for k in range(2)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_supervised_tokens_weigh_whole_rollouts(tmp_path: Path) -> None:
    path, out = rollout_rows(tmp_path), tmp_path / "out.jsonl"
    told = filter_rows(path, out, MixOf({"single": 0.5, "multi": 0.5}, unit="supervised_tokens"))
    assert told["supply_size"] == {"multi": 120, "single": 120}
    assert told["kept_size"] == {"multi": 120, "single": 120}
    assert told["written"] == 14
    told = filter_rows(path, out, MixOf({"single": 0.75, "multi": 0.25}, unit="supervised_tokens"))
    assert told["kept_size"] == {"multi": 40, "single": 120}
    kept = [json.loads(line)["rollout_id"] for line in out.read_text().splitlines()]
    assert sorted(kept.count(name) for name in set(kept)) == [1, 1, 2, 2], "a rollout stays whole"


def test_weights_instead_of_dropping(tmp_path: Path) -> None:
    path, out = rollout_rows(tmp_path), tmp_path / "out.jsonl"
    told = filter_rows(path, out, MixOf({"single": 0.5, "multi": 0.5}, unit="rollouts", mode="weight"))
    assert (told["written"], told["weight"]) == (14, {"multi": 0.5, "single": 1.0})  # of 5: 3 and 2
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["reasoning_depth"]: row["mix_weight"] for row in rows} == {"multi-hop": 0.5, "single-hop": 1.0}


@pytest.mark.parametrize("unit", ["rollouts", "supervised_tokens"])
def test_every_row_of_a_rollout_has_its_rollouts_weight(tmp_path: Path, unit: Any) -> None:
    """Its class is its first row's, whatever the later ones are labelled."""
    path, out = tmp_path / "scored.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"reasoning_depth": d, "rollout_id": r} for r, d in (("a", "single-hop"), ("a", "other"), ("b", "multi-hop"))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = filter_rows(path, out, MixOf({"single": 0.5, "multi": 0.5}, unit=unit, mode="weight"))
    weights = {(row["rollout_id"], row["mix_weight"]) for row in rows_of(out)}
    assert told["written"] == 3
    assert weights == {("a", round(told["weight"]["single"], 9)), ("b", round(told["weight"]["multi"], 9))}
