"""Checks on datasets that only a special one fails."""

from collections.abc import Callable

import dagster as dg
import pytest

from tests.flow import conftest
from tests.flow.conftest import Flow, sentence, trace
from trace_flywheel.orchestration.checks import no_task_collapsed
from trace_flywheel.orchestration.resources import SettingsResource

flow = conftest.flow


@pytest.mark.parametrize(("alike", "passed"), [(4, False), (2, True)])
def test_a_task_that_duplicates_take_most_of_is_a_warning(
    alike: int,
    passed: bool,
    flow: Callable[..., Flow],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = sentence(1, 300).split()
    rows = []
    for i in range(5):
        words[10 + 60 * i] = f"other{i}"
        rows.append(trace(f"a-{i}", "a", 1.0, i))
        if i < alike:
            rows[-1]["messages"][1]["content"] = " ".join(words)
    one = flow({"r1": rows}, selection={"keep_fraction": 1.0})
    one.run()
    monkeypatch.setenv("FLYWHEEL_HOME", str(one.settings.home))
    defs = dg.Definitions(
        assets=[dg.AssetSpec("sft_dataset")],
        asset_checks=[no_task_collapsed("sft_dataset")],
        resources={"settings": SettingsResource()},
    )
    job = defs.get_implicit_global_asset_job_def()
    (check,) = job.execute_in_process().get_asset_check_evaluations()
    assert (check.passed, check.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert ("| a | 5 | 3 |" in check.metadata["tasks"].value) is not passed
