"""What no preference pair uses becomes unpaired answers; nothing is learned twice, and one label alone is nothing."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.flow.conftest import Flow, airline, group, trace, write_runs
from trace_flywheel.flow.export import rows_of_version
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import find_version, lines, provenance
from trace_flywheel.records.rows import KtoRow

MakeFlow = Callable[..., Flow]


def reasons(made: Made) -> dict[str, str | None]:
    return {r["trace_id"]: r["reason"] for r in pq.read_table(made.path / "fates.parquet").to_pylist()}


def rows(made: Made, layout: str = "messages") -> list[Any]:
    return [json.loads(line) for line in lines(find_version(made.path.parents[2], made.name), layout)]


def labels(made: Made) -> dict[str, bool]:
    version = find_version(made.path.parents[2], made.name)
    told = {p.row_id: p.trace_ids[0] for p in provenance(version)}
    return {told[row["row_id"]]: row["label"] for row in rows(made)}


def test_rollouts_that_no_pair_uses_become_labelled_answers(flow: MakeFlow) -> None:
    made = flow({"r": group("a", (1.0, 0.9, 0.2, 0.0), 1)}).run()["kto_dataset"]
    assert labels(made) == {"a-1": True, "a-2": False}
    assert reasons(made) == {"a-0": "used_in_pair", "a-1": None, "a-2": None, "a-3": "used_in_pair"}
    row = next(row for row in rows(made, "kto") if row["label"])
    assert row["prompt"] == [{"role": "user", "content": "Do a."}]
    assert [m["role"] for m in row["completion"]] == ["assistant"]
    assert all(isinstance(r, KtoRow) for r in rows_of_version(find_version(made.path.parents[2], made.name)))


def test_one_label_alone_gives_no_rows_and_says_so(flow: MakeFlow) -> None:
    made = flow({"r": group("a", (1.0, 0.9, 0.8), 1)}).run()["kto_dataset"]
    assert (made.rows, set(reasons(made).values())) == (0, {"no_contrast"})


def test_what_cannot_be_an_example_is_none(flow: MakeFlow) -> None:
    error = {"category": "timeout", "by": "agent"}
    won = trace("won", "b", 1.0, 19, error=error)
    mine = [won, trace("late", "b", 0.0, 9, error=error), trace("same", "a", 1.0, 1), trace("none", "c", None, 30, "x")]
    made = flow({"r": [*group("a", (1.0, 0.9, 0.2, 0.0), 1), *mine]}).run()["kto_dataset"]
    found = reasons(made)
    assert found["won"] == "errored_or_truncated", "nor is it a good one"
    assert (found["late"], found["same"], found["none"]) == ("errored_or_truncated", "exact_duplicate", "no_verdict")


def test_what_broke_off_does_not_stand_for_an_attempt_that_says_the_same(flow: MakeFlow) -> None:
    error = {"category": "timeout", "by": "agent"}
    rows = [*group("a", (1.0, 0.9, 0.2, 0.0), 1)]
    broken = [{**rows[2], "trace_id": f"broken-{i}", "error": error} for i in range(4)]
    made = flow({"r": rows, **{f"s{i}": [one] for i, one in enumerate(broken)}}).run()["kto_dataset"]
    assert labels(made) == {"a-1": True, "a-2": False}


def test_goldens_stay_out(flow: MakeFlow) -> None:
    runs = {"r": [*group("a", (1.0, 0.9, 0.2, 0.0), 1), *group("z", (1.0, 0.0), 40)]}
    made = flow(runs, [{"task_id": "z"}]).run()["kto_dataset"]
    assert {reasons(made)[t] for t in ("z-0", "z-1")} == {"golden_id"}


@pytest.mark.corpus
def test_conversations_that_part_at_a_user_turn_are_kept_as_unpaired_answers(
    corpus: Callable[[str], Path], tmp_path: Path
) -> None:
    """Simulated users never say the same twice, so next to no pass and fail of a task share a prompt."""
    exported = airline(corpus("tau-bench-historical"), grader_version="1")
    made = Flow(write_runs(tmp_path / "data", {"gpt-4o": exported}), tmp_path / "home").run()
    pairs, kto = made["dpo_dataset"], made["kto_dataset"]
    for one in (pairs, kto):
        assert one.ledger.entered == len(exported)
        assert one.ledger.entered == one.ledger.kept + sum(n for r in one.ledger.dropped.values() for n in r.values())
    parted = Counter(pairs.ledger.dropped["pairs"])
    mixed = parted["user_divergence"] + parted["prompt_mismatch"]
    assert mixed > 4 * pairs.rows
    assert kto.rows > 2 * pairs.rows
    assert set(labels(kto).values()) == {True, False}
    used = {t for p in provenance(find_version(tmp_path / "home", "dpo_dataset")) for t in p.trace_ids}
    assert not used & set(labels(kto))
