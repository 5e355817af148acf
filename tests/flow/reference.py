"""The curation of eval rows told a second time: plain Python, slow, and nothing of the product in it.

Rows are those of `results.json`, with `run` for their folder. A fate is `kept` or `stage/reason`. Only two things are
asked of the product: the content hash of each row, because seeded ties are broken by it, and the attempt hash, because
rows with equal content follow in its order.
"""

import math
from collections.abc import Callable
from typing import Any

from tests.flow.reference_messages import View, context, folded, parted

Row = dict[str, Any]
Fates = dict[str, str]
SEED, KEEP, CAP, MIN_GROUP, NEAR, EPS = 42, 0.5, 2, 4, 0.85, 1e-4


def tie(content: str) -> int:
    """splitmix64's finaliser over the content hash and the seed."""
    x = (int(content[:16], 16) + SEED * 0x9E3779B97F4A7C15) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def shingles(text: str) -> set[tuple[str, ...]]:
    words = folded(text).split()
    return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}


def near(a: str, b: str) -> bool:
    left, right = shingles(a), shingles(b)
    return len(left & right) / len(left | right) >= NEAR


def grader(row: Row) -> tuple[Any, ...]:
    return (row.get("grader"), row.get("grader_version"))


def address(row: Row) -> tuple[str, str]:
    return (row["run"], row["trace_id"])


