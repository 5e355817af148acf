"""A piece of the work at a dataset, as plain values that another process can be given, and the rows that it gives."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from trace_flywheel.flow.dataset_rows import Row, kto_row, pairs_among, prompt_row, rl_row, sft_row
from trace_flywheel.flow.reading import Reading, read
from trace_flywheel.trainers.layout import Kind


class Piece(msgspec.Struct, frozen=True):
    """What to read, and what the index knows of the rows that it gives."""

    kind: Kind
    readings: tuple[Reading, ...]
    known: dict[int, dict[str, Any]] = {}
    """By frame row: of RL rows the group, of prompts the pass rate."""
    pairs: tuple[Mapping[Hashable, Any], ...] = ()


def rows_in(piece: Piece, supervise_placeholders: Literal["mask", "keep"]) -> Iterator[tuple[tuple[int, ...], Row]]:
    """(the frame rows it is made from, row) of everything in a piece. Texts come one part at a time; of a pair only the
    first member waits."""
    read_now = (found for reading in piece.readings for found in read(reading))
    if piece.kind == "pair":
        yield from pairs_among(read_now, piece.pairs)
        return
    for row, rollout in read_now:
        if piece.kind == "rl":
            yield (row,), rl_row(piece.known[row], rollout)
        elif piece.kind == "prompt":
            yield (row,), prompt_row(piece.known[row], rollout)
        elif piece.kind == "kto":
            yield (row,), kto_row(rollout)
        else:
            yield (row,), sft_row(rollout, supervise_placeholders)
