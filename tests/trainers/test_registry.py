"""Layouts are found by themselves and say what they hold."""

import pytest

from trace_flywheel.trainers.registry import layout, layouts


def test_the_layouts_by_name():
    assert list(layouts()) == ["atraj-sft", "branch-tree", "messages", "prime-sft", "trl-dpo", "trl-sft"]
    assert [value.KINDS for value in layouts().values()] == [
        ("sft",),
        ("sft", "pair", "rl"),
        ("sft",),
        ("pair",),
        ("sft",),
    ]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(KeyError, match="no layout 'kto'; known: atraj-sft, messages, prime-sft, trl-dpo, trl-sft"):
        layout("kto")


def test_a_kind_that_a_layout_does_not_hold(sft_row, pair):
    with pytest.raises(TypeError, match="trl-dpo holds no SFT rows"):
        layout("trl-dpo").sft_rows(sft_row)
    with pytest.raises(TypeError, match="prime-sft holds no preference pairs"):
        layout("prime-sft").pair_rows(pair)
