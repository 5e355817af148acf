"""`goldens.overlap`, held against labelled cases: what leaks an eval item and what merely resembles it.

0.5 parts them with room on both sides; the test fails when a change of tokens, n-grams or weights moves a case across.
"""

import pytest

from trace_flywheel.curation.holdout import Holdout
from trace_flywheel.records.golden import Golden
from trace_flywheel.records.message import Message
from trace_flywheel.settings import Goldens

PREAMBLE = (
    "You are working in a Linux container. Use the shell to look at files, never ask the user, and write your final "
    "answer to the file answer.txt before you stop. "
)
LEDGER = (
    "In the folder books there are twelve monthly ledgers in CSV form. Find the supplier whose unpaid invoices add up "
    "to the largest sum at the end of October, and report the supplier's name, the sum and the oldest due date."
)
PARSER = (
    "The parser in src/grammar.py accepts nested comments of any depth but loses the line number of the first closing "
    "mark. Repair it so that every token keeps the line it started on, and add a test for three levels."
)
FERRY = (
    "Plan a trip from Oban to Tiree and back for four people and one van between the ninth and the fourteenth of June, "
    "leaving as late as possible on the first day, and state the total fare."
)
GOLDENS = [Golden(f"g{i}", statement=PREAMBLE + text) for i, text in enumerate((LEDGER, PARSER, FERRY))]
LEAKS = {
    "verbatim": PREAMBLE + LEDGER,
    "without the preamble": PARSER,
    "upper case, other punctuation": FERRY.upper().replace(",", ";").replace(".", " --"),
    "inside a longer request": f"Hello! Here is the next one.\n\n> {LEDGER}\n\nThank you, and take your time.",
    "last sentence cut": PREAMBLE + PARSER.rpartition(", and add")[0],
    "two words replaced": PREAMBLE + LEDGER.replace("twelve", "several").replace("report", "tell me"),
    "first words cut": PREAMBLE + " ".join(FERRY.split()[8:]),
    "line breaks in between": "\n".join(PARSER.split(" ")),
}
CLEAN = {
    "the preamble with another task": PREAMBLE + "Count the words of every poem in verses/ and sort the files by it.",
    "the same trade, other words": "Which customer owes us most? Look through the invoices of last year and name him.",
    "a shared phrase": "Find the supplier whose unpaid invoices add up to something odd in March, then mail Ann.",
    "the same subject asked anew": "Our grammar forgets where a comment ended. Give tokens the right line again.",
    "same places, other trip": "Is there a ferry from Oban to Tiree on a Sunday in winter, and may dogs come along?",
    "a template with other values": "Plan a trip from Ullapool to Stornoway and back for two people and one bicycle "
    "between the second and the third of May, leaving as early as possible on the first day, and state the duration.",
    "nothing in common": "Write a haiku about rain on a tin roof.",
}


@pytest.mark.parametrize("case", LEAKS)
def test_a_leak_is_found(case: str) -> None:
    assert Holdout(GOLDENS, Goldens().overlap).hits([Message("user", LEAKS[case])])


@pytest.mark.parametrize("case", CLEAN)
def test_a_task_of_its_own_is_kept(case: str) -> None:
    assert Holdout(GOLDENS, Goldens().overlap).hits([Message("user", CLEAN[case])]) is None


def test_the_default_stands_in_the_gap_between_both() -> None:
    def share(text: str) -> float:
        found = Holdout(GOLDENS, 1e-6).hits([Message("user", text)])
        return float(found["share"]) if found else 0.0

    least, most = min(map(share, LEAKS.values())), max(map(share, CLEAN.values()))
    assert most + 0.1 < Goldens().overlap < least
