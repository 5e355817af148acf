"""Layouts are found by themselves and say what they hold."""

import pytest

from trace_flywheel.trainers.registry import layout, layouts


def test_the_layouts_by_name():
    assert {name: value.KINDS for name, value in layouts().items()} == {
        "adp": ("rl",),
        "atif": ("rl",),
        "atraj-sft": ("sft",),
        "branch-tree": (),
        "instruct": ("sft",),
        "kto": ("kto",),
        "messages": ("sft", "pair", "kto", "rl", "prompt"),
        "openai-ft": ("sft",),
        "openenv-episodes": ("rl",),
        "prime-sft": ("sft",),
        "rl-prompts": ("rl", "prompt"),
        "skyrl-sft": ("sft",),
        "skyrl-tokens": (),
        "trl-dpo": ("pair",),
        "trl-sft": ("sft",),
        "verifiers": ("rl", "prompt"),
        "verl-sft": ("sft",),
    }
    assert list(layouts()) == sorted(layouts())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(KeyError, match="no layout 'nope'; known: adp, atif, atraj-sft"):
        layout("nope")


def test_a_kind_that_a_layout_does_not_hold(sft_row, pair):
    with pytest.raises(TypeError, match="trl-dpo holds no SFT rows"):
        layout("trl-dpo").sft_rows(sft_row)
    with pytest.raises(TypeError, match="prime-sft holds no preference pairs"):
        layout("prime-sft").pair_rows(pair)