class Reference:
    """What should become of each row, by trace id; `advantages` beside it."""

    def __init__(self, rows: list[Row], content: dict[str, str], attempt: dict[str, str]) -> None:
        self.rows = sorted(rows, key=address)
        self.content, self.attempt = content, attempt
        self.once, self.members = self._once()
        self.advantages, self.withheld = self._advantages()
        self.built = self._pairs()

    def _hash(self, row: Row) -> str:
        return self.content[row["trace_id"]]

    def _tie(self, row: Row) -> int:
        return tie(self._hash(row))

    def _once(self) -> tuple[Fates, list[Row]]:
        fates: Fates = {}
        members: list[Row] = []
        seen = set()
        for row in self.rows:
            times = (row.get("started_at"), row.get("finished_at"))
            attempt = (*times, self._hash(row)) if any(times) else address(row)
            if attempt in seen:
                fates[row["trace_id"]] = "same_rollout/same_rollout"
            else:
                seen.add(attempt)
                members.append(row)
        return fates, members

    def _advantages(self) -> tuple[dict[str, float], Fates]:
        given: dict[str, float] = {}
        withheld: Fates = {}

        def key(row: Row) -> tuple[Any, ...]:
            return tuple(row.get(n) for n in ("task_id", "agent", "policy_version"))

        for row in self.members:
            group = [other for other in self.members if key(other) == key(row)]
            scored = [other for other in group if other["reward"] is not None]
            mine = [other["reward"] for other in scored if grader(other) == grader(row)]
            if len(scored) < len(group):
                withheld[row["trace_id"]] = "groups/withheld_unscored"
            elif len(mine) < 2:
                several = len(scored) >= 2
                withheld[row["trace_id"]] = "convertible/mixed_graders" if several else "groups/single_scored_rollout"
            else:
                mean = sum(mine) / len(mine)
                std = math.sqrt(sum((r - mean) ** 2 for r in mine) / (len(mine) - 1))
                flat = max(mine) == min(mine)
                given[row["trace_id"]] = 0.0 if flat else (row["reward"] - mean) / (std + EPS)
        return given, withheld

    def _ungraded(self, row: Row, needs_reward: bool) -> str | None:
        if row["verdict"] not in ("pass", "fail"):
            return "convertible/no_verdict"
        return "convertible/no_reward" if needs_reward and row["reward"] is None else None

    def _precedence(self, row: Row) -> tuple[Any, ...]:
        reward = math.inf if row["reward"] is None else -row["reward"]
        return (not row.get("correction"), reward, self._hash(row), self.attempt[row["trace_id"]])

    def _rank(self, row: Row) -> tuple[Any, ...]:
        return (math.inf if row["reward"] is None else -row["reward"], self._tie(row))

    def sft(self) -> Fates:
        fates, left = dict(self.once), []
        views = {row["trace_id"]: View(row) for row in self.rows}
        for row in self.members:
            unranked = bool(row.get("correction")) or (
                row["verdict"] == "fail" and row.get("step_verdicts") is not None
            )
            if fault := self._ungraded(row, needs_reward=not unranked) or views[row["trace_id"]].fault:
                fates[row["trace_id"]] = fault
            else:
                left.append(row)

        def same(a: Row, b: Row) -> bool:
            return views[a["trace_id"]].exact == views[b["trace_id"]].exact

        left = self._first_of_each(left, same, "exact_duplicate/exact_duplicate", fates)
        stays = [row for row in left if row.get("correction")]
        rest = [row for row in left if not row.get("correction")]
        stays += [row for row in rest if row["verdict"] == "fail" and row.get("step_verdicts") is not None]
        for row in rest:
            if row["verdict"] == "fail" and row.get("step_verdicts") is None:
                fates[row["trace_id"]] = "selection/not_passing"
        passing = [row for row in rest if row["verdict"] == "pass"]
        for row in passing:
            rivals = [o for o in passing if (o["task_id"], *grader(o)) == (row["task_id"], *grader(row))]
            place = sorted(map(self._rank, rivals)).index(self._rank(row))
            if place < math.ceil(len(rivals) * KEEP):
                stays.append(row)
            else:
                fates[row["trace_id"]] = "selection/below_fraction"

        def alike(a: Row, b: Row) -> bool:
            one, other = views[a["trace_id"]], views[b["trace_id"]]
            return near(one.asked, other.asked) and near(one.taught, other.taught)

        stays = self._first_of_each(stays, alike, "near_duplicate/near_duplicate", fates)
        newest: dict[str, str] = {}
        for row in self.rows:
            if row.get("policy_version") and row.get("finished_at"):
                newest[row["policy_version"]] = max(newest.get(row["policy_version"], ""), row["finished_at"])
        capped = [row for row in stays if not row.get("correction")]
        for task in {row["task_id"] for row in capped}:
            mine = sorted((row for row in capped if row["task_id"] == task), key=self._rank)
            mine.sort(key=lambda row: newest.get(row.get("policy_version") or "", ""), reverse=True)
            for row in mine[CAP:]:
                fates[row["trace_id"]] = "cap/over_task_cap"
        return {row["trace_id"]: fates.get(row["trace_id"], "kept") for row in self.rows}

    def _first_of_each(self, rows: list[Row], same: Callable[[Row, Row], bool], reason: str, fates: Fates) -> list[Row]:
        kept: list[Row] = []
        for row in sorted(rows, key=self._precedence):
            if any(same(row, other) for other in kept):
                fates[row["trace_id"]] = reason
            else:
                kept.append(row)
        return kept

    def _pairs(self) -> tuple[Fates, list[tuple[str, str]]]:
        fates = dict(self.once)
        alive = []
        for row in self.members:
            if fault := self._ungraded(row, needs_reward=True):
                fates[row["trace_id"]] = fault
            else:
                alive.append(row)
        scored = [row for row in self.members if row["reward"] is not None]
        spans: dict[tuple[Any, ...], float] = {}
        for name in {grader(row) for row in scored}:
            given = [row["reward"] for row in scored if grader(row) == name]
            spans[name] = max(given) - min(given)
        found: list[tuple[str, float, int, Row, Row]] = []
        reasons: dict[tuple[Any, ...], str] = {}
        cells = sorted({(context(row), grader(row)) for row in alive}, key=repr)
        for cell in cells:
            answer = self._pair_of(cell, alive, scored)
            if isinstance(answer, str):
                reasons[cell] = answer
            else:
                good, bad = answer
                strength = round((good["reward"] - bad["reward"]) / spans[grader(good)], 12)
                found.append((good["task_id"], -strength, self._tie(good), good, bad))
        kept: list[tuple[str, str]] = []
        for task in sorted({one[0] for one in found}):
            best = min(one[:3] for one in found if one[0] == task)
            (pair,) = [(one[3]["trace_id"], one[4]["trace_id"]) for one in found if one[:3] == best]
            kept.append(pair)
        used = {trace for pair in kept for trace in pair}
        for row in alive:
            if row["trace_id"] not in used:
                reason = reasons.get((context(row), grader(row)), "not_selected_for_pair")
                stage = "convertible" if reason == "mixed_graders" else "pairs"
                fates[row["trace_id"]] = f"{stage}/{reason}"
        return {row["trace_id"]: fates.get(row["trace_id"], "kept") for row in self.rows}, kept

    def _pair_of(self, cell: tuple[Any, ...], alive: list[Row], scored: list[Row]) -> tuple[Row, Row] | str:
        def in_cell(rows: list[Row]) -> list[Row]:
            return [row for row in rows if (context(row), grader(row)) == cell]

        rewards = [row["reward"] for row in in_cell(scored)]
        all_graders = [row for row in scored if context(row) == cell[0]]
        sound = [row for row in alive if not row.get("error")]
        good = [row for row in in_cell(sound) if row["verdict"] == "pass"]
        bad = [row for row in in_cell(sound) if row["verdict"] == "fail"]
        if len(rewards) < MIN_GROUP <= len(all_graders):
            return "mixed_graders"
        if not good or not bad:
            task = [row for row in sound if (row["task_id"], grader(row)) == (cell[0][0], cell[1])]
            return "prompt_mismatch" if {row["verdict"] for row in task} == {"pass", "fail"} else "no_contrast"
        if len(rewards) < MIN_GROUP:
            return "group_too_small"
        if max(rewards) == min(rewards):
            return "zero_spread"
        mean = sum(rewards) / len(rewards)
        target = mean - 2 * math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
        good.sort(key=self._rank)
        bad.sort(key=lambda row: (round(abs(row["reward"] - target), 12), *self._rank(row)))
        first = ""
        for chosen in good:
            for rejected in bad:
                if chosen["reward"] <= rejected["reward"]:
                    reason = "non_positive_delta"
                elif why := parted(chosen, rejected):
                    reason = why
                else:
                    return chosen, rejected
                first = first or reason
        return first

    def kto(self) -> Fates:
        fates = dict(self.once)
        alive = []
        for row in self.members:
            if fault := self._ungraded(row, needs_reward=True):
                fates[row["trace_id"]] = fault
            else:
                alive.append(row)
        used = {trace for pair in self.built[1] for trace in pair}
        fates |= {row["trace_id"]: "pairs/errored_or_truncated" for row in alive if row.get("error")}
        kept: dict[str, Row] = {}
        sound = [row for row in alive if not row.get("error")]
        for row in sorted(sound, key=lambda row: (row["trace_id"] not in used, *self._precedence(row))):
            if self._hash(row) in kept:
                fates[row["trace_id"]] = "exact_duplicate/exact_duplicate"
            else:
                kept[self._hash(row)] = row
        fates |= {row["trace_id"]: "pairs/used_in_pair" for row in kept.values() if row["trace_id"] in used}
        left = [row for row in kept.values() if row["trace_id"] not in used]
        if {row["verdict"] for row in left} != {"pass", "fail"}:
            fates |= {row["trace_id"]: "pairs/no_contrast" for row in left}
        return {row["trace_id"]: fates.get(row["trace_id"], "kept") for row in self.rows}

    def rl(self) -> Fates:
        fates = dict(self.once)
        for row in self.members:
            fault = self._ungraded(row, needs_reward=True) or self.withheld.get(row["trace_id"])
            if fault:
                fates[row["trace_id"]] = fault
        return {row["trace_id"]: fates.get(row["trace_id"], "kept") for row in self.rows}
