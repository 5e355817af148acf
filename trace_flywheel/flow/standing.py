"""Datasets as they stand: what the newest version of each says about itself."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from trace_flywheel.flow.names import ADVANTAGES, CLASSIFIER, REFUSED, doubts_of, every, name_of, refusals_of
from trace_flywheel.lake import dataset
from trace_flywheel.lake.ledger import Ledger
from trace_flywheel.lake.sidecar import LakeError, TableSidecar
from trace_flywheel.lake.store import Lake
from trace_flywheel.settings import Settings


class Made(msgspec.Struct, frozen=True):
    """What an asset over all runs became. `unchanged`: it stood already, from the same inputs; `restored`: the inputs
    are those of an older version again; `refused`: nothing was published, what is told is of the version before, and
    `facts["refused"]` says why. `facts` are for people: counts, no text."""

    name: str
    status: Literal["made", "restored", "unchanged", "refused"]
    inputs_digest: str
    version: str
    rows: int
    path: Path
    ledger: Ledger
    facts: dict[str, Any] = {}


def published(lake: Lake, settings: Settings) -> tuple[Made, ...]:
    """The datasets of all recipes as they stand."""
    wanted = [name_of(kind, recipe) for kind, recipe in every(settings)]
    return tuple(made for name in wanted if (made := standing(lake, name)) is not None)


def standing(lake: Lake, name: str) -> Made | None:
    """A dataset as its newest publication left it; None where there is none. A damaged version raises `LakeError`."""
    if name not in dataset.names(lake.home):
        return None
    version = dataset.find_version(lake.home, name)
    return msgspec.structs.replace(published_as(version), status="unchanged")


def published_as(version: dataset.Version) -> Made:
    """A version as what its asset became."""
    manifest = version.manifest
    counts, digest = manifest["counts"], manifest["inputs"]["digest"]
    ledger = Ledger(counts["in"], counts["kept"], counts["dropped"])
    status: Literal["made", "restored"] = "made" if version.new else "restored"
    return Made(
        version.name, status, digest, version.version, version.rows, version.path, ledger, manifest.get("facts", {})
    )


def refusals(lake: Lake, settings: Settings) -> tuple[Made, ...]:
    """The datasets whose last publication was refused."""
    names = [name_of(kind, recipe) for kind, recipe in every(settings)]
    found = [(name, lake.current(refusals_of(name))) for name in names]
    return tuple(refused_as(lake, name, current) for name, current in found if current is not None)


def refused_now(home: Path) -> dict[str, str]:
    """By name why the last publication of a dataset was refused, whatever the settings say now."""
    lake = Lake(home)
    names = sorted(path.parent.name for path in lake.root.glob(f"*{REFUSED}/current"))
    found = [(name.removesuffix(REFUSED), lake.current(name)) for name in names]
    return {name: refused_as(lake, name, current).facts["refused"] for name, current in found if current is not None}


def asked_version(home: Path, address: str) -> dataset.Version:
    """`dataset.find_version`; of a dataset that was refused and never published the error says why."""
    name = address.partition("@")[0]
    if name not in dataset.names(home) and (reason := refused_now(home).get(name)) is not None:
        raise LakeError(f"{name}: {reason}; there is no version yet")
    return dataset.find_version(home, address)


def refused_as(lake: Lake, name: str, refusal: TableSidecar) -> Made:
    """A refused publication as what its asset became."""
    before, told = standing(lake, name), refusal.counts
    counts = told["ledger"]
    reason = f"{told['reason']}. Not published" + ("; the version before stays" if before else "")
    facts = {"refused": reason, "mix": told["mix"], "warnings": [reason]}
    ledger = Ledger(counts["in"], counts["kept"], counts["dropped"])
    path = before.path if before else lake.home / "datasets" / name
    version, rows = (before.version, before.rows) if before else ("none", 0)
    return Made(name, "refused", refusal.inputs_digest, version, rows, path, ledger, facts)


def rows_now(lake: Lake, name: str) -> int | None:
    """Rows of an asset over all runs as it stands; None where it was never made."""
    if name == ADVANTAGES or name.endswith(CLASSIFIER):
        current = lake.current(name)
        return None if current is None else int(current.counts["with_advantage" if name == ADVANTAGES else "rows"])
    made = standing(lake, name)
    return None if made is None else made.rows


def unchanged_since(lake: Lake, name: str, digest: str) -> Made | None:
    """The dataset, or its refusal, where it was made from the same inputs and nothing wrong was found in it."""
    if lake.current(doubts_of(name)) is not None:
        return None
    if (refusal := lake.current(refusals_of(name))) is not None:
        return refused_as(lake, name, refusal) if refusal.inputs_digest == digest else None
    made = standing(lake, name)
    return made if made is not None and made.inputs_digest == digest else None
