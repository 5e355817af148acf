"""`flywheel why`: what became of one rollout in every dataset, and the evidence."""

import json
from typing import Annotated, Any

import typer

from trace_flywheel.cli.options import AsJson, Config, Home, settings_of, tell_refused


def why(
    trace_id: Annotated[str, typer.Argument(help="The rollout's trace id.")],
    run: Annotated[str | None, typer.Option("--run", help="Its run id, or the last part of it.")] = None,
    as_json: AsJson = False,
    home: Home = None,
    config: Config = None,
) -> None:
    from trace_flywheel.flow.why import why as fates_of
    from trace_flywheel.lake.store import Lake

    settings = settings_of(home, config)
    tell_refused(settings.home)
    fates = fates_of(Lake(settings.home), trace_id, run)
    if as_json:
        print(json.dumps(fates, ensure_ascii=False))
        return
    for fate in fates:
        place = f"{fate['dataset']}  {fate['run_id']}  task {fate['task_id']}"
        if fate["kept"]:
            print(f"{place}\n    kept: {', '.join(fate['row_ids'])}")
        else:
            evidence = {name: value for name, value in fate["evidence"].items() if name != "superseded"}
            print(f"{place}\n    dropped: {fate['stage']}/{fate['reason']}  {json.dumps(evidence)}")
        if earlier := fate["evidence"].get("superseded"):
            print(f"    superseded: {_grade(earlier)}; {earlier['by']} stands in its place")


def _grade(grade: dict[str, Any]) -> str:
    """An earlier grade in words."""
    said = [str(grade[name]) for name in ("verdict", "verdict_text") if grade.get(name) is not None][:1]
    said += [f"reward {grade[name]}" for name in ("reward", "reward_text") if grade.get(name) is not None][:1]
    grader = "@".join(str(grade[name]) for name in ("grader", "grader_version") if grade.get(name) is not None)
    return f"{', '.join(said) or 'no grade'}{f' by {grader}' if grader else ''}"
