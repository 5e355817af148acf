import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.curation.apportionment import exact_shares, largest_size, quotas
from trace_flywheel.curation.mix import Mix, MixShortageError, target_mix
from trace_flywheel.records.shortage import shortage_of

CLASSES = ("single", "multi", "comparison", "other")
DEFAULT = {"single": 0.3, "multi": 0.5, "comparison": 0.2}


def rows_of(*supply: int) -> tuple[list[str], list[str]]:
    classes = [name for name, n in zip(CLASSES, supply, strict=False) for _ in range(n)]
    return classes, [f"id{i:05}" for i in range(len(classes))]


def mixed(supply: tuple[int, ...], target: dict[str, float], seed: int = 42) -> Mix:
    classes, ids = rows_of(*supply)
    return target_mix(classes, ids, target, "shrink", seed)


@pytest.mark.parametrize(
    ("supply", "shares", "kept"),
    [
        ((100, 100, 100, 100), (0.3, 0.5, 0.2, 0.0), (60, 100, 40, 0)),
        ((700, 200, 60, 40), (0.3, 0.5, 0.2, 0.0), (91, 151, 60, 0)),
        ((6, 5, 4, 0), (0.3, 0.5, 0.2, 0.0), (3, 5, 2, 0)),
        ((5, 3, 3, 0), (0.5, 0.25, 0.25, 0.0), (5, 3, 3, 0)),
        ((7, 7, 7, 7), (0.1, 0.2, 0.3, 0.4), (2, 4, 6, 7)),
        ((1, 1, 1, 0), (0.3, 0.5, 0.2, 0.0), (1, 1, 1, 0)),
        ((700, 200, 0, 40), (0.3, 0.5, 0.2, 0.0), (0, 0, 0, 0)),
        ((9, 9, 9, 9), (3, 5, 2, 0), (6, 9, 4, 0)),
    ],
)
def test_largest_set_that_holds_the_shares(
    supply: tuple[int, ...], shares: tuple[float, ...], kept: tuple[int, ...]
) -> None:
    mix = mixed(supply, dict(zip(CLASSES, shares, strict=True)))
    assert tuple(mix.report.kept.get(name, 0) for name in CLASSES) == kept
    assert mix.kept.sum() == mix.report.total == sum(kept)


def test_set_loss_names_the_class_that_ended_it() -> None:
    report = mixed((700, 200, 0, 40), DEFAULT).report
    assert (report.total, report.limiting) == (0, "comparison")
    assert report.discarded == {"comparison": 0, "multi": 200, "other": 40, "single": 700}
    assert mixed((0, 0, 0, 5), DEFAULT).report.limiting == "comparison"


def test_limiting_class_is_named_only_where_rows_are_lost() -> None:
    assert mixed((60, 50, 40), DEFAULT).report.limiting == "multi"
    assert mixed((3, 5, 2), DEFAULT).report.limiting is None


def test_untargeted_class_keeps_its_natural_share() -> None:
    report = mixed((60, 50, 40, 30), DEFAULT).report
    assert report.kept == {"single": 30, "multi": 50, "comparison": 20, "other": 20}  # 30 of 180 and 20 of 120


def test_class_with_target_zero_is_left_out() -> None:
    assert mixed((60, 50, 40, 30), {**DEFAULT, "other": 0.0}).report.kept["other"] == 0


def test_shortage_fail_says_which_class_and_how_to_mend_it() -> None:
    classes, ids = rows_of(60, 50, 40)
    with pytest.raises(MixShortageError, match=r"'multi' has 50 rows.*shrink for a set of 100"):
        target_mix(classes, ids, DEFAULT, "fail", 42)
    assert target_mix(*rows_of(3, 5, 2), DEFAULT, "fail", 42).report.total == 10


@pytest.mark.parametrize("target", [{}, {"single": 0.0}, {"single": -0.1, "multi": 1.0}])
def test_target_without_a_positive_share_is_refused(target: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least one above zero"):
        target_mix(["single"], ["a"], target, "shrink", 1)


def test_id_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="same id"):
        target_mix(["single", "single"], ["a", "a"], {"single": 1.0}, "shrink", 1)


