"""One kernel of the product over lines of text: `python -m benchmarks.own KERNEL TEXTS LIMIT`; prints CPU and bytes.

`recall` takes a seed instead of a limit: it looks for planted near-duplicates and tells what was found.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from trace_flywheel.curation import compiled


def sketch(texts: Sequence[str]) -> Callable[[], object]:
    from trace_flywheel.curation.sketch import Spans

    Spans.of_texts(texts[:1])  # compiled or loaded once a process
    return lambda: Spans.of_texts(texts)


def redact(texts: Sequence[str]) -> Callable[[], object]:
    from trace_flywheel.records.message import Message
    from trace_flywheel.records.rollout import Rollout, Source
    from trace_flywheel.redaction.redact import redactor

    source = Source("bench", "texts", "0" * 64)
    # A message as long as those of the corpus: the redactor takes a rollout's messages in one pass.
    rollouts = [
        Rollout("r", "t", "k", source, tuple(Message("user", text[i : i + 1_000]) for i in range(0, len(text), 1_000)))
        for text in texts
    ]
    clean = redactor("standard").redact
    return lambda: [clean(rollout) for rollout in rollouts]


def validate(rows: Sequence[Any]) -> Callable[[], object]:
    from trace_flywheel.trainers.schema import shape_faults

    if faults := [fault for row in rows[:1] for fault in shape_faults("messages-row.v1", row)]:
        raise SystemExit(f"the generated rows break their schema: {faults}")
    return lambda: [list(shape_faults("messages-row.v1", row)) for row in rows]


def depth(prompts: Sequence[str]) -> Callable[[], object]:
    from trace_flywheel.curation.depth import seed_set, train

    model = train(seed_set())
    model.label(prompts[:1])
    return lambda: model.label(prompts)


def ngrams(prompts: Sequence[str]) -> Callable[[], object]:
    """The n-grams of the depth classifier alone, no cues and no labels, as scikit-learn's own hashing makes them."""
    from sklearn.feature_extraction.text import HashingVectorizer

    words = HashingVectorizer(ngram_range=(1, 2), n_features=1 << 16)
    characters = HashingVectorizer(analyzer="char", ngram_range=(2, 4), n_features=1 << 17)
    return lambda: (words.transform(prompts), characters.transform(prompts))


KERNELS = {"sketch": sketch, "redact": redact, "validate": validate, "depth": depth, "ngrams": ngrams}


def recall(seed: int, rollouts: int = 4_000) -> dict[str, Any]:
    """Of the planted pairs at each true Jaccard band, the share that LSH and exact verification find."""
    import numpy as np

    from benchmarks.corpus import attempt, attempts, shaped
    from trace_flywheel.curation.dedup import near_prompts
    from trace_flywheel.curation.sketch import Spans

    shape = shaped(rollouts, seed=seed, near=0.2, output=(1, 2), system=10, prompt=10)
    made = list(attempts(shape))
    spans = Spans.of_texts([one.learned() for one in made])
    repeats = np.array([one.kind == "near" for one in made])
    match, _ = near_prompts(repeats, ~repeats, spans, 0.85)
    hits = {"at or above .85": [0, 0], "between .85 and .88": [0, 0]}
    false = 0
    for one, other in zip(made, match.tolist(), strict=True):
        if one.kind != "near" or one.jaccard is None:
            continue
        found = other >= 0
        false += found and one.jaccard < 0.85 and attempt(shape, other).name == one.of
        for band, low, high in (("at or above .85", 0.85, 1.0), ("between .85 and .88", 0.85, 0.88)):
            if low <= one.jaccard <= high:
                hits[band][0] += found
                hits[band][1] += 1
    told = ", ".join(f"{found} of {all_} pairs {band}" for band, (found, all_) in hits.items())
    return {"texts": len(made), "told": f"{told}; {false} below the threshold", "hits": hits, "false": false}


if __name__ == "__main__":
    kernel, path, number = sys.argv[1:4]
    if kernel == "recall":
        print(json.dumps(recall(int(number))))
        raise SystemExit
    lines = Path(path).read_bytes().splitlines()[: int(number)]
    items = [orjson.loads(line) for line in lines]
    size = sum(
        len(item.encode()) if isinstance(item, str) else len(line) for item, line in zip(items, lines, strict=True)
    )
    compiled.PATIENCE = -1.0  # a corpus of a few texts stands for a large one
    work = KERNELS[kernel](items)
    start = time.process_time()
    work()
    print(json.dumps({"cpu": time.process_time() - start, "bytes": size, "items": len(items)}))
