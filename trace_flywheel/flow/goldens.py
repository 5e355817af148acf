"""The search for goldens that all runs share: what many tasks of the lake ask is boilerplate and says little."""

import numpy as np
import pandas as pd

from trace_flywheel.curation.golden_text import grams_of
from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.flow.agreement import agreeing
from trace_flywheel.flow.gathered import index_rows
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings

_COLUMNS = ("task_id", "context_hash", "golden_asked")


def holdout_over(lake: Lake, settings: Settings, inputs: SideInputs) -> Holdout:
    """The goldens in force, weighed by what the prompts of all tasks in the index hold. Reads two columns of it."""
    if not inputs.goldens:
        return Holdout((), settings.goldens.overlap)
    asked = index_rows(lake, agreeing(lake)[0], _COLUMNS).to_pandas()
    by_task = asked_by_task(*(asked[name] for name in _COLUMNS))
    return Holdout(inputs.goldens, settings.goldens.overlap, by_task)


def asked_by_task(tasks: pd.Series, contexts: pd.Series, asked: pd.Series) -> list[np.ndarray]:
    """For each task the golden n-grams in its prompts. `asked` and `contexts` are the index's columns, row by row.

    A prompt that several tasks give is the first one's alone: one leak under many names is no boilerplate.
    """
    rows = pd.DataFrame({"task": tasks.to_numpy(), "context": contexts.to_numpy(), "asked": asked.array}).dropna()
    rows = rows.sort_values("task", kind="stable").drop_duplicates("context").drop_duplicates(["task", "asked"])
    return [np.unique(np.concatenate([grams_of(text) for text in texts])) for _, texts in rows.groupby("task")["asked"]]
