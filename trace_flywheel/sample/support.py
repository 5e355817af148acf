"""The eval run: questions to a support assistant of an invented company, its goldens and one correction."""

from typing import Any, NamedTuple


class Answer(NamedTuple):
    text: str
    reward: float
    verdict: str = "pass"


class Question(NamedTuple):
    task_id: str
    text: str
    answers: tuple[Answer, ...]
    correction: str | None = None
    """What a reviewer wrote in place of the last answer."""


def _fails(text: str, reward: float = 0.0) -> Answer:
    return Answer(text, reward, "fail")


QUESTIONS = (
    Question(
        "warranty-length",
        "How long is the warranty on a Larkfield standing desk?",
        (
            Answer("Five years on the frame and the motor, counted from the day of delivery.", 0.9),
            _fails("There is a warranty, and its length depends on the product.", 0.2),
        ),
    ),
    Question(
        "upload-limit",
        "What is the largest file that I can upload to a shared Larkfield board?",
        (
            Answer("250 MB a file; larger ones can be linked from a connected drive instead.", 0.95),
            Answer("The limit is 250 MB.", 0.7),
        ),
    ),
    Question(
        "support-hours",
        "At what time does Larkfield's telephone support open on Saturdays?",
        (Answer("At nine in the morning, Central European Time, and it closes at one.", 0.9),),
    ),
    Question(
        "founding-year",
        "In which year was the Larkfield workshop founded?",
        (Answer("In 1987, as a joinery with three employees.", 1.0), _fails("Some decades ago.", 0.1)),
    ),
    Question(
        "upgrade-cost",
        "My team has six seats on the Team plan at 9 EUR each. Look up the price of the Studio plan, work out "
        "what the "
        "upgrade costs for the 12 days left in our 30-day cycle, and tell me the amount before tax.",
        (
            Answer(
                "Studio is 15 EUR a seat, so the difference is 6 EUR. For six seats that is 36 EUR a cycle; 12 "
                "of 30 days "
                "make 14.40 EUR before tax.",
                1.0,
            ),
            Answer("The difference of 36 EUR is charged for 12/30 of the cycle: 14.40 EUR before tax.", 0.8),
            _fails("Upgrading costs 15 EUR per seat, which is 90 EUR in total.", 0.3),
            _fails("You can see the amount in the billing page after you have upgraded.", 0.0),
        ),
    ),
    Question(
        "quota-left",
        "Our workspace has 40 GB. Sum the sizes of the three largest boards in the list that I sent, subtract "
        "them from the "
        "quota, and say how many of our 2 GB exports still fit.",
        (
            Answer(
                "The three largest boards take 14, 9 and 6 GB, 29 GB together. That leaves 11 GB, and five "
                "exports of 2 GB "
                "fit into it.",
                0.95,
            ),
            _fails("You have used most of your quota, so probably none.", 0.1),
        ),
    ),
    Question(
        "delivery-date",
        "I ordered on a Thursday evening with express delivery to Bergen. Find the cut-off hour for express "
        "orders, then the "
        "transit days to Norway, and work out on which weekday the parcel arrives.",
        (
            Answer(
                "Express orders leave the same day until two in the afternoon, so yours leaves on Friday. "
                "Transit to Norway "
                "takes two working days, which makes it Tuesday.",
                0.9,
            ),
            _fails("Express parcels arrive the next day, so on Friday.", 0.2),
        ),
    ),
    Question(
        "invoice-address",
        "Find out who administers the workspace that invoice LF-2201 belongs to, then tell me where the invoice "
        "was sent.",
        (
            Answer(
                "The invoice belongs to the workspace of Rosa Lindqvist. It was sent to {email}, paid with card "
                "{card}, and "
                "she can be reached at {phone}.",
                0.85,
            ),
            _fails("I cannot look up invoices.", 0.0),
        ),
    ),
    Question(
        "plan-compare",
        "Should we take the Team plan or the Studio plan if guests matter more to us than storage?",
        (
            Answer(
                "Team. It includes unlimited guests and 40 GB; Studio has more storage but caps guests at 25 per "
                "workspace.",
                0.95,
            ),
            Answer("The Team plan, because Studio limits the number of guests.", 0.75),
            _fails("Studio is the better plan in every respect.", 0.1),
            _fails("Both plans are popular with our customers.", 0.0),
        ),
    ),
    Question(
        "desk-compare",
        "Which desk is quieter when it moves, the Larkfield One or the Larkfield Pro?",
        (Answer("The Pro: 42 dB against 48 dB of the One, since it has two slower motors.", 0.9),),
    ),
    Question(
        "region-compare",
        "What is the difference between the Frankfurt and the Dublin storage region in latency from Vienna and "
        "in price?",
        (
            Answer("Frankfurt answers in about 14 ms and costs 2 EUR more a seat; Dublin takes 38 ms.", 0.85),
            _fails("Both regions are in Europe.", 0.2),
        ),
    ),
    Question(
        "refund-window",
        "Until when can a customer return a desk that was assembled already?",
        (Answer("Within thirty days, in any condition that normal assembly explains.", 1.0),),
    ),
    Question(
        "kb-041",
        "A departing colleague owns eleven boards and nobody else is an administrator. Describe step by step how "
        "the seat "
        "and the boards are moved to me without losing the comments on them.",
        (
            Answer(
                "Open Members, choose the colleague, press Transfer, name yourself as the new owner, and confirm "
                "by the "
                "code that is sent to the billing contact. Comments stay with the boards.",
                0.95,
            ),
        ),
    ),
    Question(
        "cancel-trial",
        "I started a trial of the Studio plan yesterday. How do I stop it before it turns into a paid plan?",
        (_fails("Trials cannot be stopped; they end by themselves after the first payment.", 0.0),),
        "Open Billing, choose End trial, and confirm. You keep Studio until the fourteenth day and nothing is charged.",
    ),
)

GOLDENS: tuple[dict[str, Any], ...] = (
    {
        "task_id": "refund-window",
        "prompt": "Until when can a customer return a desk that was assembled already?",
        "answer": "Thirty days.",
    },
    {
        "task_id": "seat-transfer",
        "prompt": "A departing colleague owns eleven boards and nobody else is an administrator. Describe step "
        "by step how "
        "the seat and the boards are moved to me without losing the comments on them.",
        "answer": "Members, Transfer, new owner, confirm with the code sent to the billing contact.",
    },
)


def rows(run_id: str) -> list[dict[str, Any]]:
    """The rows of `results.json`, one per attempt."""
    made: list[dict[str, Any]] = []
    for question in QUESTIONS:
        for number, answer in enumerate(question.answers):
            row: dict[str, Any] = {
                "task_id": question.task_id,
                "trace_id": f"{question.task_id}-a{number}",
                "run_id": run_id,
                "model": "larkfield/support-7b",
                "messages": [
                    {"role": "system", "content": "You answer questions about Larkfield in a few friendly sentences."},
                    {"role": "user", "content": question.text},
                    {"role": "assistant", "content": answer.text},
                ],
                "verdict": answer.verdict,
                "reward": answer.reward,
                "grader": "judge_v3",
            }
            if question.correction is not None and number == len(question.answers) - 1:
                row["correction"] = {"content": question.correction, "corrected_by": "reviewer-2"}
            made.append(row)
    return made
