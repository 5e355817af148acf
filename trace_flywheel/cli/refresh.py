"""`flywheel refresh`: discover, ingest what is new or changed, curate, publish; in this process, logged in Dagster.

Where nothing is new and every dataset is up to date, nothing runs and Dagster is not even imported.
"""

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from trace_flywheel.cli.options import AsJson, Config, Home, Roots, program, settings_of
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.records.fate import Drop

MUCH, MANY_FILES = 10_000_000, 2_000
"""Bytes, or files, below the roots of a home that knows none yet."""


class Outcome(msgspec.Struct, frozen=True):
    """What a refresh did. `document` is the `--json` document of the contract."""

    document: dict[str, Any]
    problems: tuple[str, ...]
    """What could not be read, one line each."""


def refresh(roots: Roots = None, home: Home = None, config: Config = None, as_json: AsJson = False) -> None:
    if home and roots:
        _start_server(home, roots)  # while settings are read
    outcome = refreshed(settings_of(home, config, roots))
    for problem in outcome.problems:
        print(problem, file=sys.stderr)
    if as_json:
        print(json.dumps(outcome.document, ensure_ascii=False))
        return
    runs = outcome.document["runs"]
    print(", ".join(f"{runs[name]} {name}" for name in ("found", "ingested", "unchanged", "quarantined")))
    for name, made in outcome.document["datasets"].items():
        ledger = outcome.document["ledger"][name]
        print(f"{name:<16} {made['rows']:>7} rows of {ledger['in']} rollouts  {made['path']}")


def refreshed(settings: Any) -> Outcome:
    """One pass. Raises `FlywheelError` for roots, settings or a lake that cannot be used."""
    _start_server(settings.home, settings.roots)  # while everything else is imported
    from trace_flywheel.flow.home import shared

    with shared(settings):
        return _refreshed(settings)


def _start_server(home: Path, roots: Iterable[Path]) -> None:
    """Have the server start that processes come from, where a home meets its first folders and they hold much."""
    from trace_flywheel.flow.children import may_have_children
    from trace_flywheel.flow.fork_server import start_ahead

    if not (home / "lake").exists() and _holds_much(roots) and may_have_children():
        start_ahead("trace_flywheel.flow.warmed")


def _holds_much(roots: Iterable[Path]) -> bool:
    """Whether it is so likely that processes will be needed that the server they come from may start."""
    from trace_flywheel.sources.walked import walked

    files = (Path(folder, name) for root in roots for folder, _, names in walked(root) for name in names)
    size = 0
    for path in islice(files, MANY_FILES):
        with suppress(OSError):  # whoever reads it tells
            size += path.lstat().st_size
        if size > MUCH:
            return True
    return next(files, None) is not None


def _refreshed(settings: Any) -> Outcome:
    from trace_flywheel.flow.loading import loading

    with loading():
        from trace_flywheel.flow.freshness import freshness
        from trace_flywheel.flow.home import lake_of
        from trace_flywheel.flow.rescan import rescanned
        from trace_flywheel.flow.roots import away, remember, roots_in_force
        from trace_flywheel.flow.standing import published, refusals
        from trace_flywheel.flow.watch import watch
        from trace_flywheel.lake.lock import mark, writing
        from trace_flywheel.lake.purged import unfinished
        from trace_flywheel.lake.quarantine import quarantines

    lake = lake_of(settings)
    last_writer = mark(settings.home)
    before = watch(settings, lake)
    if not before.found and not before.gone:
        first = f" ({_line(before.problems[0])})" if before.problems else ""
        roots = ", ".join(map(str, roots_in_force(settings)))
        raise FlywheelError(f"no job folder below {roots}{first}; `{program()} sources DIR` says what was looked at")
    before.inputs.require_all()
    remember(settings.home, settings.roots)
    if before.todo or freshness(lake, settings, before.inputs)[1]:
        with writing(settings.home) as last_now:
            if last_now != last_writer:  # another pass may have done the work meanwhile
                before = watch(settings, lake)
            _bring_up_to_date(settings, lake, before)
    quarantined = quarantines(lake)
    broken = {q.run_id for q in quarantined}
    found = {run.run_id for run in before.found}
    unchanged = {run.run_id for run in before.unchanged} - broken
    ingested = {run.run_id for run in before.todo} - broken
    made = published(lake, settings)
    document = {
        "runs": {
            "found": len(found),
            "ingested": len(ingested),
            "unchanged": len(unchanged),
            "quarantined": len(found & broken),
            **({"gone": len(before.gone)} if before.gone else {}),
        },
        "datasets": {m.name: {"version": m.version, "rows": m.rows, "path": str(m.path)} for m in made},
        "ledger": {m.name: m.ledger.as_json() for m in made},
    }
    of_all = (*made, *refusals(lake, settings))
    told = {warning: m.name for m in reversed(of_all) for warning in m.facts.get("warnings", ())}
    warnings = [f"warning: {name}: {warning}" for warning, name in sorted(told.items())]
    warnings += [f"warning: {told}" for told in rescanned(settings)]
    warnings += [
        f"warning: {root}: the root is away, and what was read from it stays; set `roots` to be told no more"
        for root in away(settings)
    ]
    warnings += [f"warning: an erasure was killed; run `{program()} purge` again"] if unfinished(lake.root) else []
    warnings += [f"warning: {run_id}: its folder is gone; what was read from it stays" for run_id in before.gone]
    problems = [*(f"{q.run_id}: {q.reason}" for q in quarantined), *map(_line, before.problems)]
    return Outcome({**document, "problems": problems, "warnings": warnings}, (*warnings, *problems))


def _bring_up_to_date(settings: Any, lake: Any, before: Any) -> None:
    """Ingest what is to do and publish what is stale, as of a look that the lock was had after."""
    from trace_flywheel.flow.begun import begun, ingestion, publication
    from trace_flywheel.flow.beside import is_small
    from trace_flywheel.flow.children import may_have_children
    from trace_flywheel.flow.fork_server import start_ahead
    from trace_flywheel.flow.freshness import freshness
    from trace_flywheel.flow.watch import Seen, side_inputs_now

    inputs, headless = before.inputs, None
    if before.todo:
        if not is_small(before.todo) and may_have_children():
            start_ahead("trace_flywheel.flow.warmed")  # while Dagster is imported
        print(f"ingesting {len(before.todo)} of {len(before.found)} runs", file=sys.stderr)
    calls = ingestion(lake, settings, before.inputs, before.todo, before.fingerprints)
    with begun(settings.home, calls, publication(settings, before.inputs) if calls else None):
        if before.todo:
            headless = _headless(settings)
            seen = Seen(before.found, before.inputs, before.fingerprints)
            headless.ingest([run.run_id for run in before.todo], seen)
            inputs = side_inputs_now(settings)
        if freshness(lake, settings, inputs)[1]:
            print("curating and publishing", file=sys.stderr)
            (headless or _headless(settings)).publish(inputs)


def _line(problem: Drop) -> str:
    return f"{problem.path}: {problem.reason}: {problem.evidence.get('text', '')}"


def _headless(settings: Any) -> Any:
    from trace_flywheel.flow.loading import loading

    with loading():
        from trace_flywheel.orchestration.headless import Headless

        return Headless(settings)
