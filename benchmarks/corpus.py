"""A corpus of any size from one seed: tasks x attempts, with duplicates at known Jaccard and secrets at known places.

Attempt n is made from the seed and n alone, so a corpus is never in memory: attempt n is the (n // tasks)-th at task
n % tasks. Most attempts are their own; some repeat the attempt before at the same task, word for word or with a run of
words replaced so that the Jaccard of what a trainer learns from them comes out near a target. What it came out as is
measured by the plain definition and told.
"""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.text import jaccard, secret, text, with_block_replaced

CALLS = 15
"""Model calls of an attempt, all but the last with one tool call."""
NEAR_TARGETS = (0.95, 0.90, 0.865, 0.80)


class Shape(NamedTuple):
    """How a corpus looks. Shares are of all attempts."""

    tasks: int = 50
    attempts: int = 40
    """At each task. 200 tasks x 500 attempts is the skewed shape of agent work."""
    seed: int = 42
    exact: float = 0.02
    near: float = 0.05
    """Spread evenly over `NEAR_TARGETS`."""
    secrets: float = 0.05
    system: int = 3_000
    prompt: int = 1_500
    answer: int = 160
    last: int = 2_000
    """Characters of the last answer."""
    output: tuple[int, int] = (600, 2_600)

    @property
    def rollouts(self) -> int:
        return self.tasks * self.attempts


class Step(NamedTuple):
    say: str
    command: str
    output: str


class Attempt(NamedTuple):
    number: int
    task: str
    name: str
    system: str
    prompt: str
    steps: tuple[Step, ...]
    last: str
    reward: float
    kind: str
    """`own`, `exact` or `near`."""
    of: str | None
    """The attempt that it repeats."""
    jaccard: float | None
    secret: str | None

    def learned(self) -> str:
        """What a trainer learns: answers and calls."""
        calls = [f"{step.say}\nbash {json.dumps({'command': step.command})}" for step in self.steps]
        return "\n".join([*calls, self.last])


def shaped(rollouts: int, tasks: int = 50, **more: Any) -> Shape:
    """A shape with this many rollouts, rounded up to whole attempts."""
    tasks = min(tasks, rollouts)
    return Shape(tasks=tasks, attempts=-(-rollouts // tasks), **more)


def attempts(shape: Shape) -> Iterator[Attempt]:
    """All attempts, in order."""
    for number in range(shape.rollouts):
        yield attempt(shape, number)


def attempt(shape: Shape, number: int) -> Attempt:
    """The attempt of this number."""
    kind = _kind(shape, number)
    if kind == "own":
        return _own(shape, number)
    rng = random.Random(f"{shape.seed}:repeat:{number}")
    before = _own(shape, number - shape.tasks)
    made = _own(shape, number)._replace(steps=before.steps, last=before.last, kind=kind, of=before.name, secret=None)
    made = made._replace(secret=before.secret, jaccard=1.0)
    if kind == "exact":
        return made
    target, size = rng.choice(NEAR_TARGETS), len(before.learned().split())
    words = max(1, round(size * (1 - target) / (1 + target)) - 4)
    made = made._replace(last=with_block_replaced(rng, before.last, words))
    return made._replace(jaccard=jaccard(before.learned(), made.learned()))


def truth(shape: Shape) -> Iterator[dict[str, Any]]:
    """What is known about each attempt that repeats another or holds a secret."""
    for one in attempts(shape):
        if one.kind != "own" or one.secret:
            yield {key: getattr(one, key) for key in ("name", "task", "kind", "of", "jaccard", "secret")}


def _kind(shape: Shape, number: int) -> str:
    """A repeat follows an attempt of its own, so that no chain of edits makes a Jaccard unknown."""
    if number < shape.tasks or _drawn(shape, number - shape.tasks) != "own":
        return "own"
    return _drawn(shape, number)


def _drawn(shape: Shape, number: int) -> str:
    drawn = random.Random(f"{shape.seed}:kind:{number}").random()
    return "exact" if drawn < shape.exact else "near" if drawn < shape.exact + shape.near else "own"


def _own(shape: Shape, number: int) -> Attempt:
    rng = random.Random(f"{shape.seed}:{number}")
    task = f"task-{number % shape.tasks:04d}"
    hidden = secret(rng) if rng.random() < shape.secrets else None
    steps = [
        Step(
            text(rng, shape.answer),
            f"python3 step_{n}.py --seed {rng.randrange(10**6)}",
            text(rng, rng.randrange(*shape.output)),
        )
        for n in range(CALLS - 1)
    ]
    if hidden:
        at = rng.randrange(len(steps))
        steps[at] = steps[at]._replace(output=f"{steps[at].output}\nexport TOKEN={hidden}\n")
    return Attempt(
        number=number,
        task=task,
        name=f"{task}__{number:08x}",
        system=text(random.Random(shape.seed), shape.system),
        prompt=text(random.Random(f"{shape.seed}:{task}"), shape.prompt),
        steps=tuple(steps),
        last=text(rng, shape.last),
        reward=rng.choice((0.0, 0.25, 0.5, 1.0)),
        kind="own",
        of=None,
        jaccard=None,
        secret=hidden,
    )
