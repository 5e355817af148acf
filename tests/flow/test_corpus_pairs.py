"""Recorded jobs of others: which tasks give a pair, and why each of the others gives none, counted by hand."""

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import Flow, airline, write_runs
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import fates, find_version, provenance

pytestmark = pytest.mark.corpus


def reasons(one: Flow, name: str) -> dict[str, Counter[str]]:
    """By task how many rollouts ended how."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for fate in fates(find_version(one.settings.home, name)).to_pylist():
        found[fate["task_id"]]["kept" if fate["kept"] else fate["reason"]] += 1
    return found


def adds_up(made: Made, entered: int) -> bool:
    dropped = sum(n for found in made.ledger.dropped.values() for n in found.values())
    return made.ledger.entered == entered == made.ledger.kept + dropped


def test_mixed_groups_of_recorded_trials_give_a_pair_or_a_reason(corpus: Callable[[str], Path], tmp_path: Path) -> None:
    """33 tasks. Seven hold passes and failures: of these four have both from one agent."""
    one = Flow(corpus("harbor-jobs-refresh") / "jobs", tmp_path / "home")
    made = one.run()
    assert all(adds_up(made[name], 126) for name in ("sft_dataset", "dpo_dataset", "kto_dataset", "rl_dataset"))
    pairs = {p.task_id: p for p in provenance(find_version(one.settings.home, "dpo_dataset"))}
    sizes = {"create-gzip-backup": 4, "et-3d6b51f6": 5, "et-d2312ab6": 5, "et-e31ac043": 4}
    assert {task: pair.group_size for task, pair in pairs.items()} == sizes
    assert {(pair.rewards, pair.delta, pair.rejected_is_min) for pair in pairs.values()} == {((1.0, 0.0), 1.0, True)}
    found = reasons(one, "dpo_dataset")
    for task, size in sizes.items():
        assert found[task] == {"kept": 2, "not_selected_for_pair": size - 2}
    # Two agents, so two system prompts: one passed, the other failed. One trial said nothing at its end.
    assert found["015_braintree__braintree_python__step23__sha1_hmac_hash"] == {"prompt_mismatch": 3, "empty_answer": 1}
    assert found["011_bourbonut__detroit__step164__period"] == {"prompt_mismatch": 3, "no_verdict": 1}
    # Its one pass timed out.
    assert found["093_adtzlr__felupe__step71__assemble"] == {"no_contrast": 3, "no_verdict": 1}
    flat = [found[task] for task in found if task not in {*sizes, *MIXED_WITHOUT_A_PAIR}]
    assert len(flat) == 26
    assert sum(flat, Counter()) == {"no_contrast": 75, "empty_answer": 10, "no_verdict": 7, "missing_result": 4}


MIXED_WITHOUT_A_PAIR = {
    "015_braintree__braintree_python__step23__sha1_hmac_hash",
    "011_bourbonut__detroit__step164__period",
    "093_adtzlr__felupe__step71__assemble",
}


@pytest.mark.parametrize(("min_group", "shared"), [(4, "group_too_small"), (2, "user_divergence")])
def test_attempts_that_simulated_users_part_become_unpaired_answers(
    corpus: Callable[[str], Path], tmp_path: Path, min_group: int, shared: str
) -> None:
    """200 attempts at 50 tasks: 26 mixed, 14 never and 10 always solved. Of the 88 passes by failures of mixed tasks 86
    part at the first user turn, two at the second."""
    exported = airline(corpus("tau-bench-historical"))
    root = write_runs(tmp_path / "data", {"gpt-4o": exported})
    one = Flow(root, tmp_path / "home", pairs={"min_group": min_group})
    made = one.run()
    assert all(adds_up(made[name], 200) for name in ("dpo_dataset", "kto_dataset"))
    assert made["dpo_dataset"].rows == 0
    assert made["dpo_dataset"].ledger.dropped == {"pairs": {"no_contrast": 96, "prompt_mismatch": 100, shared: 4}}
    verdicts = defaultdict(set)
    for row in exported:
        verdicts[row["task_id"]].add(row["verdict"])
    for task, found in reasons(one, "dpo_dataset").items():
        assert (found.keys() == {"no_contrast"}) == (len(verdicts[task]) == 1)
    assert made["kto_dataset"].rows == 200
    assert made["kto_dataset"].facts["labels"] == {"passing": 84, "failing": 116}
