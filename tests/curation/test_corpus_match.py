"""The library's comparison with a corpus, without tables: positions and evidence."""

import subprocess
import sys

from tests.curation.standing import corpus_of, digest
from trace_flywheel.curation.corpus_match import equal_rows, near_rows
from trace_flywheel.curation.sketch import Spans

LONG = " ".join(f"word{n}" for n in range(60))
OTHER = " ".join(f"thing{n}" for n in range(60))


def test_a_row_that_the_corpus_holds_is_named_by_position():
    corpus = corpus_of([LONG, OTHER], [LONG, OTHER], ["a", "b"])
    assert list(equal_rows([digest("c"), digest("b")], corpus)) == [1]
    assert equal_rows([], corpus) == {}


def test_a_near_row_says_how_near():
    corpus = corpus_of([LONG], [LONG], ["a"])
    near = near_rows(Spans.of_texts([OTHER, LONG + " more"]), Spans.of_texts([OTHER, LONG]), corpus, 0.85)
    assert list(near) == [1]
    assert near[1]["jaccard_supervised"] == 1.0
    assert near[1]["jaccard_prompt"] == round(56 / 57, 4)
    assert near[1]["threshold"] == 0.85


def test_comparing_needs_no_table_library():
    code = "import sys; import trace_flywheel.flow.conversion.corpus; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
