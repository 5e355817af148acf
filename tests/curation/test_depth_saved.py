"""A saved classifier that was torn, edited or made by something else is refused before it labels anything."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trace_flywheel.curation.depth import LABELS, DepthModel
from trace_flywheel.curation.depth_features import COLUMNS, FEATURES_VERSION

Change = Callable[[dict[str, Any]], dict[str, Any]]
GOOD = {
    "columns": np.array([3, 7]),
    "weights": np.ones((2, 4), dtype=np.float32),
    "bias": np.zeros(4, dtype=np.float32),
}
INFO = {"labels": list(LABELS), "features": FEATURES_VERSION}


def saved(folder: Path, arrays: dict[str, Any], info: Any = INFO) -> Path:
    np.savez(folder / "depth.npz", **arrays)
    (folder / "depth.json").write_text(json.dumps(info))
    return folder


def test_the_smallest_model_is_read(tmp_path: Path) -> None:
    labels, confidence = DepthModel.load(saved(tmp_path, GOOD)).label(["x"])
    assert (labels, confidence.tolist()) == (["single"], [0.25])


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"columns": np.array([3, COLUMNS])}, "columns that there are not"),
        ({"columns": np.array([-1, 3])}, "columns that there are not"),
        ({"columns": np.array([3.0, 7.0])}, "no weights for each column"),
        ({"weights": np.ones((2, 3), dtype=np.float32)}, "no weights for each column"),
        ({"weights": np.ones((3, 4), dtype=np.float32)}, "no weights for each column"),
        ({"weights": np.array([["a"] * 4] * 2)}, "no weights for each column"),
        ({"weights": np.full((2, 4), np.nan, dtype=np.float32)}, "no finite numbers"),
        ({"bias": np.full(4, np.inf, dtype=np.float32)}, "no finite numbers"),
        ({"bias": np.zeros(3, dtype=np.float32)}, "no weights for each column"),
        ({"weights": np.array([{"code": "run"}], dtype=object)}, "Object arrays cannot be loaded"),
    ],
)
def test_arrays_that_are_no_weights_are_refused(tmp_path: Path, changed: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        DepthModel.load(saved(tmp_path, GOOD | changed))


@pytest.mark.parametrize("info", [[], 5, {}, {"features": "5", "labels": list(LABELS)}, {"features": FEATURES_VERSION}])
def test_what_describes_no_classifier_is_refused(tmp_path: Path, info: Any) -> None:
    with pytest.raises(ValueError, match=r"depth\.json|train it again"):
        DepthModel.load(saved(tmp_path, GOOD, info))


def test_labels_in_another_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="its labels are not single, multi, comparison, other"):
        DepthModel.load(saved(tmp_path, GOOD, INFO | {"labels": list(reversed(LABELS))}))


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04torn"])
def test_a_torn_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    saved(tmp_path, GOOD)
    (tmp_path / "depth.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"depth\.npz"):
        DepthModel.load(tmp_path)


def test_every_cut_and_many_flips_of_an_archive_are_refused_or_read_as_numbers(tmp_path: Path) -> None:
    saved(tmp_path, GOOD)
    whole = (tmp_path / "depth.npz").read_bytes()
    for at in range(0, len(whole), 7):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            (tmp_path / "depth.npz").write_bytes(data)
            try:
                _, confidence = DepthModel.load(tmp_path).label(["What is it?"])
            except ValueError:
                continue
            assert np.isfinite(confidence).all()
