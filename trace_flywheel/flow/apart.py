"""The work over all runs as calls of plain values, so that a process beside the caller's can do it.

Who only names a call loads nothing of what it works with: tables and datasets are imported where the work is done. What
a pass works out once (index, attempts, holdout, corpora) stays where the work is done until another pass begins.
"""

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Literal

import msgspec
import pyarrow as pa

from trace_flywheel.flow.freshness import Basis
from trace_flywheel.flow.glance import Glance, glance
from trace_flywheel.flow.home import lake_of
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.loading import loading
from trace_flywheel.flow.names import ADVANTAGES, IN_TURN, Kind, doubts_of, every, name_of
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.flow.standing import Made
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.settings import Settings

if TYPE_CHECKING:
    from trace_flywheel.flow.coming import Coming
    from trace_flywheel.flow.curation import Curation

PREPARED = "the next pass"
"""Its name while nobody has asked for anything of it."""
TOLERANCE = 1e-6
"""What the advantages of a group may add up to beside zero, per member."""

What = Literal["advantages", "classifier"] | Kind
"""The assets over all runs; all but the advantages belong to a recipe."""


class Pass(msgspec.Struct, frozen=True):
    """One pass over the lake: its name, and the settings and side inputs that all its calls see."""

    name: str
    settings: Settings
    inputs: SideInputs


class Audited(msgspec.Struct, frozen=True):
    """A dataset version and the faults by promise."""

    version: str
    rows: int
    faults: dict[str, list[str]]


_held: "tuple[str, Curation] | None" = None
_coming: "Coming | None" = None
"""The datasets of the pass under way, where some of them are made before they are asked for."""


def load() -> None:
    """Load what a pass works with: much, and nothing of it is of any use before there is something to work on."""
    with loading():
        from trace_flywheel.flow import coming, tables  # noqa: F401 # loaded for others


def prepare(settings: Settings, inputs: SideInputs) -> None:
    """Begin the next pass, before it has a name: what is decided for each of its datasets, and the first of them. It
    has these settings and side inputs, or it begins anew."""
    from trace_flywheel.flow import finishing
    from trace_flywheel.flow.curation import Curation

    global _held, _coming
    curation = Curation(lake_of(settings), settings, inputs)
    if _held is not None or not curation.crew.works_apart:
        return
    _held, _coming = (PREPARED, curation), None
    curation.crew.start(finishing.ready, policy_of(settings))
    _ = curation.index, curation.attempts, curation.inputs_digest  # before a thread asks for them
    _coming_of(curation).go_on()


def _is_of(curation: "Curation", under_way: Pass) -> bool:
    """Whether what was prepared is what a pass would begin with now."""
    if (curation.settings, curation.inputs) != (under_way.settings, under_way.inputs):
        return False
    return Basis(curation.lake, under_way.settings, under_way.inputs).inputs_digest == curation.inputs_digest


def curation_of(under_way: Pass, undisturbed: bool = True) -> "Curation":
    """The state of the pass under way; that of another is forgotten first. Where not `undisturbed`, somebody may have
    written since it was last asked for: what was withdrawn or erased meanwhile is in no dataset that is made now."""
    from trace_flywheel.flow.curation import Curation

    global _held, _coming
    if _held is not None and _held[0] == PREPARED and _is_of(_held[1], under_way):
        _held = under_way.name, _held[1]
    is_known = _held is not None and _held[0] == under_way.name
    if _held is None or not is_known or not (undisturbed or _is_of(_held[1], under_way)):
        if _coming is not None:
            _coming.give_up()
        _held = _coming = None
        lake = lake_of(under_way.settings)
        _held = under_way.name, Curation(lake, under_way.settings, under_way.inputs)
    return _held[1]


def make(under_way: Pass, what: What, recipe: str | None, undisturbed: bool = False) -> tuple[Made, Glance]:
    """Make an asset, or find that it stands; and what a page shows of it. Raises `FlywheelError`.

    `undisturbed`: nobody else writes until the pass ends.
    """
    load()
    from trace_flywheel.flow import datasets, tables

    curation = curation_of(under_way, undisturbed)
    pa.default_memory_pool().release_unused()  # what the asset before has freed, tens of MB, is still this process's
    if what == "advantages":
        with _coming.beside() if _coming is not None else nullcontext():
            made = tables.grouped_advantages(curation)
    elif what == "classifier":
        made = tables.depth_classifier(curation, recipe)
    elif undisturbed and curation.crew.works_apart:
        made = _coming_of(curation).make(what, recipe)
    else:
        made = datasets.make(curation, what, recipe)
    return made, glance(curation.lake, made)


def _coming_of(curation: "Curation") -> "Coming":
    from trace_flywheel.flow.coming import Coming

    global _coming
    if _coming is None:
        expected = sorted(every(curation.settings), key=lambda one: (IN_TURN.index(one[0]), name_of(*one)))
        _coming = Coming(curation, expected, sum(run.counts.kept for run in curation.runs), _audited)
    return _coming


def audited(under_way: Pass, name: str) -> Audited:
    """The newest version of a dataset held against what it promises."""
    curation = curation_of(under_way)
    ahead: Audited | None = None if _coming is None else _coming.audited(name)
    return _audited(curation, name) if ahead is None else ahead


def _audited(curation: "Curation", name: str) -> Audited:
    """A version that breaks a promise, or was not looked at to the end, is made again by the next pass: it would else
    stand as if nothing had been found."""
    from trace_flywheel.flow.audit import audit

    lake, doubts = curation.lake, doubts_of(name)
    version = find_version(lake.home, name)
    is_sound = False
    try:
        faults = audit(version, curation.crew, policy_of(curation.settings))
        is_sound = not any(faults.values())
    finally:
        if not is_sound:
            lake.put(doubts, {}, version.version, {})
    if is_sound and lake.current(doubts) is not None:
        lake.discard(doubts)
    return Audited(version.version, version.rows, faults)


def uneven_groups(settings: Settings) -> tuple[int, list[str]]:
    """How many groups have advantages, and those whose advantages do not add up to zero."""
    groups: dict[str, list[float]] = {}
    for rows in lake_of(settings).batches(ADVANTAGES, "advantages", ("group_id", "advantage")):
        found = (rows[name].to_pylist() for name in ("group_id", "advantage"))
        for group, advantage in zip(*found, strict=True):
            if advantage is not None and math.isfinite(advantage):
                groups.setdefault(group, []).append(advantage)
    return len(groups), [g for g, values in groups.items() if abs(math.fsum(values)) > TOLERANCE * len(values)]
