"""A version in which the audit finds something is not what stands: the next pass makes it again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow import conftest
from tests.flow.conftest import Flow, group
from trace_flywheel.flow import apart
from trace_flywheel.flow.apart import Pass
from trace_flywheel.flow.freshness import freshness
from trace_flywheel.flow.standing import standing

flow = conftest.flow


@pytest.fixture
def one(flow: Callable[..., Flow]) -> Flow:
    one = flow({"r1": group("a", (1.0, 0.5, 0.0), 1)})
    one.run()
    return one


def audited(one: Flow, under_way: str) -> dict[str, list[str]]:
    return apart.audited(Pass(under_way, one.settings, one.curation().inputs), "rl_dataset").faults


def stale(one: Flow) -> tuple[str, ...]:
    return freshness(one.lake, one.settings, one.curation().inputs)[1]


def rows_of(one: Flow) -> Path:
    made = standing(one.lake, "rl_dataset")
    assert made is not None
    return made.path / "data-00000.jsonl"


def test_a_version_that_breaks_a_promise_is_stale_until_it_is_mended(one: Flow) -> None:
    audited(one, "zero")
    fresh = stale(one)
    assert "rl_dataset" not in fresh
    path = rows_of(one)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"user", b"usor", 1))
    for under_way in ("one", "two"):  # it is told as often as it is looked at
        assert audited(one, under_way)["card_matches_files"]
        assert set(stale(one)) == {*fresh, "rl_dataset"}
    made = one.run()["rl_dataset"]
    assert (made.status, rows_of(one), path.read_bytes()) == ("made", path, data)
    assert "rl_dataset" in stale(one), "nobody has looked at it"
    assert not any(audited(one, "three").values())
    assert stale(one) == fresh
    assert one.run()["rl_dataset"].status == "unchanged"


def test_a_version_that_could_not_be_looked_at_to_the_end_is_looked_at_again(
    one: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("trace_flywheel.flow.audit.audit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            audited(one, "one")
    assert "rl_dataset" in stale(one)
    assert one.run()["rl_dataset"].status == "restored"
    audited(one, "two")
    assert "rl_dataset" not in stale(one)
