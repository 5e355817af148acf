"""The seed set's classifier and its report, as they ship in the package: `python -m trace_flywheel.flow.depth.seed`.

To be run after a change of the seed set or of the features.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

from trace_flywheel.curation import depth
from trace_flywheel.curation.depth import cross_validate, seed_set, train, training_set_hash
from trace_flywheel.curation.depth_features import FEATURES_VERSION


def write(folder: Path) -> None:
    """Train on the seed set, judge by five folds, write `depth_seed_model.*` and `depth_seed_report.json`."""
    rows = seed_set()
    with tempfile.TemporaryDirectory() as fresh:
        train(rows).save(Path(fresh))
        (folder / "depth_seed_model.json").write_bytes((Path(fresh) / "depth.json").read_bytes())
        with np.load(Path(fresh) / "depth.npz", allow_pickle=False) as arrays:
            np.savez_compressed(folder / "depth_seed_model.npz", **arrays)
    report = {"of": [training_set_hash(rows), FEATURES_VERSION], "confusion": cross_validate(rows).confusion}
    (folder / "depth_seed_report.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    write(Path(depth.__file__).parent)
