"""The depth classifier as an asset: what it learns from, when it is trained again, and the gate."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.curation.test_depth_embedding import ROWS, Fixed
from tests.flow.conftest import Flow, trace
from trace_flywheel.curation import depth_embedding
from trace_flywheel.curation.depth import DepthModel, _distinct, cross_validate, seed_report, seed_set, train
from trace_flywheel.curation.depth_families import families, near_any
from trace_flywheel.curation.embedding import EmbeddingError
from trace_flywheel.flow.freshness import freshness
from trace_flywheel.flow.names import classifier_of
from trace_flywheel.flow.tables import depth_classifier
from trace_flywheel.lake.dataset import find_version
from trace_flywheel.records.errors import FlywheelError

MakeFlow = Callable[..., Flow]


def labels(path: Path, *rows: tuple[str, str | None]) -> Path:
    path.write_text("".join(json.dumps({"prompt": prompt, "label": label}) + "\n" for prompt, label in rows))
    return path


def small(flow: MakeFlow, **settings: Any) -> Flow:
    return flow({"r1": [trace("t", "t", 1.0, 1)]}, **settings)


def test_it_is_trained_again_when_its_labels_change(flow: MakeFlow, tmp_path: Path) -> None:
    path = labels(tmp_path / "mine.jsonl", ("ship the frobnicator", "single"), ("later", None))
    held_out = labels(tmp_path / "held.jsonl", ("capital of chile?", "single"), ("write a poem about rain", "other"))
    one = small(flow, depth={"labels": [path], "held_out": [held_out]})
    first = depth_classifier(one.curation())
    assert (first.status, first.rows) == ("made", len(seed_set()) + 1)
    assert first.facts["held_out"]["by"] == "held-out files"
    assert "before" not in first.facts
    assert depth_classifier(one.curation()).status == "unchanged"
    labels(path, ("ship the frobnicator", "single"), ("later", "multi"))
    assert "depth_classifier" in freshness(one.lake, one.settings, one.curation().inputs)[1]
    second = depth_classifier(one.curation())
    assert (second.status, second.rows) == ("made", first.rows + 1)
    assert second.facts["before"] == first.facts["held_out"]


def test_below_the_gate_the_one_before_stays(flow: MakeFlow, tmp_path: Path) -> None:
    first = depth_classifier(small(flow).curation())
    wrong = labels(tmp_path / "held.jsonl", ("capital of chile?", "other"))
    one = small(flow, depth={"held_out": [wrong], "min_f1": 0.9})
    with pytest.raises(FlywheelError, match=r"macro-F1 0\.000 by held-out files .* 0.9; .*before stays"):
        depth_classifier(one.curation())
    current = one.lake.current("depth_classifier")
    assert current is not None
    assert current.digest == first.version


def test_a_recipe_with_labels_of_its_own_has_a_classifier_of_its_own(flow: MakeFlow, tmp_path: Path) -> None:
    path = labels(tmp_path / "mine.jsonl", ("ship the frobnicator", "single"))
    held_out = labels(tmp_path / "held.jsonl", ("capital of chile?", "single"))
    recipes = {"web": {"depth": {"labels": [str(path)], "held_out": [str(held_out)]}}, "plain": {}}
    one = small(flow, datasets=recipes)
    assert classifier_of(one.settings, "plain")[0] == classifier_of(one.settings, None)[0] == "depth_classifier"
    assert depth_classifier(one.curation(), "plain").version == depth_classifier(one.curation()).version
    own = depth_classifier(one.curation(), "web")
    assert (own.name, own.rows) == ("web_depth_classifier", len(seed_set()) + 1)


def test_labels_that_contradict_the_seed_set_are_told(flow: MakeFlow, tmp_path: Path) -> None:
    path = labels(tmp_path / "mine.jsonl", (seed_set()[0].prompt, "other"))
    with pytest.raises(FlywheelError, match="cannot train: two labels"):
        depth_classifier(small(flow, depth={"labels": [path]}).curation())


def test_the_report_that_ships_is_that_of_the_seed_set() -> None:
    """After a change of the seed set or the features: `python -m trace_flywheel.flow.depth.seed`."""
    shipped, reckoned = seed_report(), cross_validate(seed_set())
    assert shipped is not None
    # Sums differ in their last digits between processors: a prompt on the edge between two classes may change sides.
    assert shipped.macro_f1 == pytest.approx(reckoned.macro_f1, abs=0.003)
    for true, row in shipped.confusion.items():
        assert sum(row.values()) == sum(reckoned.confusion[true].values())
        assert all(abs(n - reckoned.confusion[true][guess]) <= 3 for guess, n in row.items())


def test_the_model_that_ships_is_that_of_the_seed_set() -> None:
    """After a change of the seed set or the features: `python -m trace_flywheel.flow.depth.seed`."""
    shipped, fitted = DepthModel.of_seed_set(), train(seed_set())
    assert shipped is not None
    same = {**shipped.info, "labels": tuple(shipped.info["labels"]), "versions": fitted.info["versions"]}
    assert same == fitted.info
    prompts = [row.prompt for row in seed_set()]
    (of_shipped, chances), (of_fitted, wanted) = shipped.label(prompts), fitted.label(prompts)
    assert of_shipped == of_fitted
    # Sums differ in their last digits between processors, and a fit takes another way for it. It stops where its
    # gradient is small, up to 0.02 before the optimum: two processors were seen to stop 0.0023 apart.
    np.testing.assert_allclose(chances, wanted, atol=5e-3)


def test_a_home_without_labels_of_its_own_fits_nothing(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.flow.depth.train.train", None)
    made = depth_classifier(small(flow).curation())
    assert (made.status, made.rows, made.facts["held_out"]["by"]) == ("made", len(_distinct(seed_set())), "five folds")


def test_changed_features_make_no_use_of_the_model_that_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_flywheel.curation.depth.FEATURES_VERSION", 99)
    assert DepthModel.of_seed_set() is None


def test_near_prompts_are_one_family_and_stand_in_one_fold() -> None:
    prompts = ["what is the capital of peru?", "what is the capital of cuba?", "write a poem about rain", "thanks!"]
    assert families(prompts) == ["what is the capital of cuba?"] * 2 + prompts[2:]
    assert near_any(["what is the capital of chad?", "thanks", "write a letter", "thanks!"], prompts) == [0, 1, 3]
    assert near_any(prompts, []) == near_any([], prompts) == []


def test_held_out_prompts_near_training_prompts_are_named(flow: MakeFlow, tmp_path: Path) -> None:
    rows = [("capital of kazakhstan??", "single"), ("which frobnicator hums at dusk?", "single")]
    one = small(flow, depth={"held_out": [labels(tmp_path / "held.jsonl", *rows)], "min_f1": 0})
    told = depth_classifier(one.curation()).facts["held_out"]
    assert (told["near_training"], told["near_prompts"]) == (1, ["capital of kazakhstan??"])


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> type[Fixed]:
    monkeypatch.setattr(depth_embedding, "encoder", lambda wanted_by: Fixed())
    depth_embedding._vector.cache_clear()
    return Fixed


def on_few_labels(tmp_path: Path, **more: Any) -> dict[str, Any]:
    path = labels(tmp_path / "few.jsonl", *((row.prompt, row.label) for row in ROWS))
    return {"labels": [path], "held_out": [path], "seed_set": False, "min_f1": 0.0, **more}


def test_the_back_end_is_a_setting_and_a_part_of_the_digest(
    flow: MakeFlow, tmp_path: Path, encoder: type[Fixed], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = on_few_labels(tmp_path)
    plain = depth_classifier(small(flow, depth=few).curation())
    assert "encoder" not in plain.facts
    one = small(flow, depth={**few, "backend": "embedding"})
    assert "depth_classifier" in freshness(one.lake, one.settings, one.curation().inputs)[1]
    made = depth_classifier(one.curation())
    assert (made.status, made.facts["encoder"]) == ("made", "fixed@1:0")
    assert made.facts["held_out"]["accuracy"] == 1.0
    assert depth_classifier(one.curation()).status == "unchanged"
    monkeypatch.setattr(encoder, "fingerprint", "fixed@2:0")
    assert "depth_classifier" in freshness(one.lake, one.settings, one.curation().inputs)[1]
    assert depth_classifier(one.curation()).facts["encoder"] == "fixed@2:0"


def test_the_seed_sets_own_model_has_no_vectors(
    flow: MakeFlow, encoder: type[Fixed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ships was trained on n-grams: it is not taken for a classifier that should see vectors too."""
    seen: list[str] = []
    monkeypatch.setattr("trace_flywheel.flow.depth.train.cross_validate", lambda rows, backend: seen.append(backend))
    monkeypatch.setattr("trace_flywheel.flow.depth.train.train", lambda rows, backend: seen.append(backend))
    with pytest.raises(AttributeError):
        depth_classifier(small(flow, depth={"backend": "embedding"}).curation())
    assert seen == ["embedding", "embedding"]


