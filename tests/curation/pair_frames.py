"""Frames of graded attempts for the pair builder, and what it answers, by trace id."""

from tests.curation.index_frames import everyone, fates, index_frame
from trace_flywheel.curation.preference import build_pairs
from trace_flywheel.curation.ragged import Ragged
from trace_flywheel.settings import Pairs


def hash_of(word):
    return int.from_bytes(word.encode(), "little")


def build(*rows, pairs=None, seed=42, alive=None, members=None, asked=None):
    """`says` of a row is one word per message (default: a question and the trace's own answer). `asked` gets how many
    rows the messages were asked of, each time; of others they are nothing."""
    frame = index_frame(*[{k: v for k, v in row.items() if k != "says"} for row in rows])
    says = {(row.get("run_id", "root/run-a"), row["trace_id"]): row.get("says", f"q {row['trace_id']}") for row in rows}
    words = [says[a].split() for a in zip(frame["run_id"], frame["trace_id"], strict=True)]
    hashes = Ragged.of([[hash_of(w) for w in ws] for ws in words])
    norms = Ragged.of([[hash_of(w.lower()) for w in ws] for ws in words])
    live = everyone(frame) if alive is None else alive(frame)
    counted = everyone(frame) if members is None else members(frame)

    def messages(mask):
        if asked is not None:
            asked.append(int(mask.sum()))
        some = [[one[row] if mask[row] else [] for row in range(len(mask))] for one in (hashes, norms)]
        return Ragged.of(some[0]), Ragged.of(some[1])

    return frame, build_pairs(frame, live, counted, messages, pairs or Pairs(), seed)


def pairs_of(frame, answer):
    names = frame["trace_id"]
    return [(names.iat[c], names.iat[r]) for c, r in zip(answer.table["chosen"], answer.table["rejected"], strict=True)]


def group(passes, fails, prefix="", **common):
    return [
        *({"trace_id": f"{prefix}p{i}", "verdict": "pass", "reward": r, **common} for i, r in enumerate(passes)),
        *({"trace_id": f"{prefix}f{i}", "verdict": "fail", "reward": r, **common} for i, r in enumerate(fails)),
    ]


def reasons(*rows, **options):
    frame, answer = build(*rows, **options)
    return set(fates(frame, answer.drops).values()), pairs_of(frame, answer)
