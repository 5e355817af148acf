"""`flywheel datasets`: which dataset versions there are, all versions of one, or what other settings would keep."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from trace_flywheel.cli.options import AsJson, Config, Home, program, settings_of, tell_refused


def datasets(
    name: Annotated[str | None, typer.Argument(help="All versions of this dataset, newest first.")] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Instead: rows of an SFT set by keep fraction and near-duplicate threshold.")
    ] = False,
    rescan: Annotated[
        bool, typer.Option("--rescan", help="Instead: all versions, with what today's redaction rules find in them.")
    ] = False,
    as_json: AsJson = False,
    home: Home = None,
    config: Config = None,
) -> None:
    from trace_flywheel.flow.stale import goldens_now
    from trace_flywheel.flow.standing import asked_version
    from trace_flywheel.lake.dataset import names, versions

    settings = settings_of(home, config)
    if sweep:
        _sweep(settings, name or "sft_dataset", as_json)
        return
    if rescan:
        _rescan(settings, name, as_json)
        return
    place = settings.home
    tell_refused(place, name)
    newest = {one: asked_version(place, one) for one in ([name] if name else names(place))}
    shown = versions(place, name) if name else tuple(newest.values())
    goldens = goldens_now(settings)
    listed = [_line(version, newest[version.name].version == version.version, goldens) for version in shown]
    if as_json:
        print(json.dumps(listed, ensure_ascii=False))
        return
    if not listed:
        print(f"no datasets in {place}; run `{program()} refresh`")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("dataset", "version", "rows", "published", "size", "path", box=None)
    for one in listed:
        marks = ([] if one["latest"] else ["older"]) + (["stale: goldens changed"] if one["stale"] else [])
        mark = f" ({', '.join(marks)})" if marks else ""
        size = f"{one['bytes'] / 1e6:.1f} MB"
        table.add_row(one["name"] + mark, one["version"], str(one["rows"]), one["date"], size, escape(one["path"]))
    Console(soft_wrap=True, width=400).print(table)  # rich would cut what is wider


def _sweep(settings: Any, name: str, as_json: bool) -> None:
    from trace_flywheel.flow.curation import Curation
    from trace_flywheel.flow.sweep import sweep
    from trace_flywheel.flow.watch import side_inputs_now
    from trace_flywheel.lake.store import Lake

    found = sweep(Curation(Lake(settings.home), settings, side_inputs_now(settings)), name)
    if as_json:
        print(json.dumps([{field: getattr(one, field) for field in one.__struct_fields__} for one in found]))
        return
    from rich.console import Console
    from rich.table import Table

    thresholds = sorted({one.threshold for one in found})
    table = Table("keep_fraction, threshold:", *(f"{t:g}" for t in thresholds), box=None)
    for fraction in sorted({one.keep_fraction for one in found}):
        row = [one for one in found if one.keep_fraction == fraction]
        table.add_row(f"{fraction:g}", *(f"{one.rows}{' *' if one.in_force else ''}" for one in row))
    console = Console(soft_wrap=True, width=200)
    console.print(table)
    console.print(f"rows of {name}; * as set now", highlight=False)


def _line(version: Any, latest: bool, goldens: Any) -> dict[str, Any]:
    from trace_flywheel.flow.stale import is_stale

    files = [path for path in version.path.rglob("*") if path.is_file()]
    published = datetime.fromtimestamp((version.path / "manifest.json").stat().st_mtime, UTC)
    return {
        "name": version.name,
        "version": version.version,
        "latest": latest,
        "stale": is_stale(version, goldens),
        "rows": version.rows,
        "date": published.isoformat(timespec="seconds"),
        "bytes": sum(path.stat().st_size for path in files),
        "path": str(version.path),
        "card": str(version.path / "README.md"),
    }


def _rescan(settings: Any, name: str | None, as_json: bool) -> None:
    """Exits 1 when a version has findings."""
    from trace_flywheel.flow.rescan import rescan

    seen = list(rescan(settings, name))
    if as_json:
        print(json.dumps(seen, ensure_ascii=False))
    else:
        for one in seen:
            found = ", ".join(f"{rule} {n}" for rule, n in one["findings"].items()) or "nothing"
            print(f"{one['name']}@{one['version']}: {found}")
    raise typer.Exit(1 if any(one["findings"] for one in seen) else 0)