def test_output_holds_the_mix_in_every_stretch() -> None:
    classes, _ = rows_of(60, 100, 40)
    mix = mixed((60, 100, 40), DEFAULT)
    for start in range(0, 200, 20):
        stretch = [classes[row] for row in mix.order[start : start + 20]]
        assert abs(stretch.count("multi") - 10) <= 1
        assert abs(stretch.count("comparison") - 4) <= 1


def test_seed_changes_the_choice_and_nothing_else() -> None:
    one, two, again = (mixed((60, 50, 40), DEFAULT, seed) for seed in (1, 2, 1))
    assert one.report == two.report
    assert one.order.tolist() == again.order.tolist() != two.order.tolist()


def test_renormalize_gives_the_share_of_an_absent_class_to_the_others() -> None:
    classes, ids = rows_of(700, 200, 0, 40)
    report = target_mix(classes, ids, {**DEFAULT, "other": 0.0}, "renormalize", 42).report
    assert report.kept == {"comparison": 0, "multi": 200, "other": 0, "single": 120}
    assert report.share == {"multi": 0.625, "other": 0.0, "single": 0.375}


def test_renormalize_without_any_wanted_row_is_a_lost_set() -> None:
    report = target_mix(["other"], ["a"], {"single": 0.3, "multi": 0.7}, "renormalize", 42).report
    assert (report.lost, report.total, report.limiting) == (True, 0, "multi")


def test_upsampling_repeats_scarce_rows_and_never_more_than_asked() -> None:
    classes, ids = rows_of(90, 6, 4)
    target = {"single": 0.5, "multi": 0.3, "comparison": 0.2}
    mix = target_mix(classes, ids, target, "shrink", 42, upsample=4)
    assert mix.report.kept == {"comparison": 16, "multi": 24, "single": 41}
    counts = np.bincount(mix.order, minlength=len(ids))
    assert counts[:90].max() == 1
    assert set(counts[90:].tolist()) == {4}
    assert target_mix(classes, ids, target, "shrink", 42, upsample=100).report.total == 100


SHARES = st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 20), min_size=1).filter(lambda t: sum(t.values()) > 0)
SUPPLY = st.lists(st.integers(0, 40), min_size=4, max_size=4)


@given(SUPPLY, SHARES)
def test_counts_add_up_and_size_is_the_largest(supply: list[int], target: dict[str, int]) -> None:
    classes, ids = rows_of(*supply)
    mix = target_mix(classes, ids, dict(target), "shrink", 7)
    report = mix.report
    assert {n: report.kept[n] + report.discarded[n] for n in report.supply} == report.supply
    assert sorted(mix.order.tolist()) == np.flatnonzero(mix.kept).tolist()
    assert len(mix.order) == report.total
    shares = exact_shares(dict(target))
    have = {name: report.supply[name] for name in shares}
    size = sum(report.kept[name] for name in shares)
    assert quotas(size, shares) == {name: report.kept[name] for name in shares}
    if all(have[name] for name, share in shares.items() if share):
        for larger in range(size + 1, sum(have.values()) + 1):
            assert any(n > have[name] for name, n in quotas(larger, shares).items())


@given(st.integers(0, 500), SHARES)
def test_quotas_add_up_and_are_within_one_of_exact(total: int, target: dict[str, int]) -> None:
    shares = exact_shares(dict(target))
    quota = quotas(total, shares)
    assert sum(quota.values()) == total
    assert all(abs(quota[name] - total * share) < 1 for name, share in shares.items())


@given(SUPPLY, st.randoms(use_true_random=False))
def test_input_order_does_not_matter(supply: list[int], rng: random.Random) -> None:
    classes, ids = rows_of(*supply)
    shuffled = list(range(len(ids)))
    rng.shuffle(shuffled)
    one = target_mix(classes, ids, DEFAULT, "shrink", 3)
    two = target_mix([classes[i] for i in shuffled], [ids[i] for i in shuffled], DEFAULT, "shrink", 3)
    assert [ids[i] for i in one.order] == [ids[shuffled[i]] for i in two.order]


