"""`flywheel doctor`: environment, lake, schemas and settings; what is off, and how to mend it.

Each line is `ok`, `off` (works, but something is missing or switched off) or `bad` (does not work); every line but an
`ok` says what to do. Exits 1 when something is bad.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer

from trace_flywheel.cli.options import AsJson, Config, Home, program, settings_of
from trace_flywheel.records.errors import FlywheelError


class Finding(NamedTuple):
    state: Literal["ok", "off", "bad"]
    what: str
    found: str
    mend: str = ""


def doctor(home: Home = None, config: Config = None, as_json: AsJson = False) -> None:
    findings = list(examine(home, config))
    if as_json:
        print(json.dumps([f._asdict() for f in findings], ensure_ascii=False))
    else:
        width = max(len(f.what) for f in findings)
        for f in findings:
            print(f"{f.state:<3}  {f.what:<{width}}  {f.found}" + (f"; {f.mend}" if f.mend else ""))
    raise typer.Exit(1 if any(f.state == "bad" for f in findings) else 0)


def examine(home: Path | None, config: Path | None) -> Iterator[Finding]:
    """All findings, in a fixed order. A check that cannot run is itself a finding."""
    yield Finding("ok", "python", ".".join(map(str, sys.version_info[:3])))
    yield from _packages()
    yield _detector()
    yield _schemas()
    try:
        settings = settings_of(home, config)
    except FlywheelError as error:
        yield Finding("bad", "settings", str(error), "correct the file or the variable that it names")
        return
    yield Finding("ok", "settings", "valid")
    yield _roots(settings)
    yield from _home(settings)
    yield _automation(settings)


def _packages() -> Iterator[Finding]:
    try:
        wanted = requires("trace-flywheel") or []
    except PackageNotFoundError:
        yield Finding("off", "packages", "run from a checkout that is not installed", "`make setup` installs it")
        wanted = []
    from packaging.requirements import Requirement

    for requirement in map(Requirement, wanted):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            yield Finding("bad", requirement.name, "missing", f"pip install '{requirement}'")
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield Finding("bad", requirement.name, f"{found}, wanted {requirement.specifier}", "`make setup`")


def _detector() -> Finding:
    if find_spec("hyperscan") is None:
        mend = "pip install hyperscan where it has a wheel"
        return Finding("off", "redaction", "re2 alone: same verdicts, slower", mend)
    return Finding("ok", "redaction", "hyperscan finds, re2 confirms")


def _schemas() -> Finding:
    import jsonschema_rs

    folder = schema_folder()
    found = sorted(folder.glob("*.schema.json"))
    if not found:
        return Finding("bad", "schemas", f"none in {folder}", "reinstall the package")
    for path in found:
        try:
            jsonschema_rs.validator_for(json.loads(path.read_bytes()))
        except (ValueError, OSError) as error:
            return Finding("bad", "schemas", f"{path.name}: {error}", "reinstall the package")
    return Finding("ok", "schemas", f"{len(found)} in {folder}")


def schema_folder() -> Path:
    """`schemas/` of the checkout, or the package data of an installed flywheel."""
    package = Path(__file__).parents[1]
    inside = package / "schemas"
    return inside if inside.is_dir() else package.parent / "schemas"


def _roots(settings: Any) -> Finding:
    from trace_flywheel.flow.roots import away, roots_in_force

    roots = (*roots_in_force(settings), *away(settings))
    if not roots:
        return Finding("off", "roots", "none", f"set `roots` in flywheel.toml, or give --root to `{program()} refresh`")
    missing = [str(r) for r in roots if not r.exists()]
    if missing:
        return Finding("bad", "roots", f"missing: {', '.join(missing)}", "correct `roots`")
    return Finding("ok", "roots", ", ".join(map(str, roots)))


def _home(settings: Any) -> Iterator[Finding]:
    home: Path = settings.home
    nearest = next(p for p in (home, *home.absolute().parents) if p.exists())
    if os.access(nearest, os.W_OK):
        yield Finding("ok", "home", str(home.absolute()))
    elif nearest == home and os.access(home, os.R_OK | os.X_OK):
        mend = "to refresh or to change it, be its owner or give another with --home"
        yield Finding("off", "home", f"{home}: may only be read", mend)
    else:
        yield Finding("bad", "home", f"{home}: not writable", "give another with --home or FLYWHEEL_HOME")
        return
    yield _guarded("lake", lambda: _lake(home))
    yield _guarded("datasets", lambda: _datasets(home))
    yield _guarded("corpora", lambda: _corpora(home, settings))


def _lake(home: Path) -> Finding:
    from trace_flywheel.lake.quarantine import quarantines
    from trace_flywheel.lake.store import Lake

    lake = Lake(home)
    done, broken = len(lake.sidecars("rollout_index")), quarantines(lake)
    if broken:
        first = f"{broken[0].run_id}: {broken[0].reason}"
        return Finding("off", "lake", f"{done} runs, {len(broken)} quarantined: {first}", "mend or remove the folder")
    return (
        Finding("ok", "lake", f"{done} runs") if done else Finding("off", "lake", "empty", f"run `{program()} refresh`")
    )


def _datasets(home: Path) -> Finding:
    from trace_flywheel.lake.dataset import altered, find_version, names

    found = [find_version(home, name) for name in names(home)]
    # Only the newest versions: reading every version of a large home would take minutes.
    changed = [f"{v.name}@{v.version} {file}" for v in found if (file := altered(v)) is not None]
    if changed:
        mend = f"remove the versions' folders and run `{program()} refresh`"
        return Finding("bad", "datasets", f"differ from their manifest: {', '.join(changed)}", mend)
    listed = ", ".join(f"{v.name}@{v.version} {v.rows} rows" for v in found)
    return (
        Finding("ok", "datasets", listed) if found else Finding("off", "datasets", "none", f"run `{program()} refresh`")
    )


def _corpora(home: Path, settings: Any) -> Finding:
    from trace_flywheel.flow.corpora import corpora_digest
    from trace_flywheel.lake.segments import DamagedError, shelves

    corpora_digest(settings.corpora, home)  # one that is gone is told
    rows = size = indexes = 0
    for shelf in shelves(home / "lake"):
        try:
            state = shelf.state()
            for file in state.segments if state else ():
                shelf.arrays(file, thorough=True)
        except DamagedError as error:
            return Finding("off", "corpora", str(error), f"`{program()} refresh` or remove {shelf.folder}")
        if state is not None:
            indexes, rows, size = indexes + 1, rows + state.rows, size + state.size
    named = f"{len(settings.corpora)} in the settings"
    if not indexes:
        return Finding("ok", "corpora", f"{named}, none indexed")
    return Finding("ok", "corpora", f"{named}; {indexes} indexed, {rows} rows, {size / 1e6:.1f} MB")


def _guarded(what: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except (FlywheelError, OSError) as error:
        return Finding("bad", what, re.sub(r"\s+", " ", str(error)), "see the text")


def _automation(settings: Any) -> Finding:
    if settings.automation.start:
        return Finding("ok", "automation", f"sensors and schedule start with `{program()} ui`")
    return Finding("off", "automation", "sensors and schedule start switched off", "set automation.start = true")
