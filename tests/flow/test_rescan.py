"""New redaction rules look at old versions again, once, and say which of them hold what they find."""

import json
from collections.abc import Callable

import pytest

from tests.flow.conftest import Flow, sentence, trace
from trace_flywheel.flow import rescan
from trace_flywheel.flow.rescan import rescanned
from trace_flywheel.lake.dataset import find_version

MakeFlow = Callable[..., Flow]
MAIL = "".join(("ann.lee", "@", "corpmail.net"))


def test_a_version_of_other_rules_is_scanned_once_and_told(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    row = trace("a-0", "a", 1.0, 1)
    row["messages"][1]["content"] = f"{sentence(1)} Write to {MAIL}."
    open_rules = flow({"r": [row]}, redaction={"pii": "none"})
    open_rules.run()
    old = find_version(open_rules.settings.home, "sft_dataset").version
    assert rescanned(open_rules.settings) == ()
    strict = Flow(open_rules.root, open_rules.settings.home, redaction={"pii": "all"})
    strict.run()
    new = find_version(strict.settings.home, "sft_dataset").version
    assert new != old
    told = rescanned(strict.settings)
    (about_sft,) = [line for line in told if line.startswith("sft_dataset@")]
    assert about_sft.startswith(f"sft_dataset@{old} was made under other redaction rules; today's find ")
    assert not any(new in line for line in told)
    memory = json.loads((strict.settings.home / "lake" / "rescans.json").read_text())
    assert memory["findings"][f"sft_dataset@{old}"]
    assert MAIL not in json.dumps(memory) + "".join(told)

    def never(*_: object) -> None:
        raise AssertionError("scanned again")

    monkeypatch.setattr(rescan, "_findings", never)
    assert rescanned(strict.settings) == told
