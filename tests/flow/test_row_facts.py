"""What a card says about published pairs and labels."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import Flow, group, trace
from trace_flywheel.flow.row_facts import kto_weights
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import find_version, provenance

MakeFlow = Callable[..., Flow]


def facts(made: Made) -> dict[str, Any]:
    return dict(json.loads((made.path / "manifest.json").read_text())["facts"])


def card(made: Made) -> str:
    return (made.path / "README.md").read_text()


def test_a_pair_says_where_its_delta_comes_from_and_what_its_group_was(flow: MakeFlow, tmp_path: Path) -> None:
    scores = tmp_path / "scores.jsonl"
    judged = [{"trace_id": t, "value": v, "judge": "j"} for t, v in (("b-0", 0.9), ("b-3", 0.2))]
    scores.write_text("".join(json.dumps(row) + "\n" for row in judged))
    rows = [*group("a", (1.0, 0.9, 0.2, 0.0), 1), *group("b", (1.0, 0.9, 0.2, 0.0), 21)]
    made = flow({"r": rows}, judge_scores=[scores]).run()["dpo_dataset"]
    told = {p.task_id: p for p in provenance(find_version(made.path.parents[2], "dpo_dataset"))}
    assert (told["a"].delta_source, told["a"].delta) == ("reward", 1.0)
    assert (told["b"].delta_source, told["b"].delta) == ("judge", 0.7)
    assert (told["a"].group_size, told["a"].rejected_is_min) == (4, True)
    assert told["a"].spread == pytest.approx(math.sqrt(0.186875))  # of the population
    assert facts(made)["pairs"] == {
        "delta_source": {"judge": 1, "reward": 1},
        "delta": [0.7, 0.7, 1.0],
        "rejected_is_min": 2,
        "group_size": [4, 4, 4],
        "spread": [0.43229, 0.43229, 0.43229],
    }
    for line in ("ddof=0", 'delta_source: {"judge": 1, "reward": 1}', "rejected_is_min: 2", "built: 8"):
        assert line in card(made)


def test_a_card_says_how_many_rows_only_the_hash_parted(flow: MakeFlow) -> None:
    made = flow({"r": [*group("a", (1.0, 1.0, 1.0, 1.0), 1), *group("b", (1.0,), 30)]}).run()["sft_dataset"]
    assert facts(made)["tied_share"] == 0.8
    assert "tied_share: 0.8" in card(made)


@pytest.mark.parametrize(
    ("good", "bad", "weights"),
    [(10, 10, (1.0, 1.0)), (4, 3, (1.0, 1.0)), (2, 8, (4.0, 1.0)), (8, 2, (1.0, 3.0)), (0, 3, None)],
)
def test_weights_bring_labels_into_the_advised_balance(
    good: int, bad: int, weights: tuple[float, float] | None
) -> None:
    found = kto_weights(good, bad)
    assert (found and tuple(found.values())) == weights
    if found:
        balance = found["desirable_weight"] * good / (found["undesirable_weight"] * bad)
        assert 1 <= round(balance, 3) <= 1.334


def test_the_card_of_unpaired_answers_says_labels_and_weights(flow: MakeFlow) -> None:
    rows = [*group("a", (1.0, 0.9, 0.2, 0.0), 1), trace("x", "b", 1.0, 30), trace("y", "b", 1.0, 40)]
    made = flow({"r": rows}).run()["kto_dataset"]
    assert facts(made)["labels_published"] == {"desirable": 3, "undesirable": 1}
    assert facts(made)["kto_weights"] == {"desirable_weight": 1.0, "undesirable_weight": 2.25}
    assert "undesirable_weight: 2.25" in card(made)


def test_a_broken_off_attempt_is_in_a_pair_only_where_set(flow: MakeFlow) -> None:
    error = {"category": "timeout", "by": "agent"}
    rows = group("a", (1.0, 0.9, 0.8, 0.0), 1)
    rows[0]["error"] = error
    made = flow({"r": rows}).run()["dpo_dataset"]
    (pair,) = provenance(find_version(made.path.parents[2], "dpo_dataset"))
    assert pair.trace_ids == ("a-1", "a-3")
    rows[3]["error"] = error
    options = {"pairs": {"errored_rejected": True}}
    assert flow({"r": rows}, at="b", name="b").run()["dpo_dataset"].rows == 0
    assert flow({"r": rows}, at="b", name="c", **options).run()["dpo_dataset"].rows == 1
    del rows[3]["error"]
    rows[3]["is_truncated"] = True
    assert flow({"r": rows}, at="d", name="d").run()["dpo_dataset"].ledger.dropped["quality"] == {"truncated": 1}
    assert flow({"r": rows}, at="d", name="e", **options).run()["dpo_dataset"].rows == 1