def test_decimal_shares_are_taken_as_written() -> None:
    assert exact_shares({"a": 0.1, "b": 0.2}) == {"a": Fraction(1, 3), "b": Fraction(2, 3)}
    assert largest_size({"a": 3, "b": 7}, exact_shares({"a": 0.3, "b": 0.7})) == 10


def test_shares_of_tokens_and_not_of_rows() -> None:
    """40 short multi rows and 10 long single ones: half of the tokens each, not half of the rows."""
    classes, ids = rows_of(10, 40)
    sizes = [100] * 10 + [10] * 40
    report = target_mix(classes, ids, {"single": 0.5, "multi": 0.5}, "shrink", 42, sizes=sizes).report
    assert report.supply_size == {"single": 1000, "multi": 400}
    assert report.kept == {"single": 4, "multi": 40}
    assert report.kept_size == {"single": 400, "multi": 400}
    assert (report.limiting, report.discarded) == ("multi", {"single": 6, "multi": 0})


@given(SUPPLY, SHARES, st.lists(st.integers(1, 50), min_size=160, max_size=160))
def test_a_class_misses_its_tokens_by_less_than_one_row(
    supply: list[int], target: dict[str, int], lengths: list[int]
) -> None:
    classes, ids = rows_of(*supply)
    sizes = lengths[: len(ids)]
    mix = target_mix(classes, ids, dict(target), "shrink", 7, sizes=sizes)
    report, shares = mix.report, exact_shares(dict(target))
    assert report.supply_size is not None
    assert report.kept_size is not None
    assert len(mix.order) == len(set(mix.order.tolist()))
    have = {name: report.supply_size[name] for name in shares}
    total = min(have[name] / share for name, share in shares.items() if share)
    for name, share in shares.items():
        largest = max((s for c, s in zip(classes, sizes, strict=True) if c == name), default=0)
        assert total * share - largest - 1 <= report.kept_size[name] <= total * share


def test_weights_keep_every_row_and_hold_the_shares() -> None:
    classes, ids = rows_of(60, 50, 40, 30)
    mix = target_mix(classes, ids, DEFAULT, "shrink", 42, mode="weight")
    report = mix.report
    assert report.kept == {"single": 60, "multi": 50, "comparison": 40, "other": 30}
    assert report.weight == {"single": 0.5, "multi": 1.0, "comparison": 0.5, "other": 20 / 30}
    assert sum(report.discarded.values()) == 0
    assert sorted(mix.order.tolist()) == list(range(180))
    none = target_mix(classes, ids, {**DEFAULT, "other": 0.0}, "shrink", 42, mode="weight").report
    assert none.weight is not None
    assert (none.weight["other"], none.kept["other"], none.discarded["other"]) == (0.0, 0, 30)


def test_upsampled_weights_go_above_one_and_never_above_the_most() -> None:
    classes, ids = rows_of(90, 6, 4)
    target = {"single": 0.5, "multi": 0.3, "comparison": 0.2}
    report = target_mix(classes, ids, target, "upsample", 42, upsample=4, mode="weight").report
    assert report.weight == {"comparison": 4.0, "multi": 4.0, "single": 41 / 90}


def test_weights_of_tokens() -> None:
    classes, ids = rows_of(10, 40)
    sizes = [100] * 10 + [10] * 40
    target = {"single": 0.5, "multi": 0.5}
    report = target_mix(classes, ids, target, "shrink", 42, sizes=sizes, mode="weight").report
    assert report.weight == {"single": 0.4, "multi": 1.0}
    assert report.kept_size == {"single": 1000, "multi": 400}