@pytest.mark.parametrize(("backend", "told"), [("ngrams", "cues and n-grams"), ("embedding", "(`fixed@1:0`)")])
def test_manifest_and_card_of_the_mix_tell_the_classifier(
    flow: MakeFlow, tmp_path: Path, encoder: type[Fixed], backend: str, told: str
) -> None:
    few = on_few_labels(tmp_path, backend=backend)
    made = small(flow, depth=few, mix={"target": {"single": 1.0, "other": 1.0}, "shortage": "renormalize"}).run()
    version = find_version(tmp_path / "home", "balanced_mix")
    assert version.manifest["facts"]["classifier"].get("encoder") == ("fixed@1:0" if backend == "embedding" else None)
    card = (version.path / "README.md").read_text()
    line = next(line for line in card.splitlines() if line.startswith("Classifier: "))
    assert told in line
    assert f"8 prompts (`{made['depth_classifier'].facts['training_set'][:12]}`)" in line
    assert "macro-F1 1.000 by held-out files." in line


def test_without_the_extra_the_setting_is_named(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(wanted_by: str) -> None:
        raise EmbeddingError(f"{wanted_by}: the package is missing")

    monkeypatch.setattr(depth_embedding, "encoder", missing)
    with pytest.raises(EmbeddingError, match=r"depth\.backend.*the package is missing"):
        small(flow, depth={"backend": "embedding"}).run()
