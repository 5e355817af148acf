"""What a dataset version says about itself: the settings its bytes depend on, and the manifest's own part."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from trace_flywheel.curation.embedding import encoder
from trace_flywheel.flow.inputs import SideInputs
from trace_flywheel.flow.policy import policy_of
from trace_flywheel.lake.sidecar import Sidecar
from trace_flywheel.settings import Recipe, Settings
from trace_flywheel.trainers.layout import Layout

if TYPE_CHECKING:
    from trace_flywheel.flow.writing import Published

EMBEDDING = "dedup.embedding_threshold"
"""The setting that asks for sentence vectors of rows."""


def recipe_settings(settings: Settings, recipe: str | None) -> tuple[Settings, Recipe]:
    """The tree with a recipe's own sections in place of the common ones, and the recipe."""
    chosen = settings.datasets[recipe] if recipe else Recipe()
    own = {n: v for n in ("selection", "pairs", "mix", "layouts") if (v := getattr(chosen, n)) is not None}
    return settings.model_copy(update=own), chosen


def hashed_settings(settings: Settings, recipe: Recipe, layouts: Sequence[Layout]) -> dict[str, Any]:
    """The settings that a dataset's bytes depend on, with the versions of its layouts: what its card shows."""
    filters = recipe.model_dump(mode="json", include={"sources", "agents", "tasks", "policies"})
    model = embedding_model(settings)
    meaning = {} if model is None else {"embedding_model": model}
    return {**settings.hashed(), "layouts": {one.NAME: one.VERSION for one in layouts}, "filters": filters, **meaning}


def embedding_model(settings: Settings) -> str | None:
    """Fingerprint of the model that the settings ask for; None where they ask for none."""
    return None if settings.dedup.embedding_threshold is None else encoder(EMBEDDING).fingerprint


def manifest_of(
    runs: Sequence[Sidecar],
    inputs: SideInputs,
    settings: Settings,
    kind: str,
    digest: str,
    code: int,
    done: "Published",
    facts: dict[str, Any],
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """The manifest beside rows, counts and files: inputs with digests, code, graders, facts, warnings and columns."""
    return {
        "kind": kind,
        "code": {"version": code_version(), "datasets": code, "ruleset": policy_of(settings).digest()},
        "inputs": {
            "digest": digest,
            "runs": [{"run_id": s.run_id, "content_digest": s.content_digest} for s in runs],
            "goldens": inputs.goldens_digest,
            "golden_files": inputs.golden_files,
        },
        "graders": {name: sorted(found) for name, found in sorted(done.graders.items())},
        "facts": {**facts, "goldens": len(inputs.goldens)},
        "warnings": list(warnings),
        "columns": done.columns,
    }


def code_version() -> str:
    """Of this package."""
    try:
        return version("trace-flywheel")
    except PackageNotFoundError:  # a checkout that is not installed
        return "checkout"