def test_tokens_upsampled_and_in_shortage() -> None:
    classes, ids = rows_of(4, 2)
    sizes = [100] * 4 + [50] * 2
    target = {"single": 0.5, "multi": 0.5}
    report = target_mix(classes, ids, target, "upsample", 42, upsample=3, sizes=sizes).report
    assert report.kept == {"single": 2, "multi": 5}  # 250 tokens each: half of the 500 there are
    with pytest.raises(MixShortageError, match=r"'multi' has 100 tokens.*a set of 200 tokens"):
        target_mix(classes, ids, target, "fail", 42, sizes=sizes)


@pytest.mark.parametrize("shortage", ["shrink", "upsample"])
def test_a_set_is_lost_where_a_wanted_class_has_no_row(shortage: Any) -> None:
    for mode in ("drop", "weight"):
        classes, ids = rows_of(5, 0)
        report = target_mix(classes, ids, {"single": 0.5, "multi": 0.5}, shortage, 1, upsample=2, mode=mode).report
        assert (report.lost, report.limiting, report.total) == (True, "multi", 0)
    assert not target_mix([], [], {"single": 1.0}, shortage, 1).report.lost


@pytest.mark.parametrize(
    ("text", "read"), [("fail", ("fail", 1)), ("shrink", ("shrink", 1)), ("upsample(12)", ("upsample", 12))]
)
def test_shortage_as_it_is_written(text: str, read: tuple[str, int]) -> None:
    assert shortage_of(text) == read


@pytest.mark.parametrize("text", ["", "upsample", "upsample(0)", "upsample(x)", "grow", "shrink(2)"])
def test_a_shortage_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"none of fail, shrink, renormalize, upsample\(N\)"):
        shortage_of(text)


@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.dictionaries(st.sampled_from(CLASSES), st.sampled_from([0, 0.1, 0.25, 1, 3]), min_size=1).filter(
        lambda t: sum(t.values()) > 0
    ),
    st.sampled_from(["shrink", "fail", "renormalize", "upsample(1)", "upsample(3)"]),
    st.sampled_from(["drop", "weight"]),
    st.none() | st.lists(st.integers(1, 9), min_size=8, max_size=8),
)
def test_no_row_of_a_tiny_set_is_unaccounted_for(
    supply: list[int], target: dict[str, float], shortage: str, mode: Any, lengths: list[int] | None
) -> None:
    """Every unit, mode and shortage, with none, one or two rows of a class and shares that add up to anything."""
    classes, ids = rows_of(*supply)
    sizes = None if lengths is None else lengths[: len(ids)]
    named, most = shortage_of(shortage)
    try:
        mix = target_mix(classes, ids, target, named, 5, upsample=most, sizes=sizes, mode=mode)
    except MixShortageError:
        assert shortage == "fail"
        return
    report = mix.report
    times = np.bincount(mix.order, minlength=len(ids)) if ids else np.array([], dtype=int)
    assert times.max(initial=0) <= (most if mode == "drop" else 1)
    assert (times > 0).tolist() == mix.kept.tolist()
    assert report.total == len(mix.order)
    for name in report.supply:
        rows = [i for i, own in enumerate(classes) if own == name]
        assert report.supply[name] == len(rows)
        assert report.kept[name] == sum(times[i] for i in rows)
        assert report.discarded[name] == sum(times[i] == 0 for i in rows)
        if target.get(name) == 0:
            assert report.kept[name] == 0
        if sizes is not None:
            assert report.kept_size is not None
            assert report.kept_size[name] == sum(int(times[i]) * sizes[i] for i in rows)
        if mode == "weight":
            assert report.weight is not None
            assert 0 <= report.weight[name] <= most
            assert (report.kept[name] > 0) == (bool(rows) and report.weight[name] > 0)
    if shortage == "fail":
        assert all(report.discarded[name] == 0 for name, share in target.items() if share)
    assert sum(report.share.values()) == pytest.approx(1)
    assert report.lost == (bool(ids) and not len(mix.order))


@pytest.mark.parametrize("share", [float("nan"), float("inf"), -0.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"shares must be|Invalid literal"):
        target_mix(["single"], ["a"], {"single": share, "multi": 1.0}, "shrink", 1)
