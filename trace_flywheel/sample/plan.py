"""What a sample trial is before it takes a wire format: a task, its attempts, and the steps of each.

Everything is fabricated. Secrets are assembled when asked for, so that no file of the project holds one; texts name
them as `{github_token}` and the like.
"""

import hashlib
from typing import Any, Literal, NamedTuple


class Step(NamedTuple):
    """One assistant turn that calls a tool, and what the tool answered."""

    say: str
    tool: str
    arguments: dict[str, Any]
    result: str


class Attempt(NamedTuple):
    steps: tuple[Step, ...]
    answer: str
    reward: float | None = 1.0
    error: tuple[str, str] | None = None
    """Text and BenchFlow category of the agent's error."""
    verifier_error: tuple[str, str] | None = None
    cut: Literal["capture", "result"] | None = None
    """Which file was cut in the middle, as by a full disk."""


class Task(NamedTuple):
    name: str
    prompt: str
    attempts: tuple[Attempt, ...]


def tag(*parts: object, length: int = 8) -> str:
    """Hex digits that name a trial, a call or a session: from content, so that each writing gives the same bytes."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:length]


def secrets() -> dict[str, str]:
    """Planted values by name: well-formed, and valid nowhere."""
    return {
        "github_token": "ghp_" + tag("github", length=36),
        "aws_key": "AKIA" + tag("aws", length=16).upper().replace("0", "Q").replace("1", "R")[:16],
        "email": "rosa.lindqvist" + "@" + "larkfield-mail.com",
        "phone": "+1 (415) " + "555-" + "0134",
        "card": "4111 1111 " + "1111 1111",
    }


def filled(text: str) -> str:
    """The text with its `{name}` marks replaced by planted secrets; other braces stay."""
    for name, value in secrets().items():
        text = text.replace("{" + name + "}", value)
    return text
