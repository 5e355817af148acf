"""Datasets made before they are asked for: the same ones, seen no earlier, and what fails is told of itself alone."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import group, write_runs
from trace_flywheel.flow import apart, coming, curation, ingest
from trace_flywheel.flow.apart import Pass
from trace_flywheel.flow.beside import Beside
from trace_flywheel.flow.coming import Coming, GivenUpError
from trace_flywheel.flow.crew import Crew
from trace_flywheel.flow.curation import Curation
from trace_flywheel.flow.home import lake_of
from trace_flywheel.flow.names import Kind
from trace_flywheel.flow.places import rank
from trace_flywheel.flow.turn import Turn
from trace_flywheel.flow.watch import watch
from trace_flywheel.lake.dataset import names
from trace_flywheel.records.errors import FlywheelError
from trace_flywheel.settings import load_settings

ASKED: tuple[Kind, ...] = ("pair", "sft", "prompt", "mix", "kto", "rl")
FIRST: tuple[Kind, ...] = ("pair", "kto", "rl", "prompt", "sft")
NOTHING: Any = object()
"""In place of what a pass has worked out."""


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def audit(_: object, name: str) -> str:
    """Stands in for the audit of a published dataset."""
    return f"audit of {name}"


class Making:
    """Stands in for `datasets.make` and notes what it comes to."""

    def __init__(self, failing: Kind | None = None) -> None:
        self.seen: list[tuple[str, Kind]] = []
        self.may_decide = threading.Event()
        self.failing = failing

    def __call__(self, _, kind: Kind, recipe: str | None, turn: Turn):
        self.seen.append(("begun", kind))
        if kind == self.failing:
            raise FlywheelError(f"no {kind}")
        self.may_decide.wait(60)
        turn.decided()
        turn.wait()
        self.seen.append(("seen", kind))
        return kind


def nothing_held() -> None:
    """Datasets that wait to be asked for keep their processes, and those the fork server that they came from."""
    if apart._coming is not None:
        apart._coming.give_up()
        apart._coming.rest()
    apart._held = apart._coming = None


@pytest.fixture(autouse=True)
def _no_pass_stays() -> Iterator[None]:
    yield
    nothing_held()


@pytest.fixture
def coming_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Making], Coming]]:
    made: list[Coming] = []

    def with_(making: Making) -> Coming:
        monkeypatch.setattr(coming.datasets, "make", making)
        made.append(Coming(NOTHING, [(kind, None) for kind in FIRST], 20_000, audit))
        return made[-1]

    yield with_
    for one in made:
        one.give_up()
        one.rest()


def begun(making: Making) -> list[Kind]:
    return [kind for what, kind in making.seen if what == "begun"]


def test_each_begins_when_the_one_before_is_decided_and_few_are_ahead(coming_with: Callable[[Making], Coming]) -> None:
    making = Making()
    of_pass = coming_with(making)
    asking = threading.Thread(target=of_pass.make, args=("pair", None))
    asking.start()
    until(lambda: making.seen)
    time.sleep(0.05)
    assert making.seen == [("begun", "pair")], "two are never decided at once"
    making.may_decide.set()
    asking.join()
    for position, kind in enumerate(FIRST[1:], 2):
        until(lambda at=position: begun(making) == list(FIRST[: at + 1]))
        time.sleep(0.05)
        assert begun(making) == list(FIRST[: position + 1]), "two of 20,000 rollouts are ahead at most"
        assert ("seen", kind) not in making.seen, "nobody asked"
        assert of_pass.make(kind, None) == kind
    assert [kind for what, kind in making.seen if what == "seen"] == list(FIRST)


@pytest.mark.parametrize(("rollouts", "ahead"), [(2_000, 4), (10_000, 4), (13_000, 3), (20_000, 2), (1_000_000, 2)])
def test_more_of_few_rollouts_are_ahead(
    rollouts: int, ahead: int, coming_with: Callable[[Making], Coming], monkeypatch: pytest.MonkeyPatch
) -> None:
    making = Making()
    making.may_decide.set()
    coming_with(making)  # which stands in for what makes datasets, and is put back
    of_pass = Coming(NOTHING, [(kind, None) for kind in FIRST], rollouts, audit)
    of_pass.make("pair", None)
    until(lambda: len(begun(making)) == 1 + ahead)
    time.sleep(0.05)
    assert len(begun(making)) == 1 + ahead
    of_pass.give_up()
    of_pass.rest()


def test_what_was_published_is_audited_before_anybody_asks_and_told_once(
    coming_with: Callable[[Making], Coming],
) -> None:
    making = Making(failing="kto")
    making.may_decide.set()
    of_pass = coming_with(making)
    assert of_pass.audited("dpo_dataset") is None, "nobody asked for it"
    of_pass.make("pair", None)
    until(lambda: of_pass._begun[0].audited.done())
    assert of_pass.audited("dpo_dataset") == "audit of dpo_dataset"
    assert of_pass.audited("dpo_dataset") is None, "who asks again wants it read again"
    with pytest.raises(FlywheelError, match=r"^no kto$"):
        of_pass.make("kto", None)
    assert of_pass.audited("kto_dataset") is None


def test_an_audit_comes_after_the_rows_of_its_dataset_and_before_those_of_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks: dict[str, float] = {}

    def noted(_: object, name: str) -> None:
        ranks[name] = rank.get()

    class Ranked(Making):
        def __call__(self, _, kind: Kind, recipe: str | None, turn: Turn):
            ranks[kind] = rank.get()
            return super().__call__(_, kind, recipe, turn)

    making = Ranked()
    making.may_decide.set()
    monkeypatch.setattr(coming.datasets, "make", making)
    of_pass = Coming(NOTHING, [(kind, None) for kind in FIRST], 20_000, noted)
    for kind in FIRST:
        of_pass.make(kind, None)
    until(lambda: len(ranks) == 2 * len(FIRST))
    assert (ranks["kto"], ranks["dpo_dataset"], ranks["rl"], ranks["kto_dataset"]) == (1, 0.5, 2, 1.5)


def test_an_audit_that_fails_is_told_to_the_one_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object, name: str) -> str:
        raise FlywheelError(f"{name} is gone")

    making = Making()
    making.may_decide.set()
    monkeypatch.setattr(coming.datasets, "make", making)
    of_pass = Coming(NOTHING, [("pair", None)], 20_000, failing)
    assert of_pass.make("pair", None) == "pair"
    with pytest.raises(FlywheelError, match=r"^dpo_dataset is gone$"):
        of_pass.audited("dpo_dataset")


def test_a_mix_is_chosen_when_what_it_is_made_from_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    making = Making()
    making.may_decide.set()
    monkeypatch.setattr(coming.datasets, "make", making)
    order: list[tuple[Kind, str | None]] = [("sft", None), ("sft", "other"), ("mix", None), ("mix", "other")]
    of_pass = Coming(NOTHING, order, 2_000, audit)
    of_pass.go_on()
    until(lambda: len(making.seen) == 2)
    time.sleep(0.05)
    assert making.seen == [("begun", "sft")] * 2
    of_pass.make("sft", "other")
    until(lambda: ("mix", "other") in of_pass._ahead)
    time.sleep(0.05)
    assert ("mix", None) not in of_pass._ahead
    assert ("seen", "mix") not in making.seen, "nobody asked"
    assert of_pass.make("mix", "other") == "mix"
    assert of_pass.audited("other_mix") is None, "nothing is left to do beside its audit"
    of_pass.give_up()
    of_pass.rest()


def test_who_asks_for_another_one_waits_until_what_is_ahead_is_decided(coming_with: Callable[[Making], Coming]) -> None:
    making = Making()
    of_pass = coming_with(making)
    asking = [threading.Thread(target=of_pass.make, args=(kind, None)) for kind in ("pair", "sft")]
    for thread in asking:
        thread.start()
    until(lambda: making.seen)
    time.sleep(0.05)
    assert len(making.seen) == 1
    making.may_decide.set()
    for thread in asking:
        thread.join()
    assert {("seen", "pair"), ("seen", "sft")} <= set(making.seen)


def test_another_order_is_served(coming_with: Callable[[Making], Coming]) -> None:
    making = Making()
    making.may_decide.set()
    of_pass = coming_with(making)
    assert [of_pass.make(kind, None) for kind in ("rl", "sft", "kto", "pair")] == ["rl", "sft", "kto", "pair"]
    assert len(begun(making)) == len(set(begun(making)))


def test_what_fails_ahead_is_told_when_it_is_asked_for(coming_with: Callable[[Making], Coming]) -> None:
    making = Making(failing="kto")
    making.may_decide.set()
    of_pass = coming_with(making)
    assert of_pass.make("pair", None) == "pair"
    until(lambda: ("begun", "kto") in making.seen)
    with pytest.raises(FlywheelError, match=r"^no kto$"):
        of_pass.make("kto", None)
    assert of_pass.make("rl", None) == "rl"


def test_what_nobody_asks_for_ends_with_its_process(coming_with: Callable[[Making], Coming]) -> None:
    making = Making()
    making.may_decide.set()
    of_pass = coming_with(making)
    of_pass.make("pair", None)
    until(lambda: ("kto", None) in of_pass._ahead)
    left = of_pass._ahead["kto", None]
    of_pass.give_up()
    assert isinstance(left.made.exception(60), GivenUpError)
    of_pass.rest()
    assert ("seen", "kto") not in making.seen


@pytest.mark.parametrize("workers", [2, 3])
def test_datasets_made_ahead_are_the_same(workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_runs(tmp_path / "data", {f"r{n}": group(f"t{n}", (1.0, 0.5, 0.0), n) for n in range(4)})
    monkeypatch.setattr(curation, "MANY", -1)
    made, files = [], []
    for name, undisturbed in (("in-turn", False), ("ahead", True)):
        settings = load_settings(
            home=tmp_path / name,
            roots=(tmp_path / "data",),
            ingest={"workers": workers},
        )
        lake = lake_of(settings)
        seen = watch(settings, lake)
        ingest.ingest(seen.todo, lake, settings, seen.inputs, 1)
        under_way = Pass(name, settings, seen.inputs)
        apart.make(under_way, "advantages", None, undisturbed)
        apart.make(under_way, "classifier", None, undisturbed)
        of_home = []
        for position, kind in enumerate(ASKED):
            of_home.append(apart.make(under_way, kind, None, undisturbed)[0])
            latest = [settings.home / "datasets" / each / "latest" for each in names(settings.home)]
            published = [each for each in ASKED[: position + 1] if each != "mix"]  # which has too few rows
            assert sum(path.exists() for path in latest) == len(published)
        assert (apart._coming is not None) == undisturbed
        made.append([(one.name, one.status, one.version, one.rows) for one in of_home])
        files.append((lake.root / "needs_grading.jsonl").read_bytes())
        apart.curation_of(Pass("the end", settings, seen.inputs))
        assert apart._coming is None
    assert made[0] == made[1]
    assert files[0] == files[1]
    assert sum(rows for *_, rows in made[0]) > 0


def test_a_pass_that_was_prepared_goes_on_with_it_unless_anything_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_runs(tmp_path / "data", {"a": group("t", (1.0, 0.0), 1), "b": group("u", (1.0, 0.0), 1)})
    monkeypatch.setattr(curation, "MANY", -1)
    settings = load_settings(home=tmp_path / "home", roots=(tmp_path / "data",), ingest={"workers": 2})
    lake = lake_of(settings)
    seen = watch(settings, lake)

    def prepared() -> Curation:
        nothing_held()
        apart.prepare(settings, seen.inputs)
        assert apart._held is not None
        return apart._held[1]

    ingest.ingest(seen.todo[:1], lake, settings, seen.inputs, 1)
    before = prepared()
    assert apart.curation_of(Pass("one", settings, seen.inputs)) is before
    until(lambda: apart._coming is not None and ("pair", None) in apart._coming._ahead)
    assert names(settings.home) == () or not (settings.home / "datasets" / "dpo_dataset" / "latest").exists()
    made, _ = apart.make(Pass("one", settings, seen.inputs), "pair", None, undisturbed=True)
    assert (made.name, made.status) == ("dpo_dataset", "made")
    apart.prepare(settings, seen.inputs)
    assert apart.curation_of(Pass("one", settings, seen.inputs)) is before, "a pass under way goes on"
    before = prepared()
    other = settings.model_copy(update={"seed": settings.seed + 1})
    assert apart.curation_of(Pass("two", other, seen.inputs)) is not before
    left = weakref.ref(before)
    del before
    until(lambda: gc.collect() is not None and left() is None)  # two indexes would stand in memory
    before = prepared()
    ingest.ingest(seen.todo[1:], lake, settings, seen.inputs, 1)
    now = apart.curation_of(Pass("three", settings, seen.inputs))
    assert now is not before
    assert len(now.runs) == 2
    apart.curation_of(Pass("the end", settings, seen.inputs))


_kept: Coming | None = None


def undecided(folder: Path) -> None:
    """Leaves a dataset behind that is decided, and has handed nothing over to its processes."""
    global _kept
    crew, is_decided = Crew(0, 2, at_once=True), threading.Event()

    def make(_, kind: Kind, recipe: str | None, turn: Turn) -> None:
        turn.decided()
        is_decided.set()
        time.sleep(1)
        (folder / "hands over").touch()
        with suppress(FlywheelError):
            list(crew.over(added, range(3), 0.0))
        turn.wait()

    coming.datasets.make = make  # type: ignore[assignment] # this process ends with it
    _kept = Coming(NOTHING, [("pair", None)], 20_000, audit)
    _kept.go_on()
    is_decided.wait(60)


def added(one: int, other: int) -> int:
    return one + other


def test_a_process_ends_that_was_to_end_before_a_dataset_needed_others(tmp_path: Path) -> None:
    """Those that a thread starts while its process ends would wait for work for ever, and it for them."""
    process = Beside(tmp_path)
    process.call(undecided, tmp_path)
    (started,) = process._processes()
    ending = threading.Thread(target=process.close, daemon=True)
    ending.start()
    ending.join(30)
    started.kill()
    assert not ending.is_alive()
    assert (tmp_path / "hands over").exists()


def test_nothing_is_begun_of_what_was_given_up(coming_with: Callable[[Making], Coming]) -> None:
    making = Making()
    of_pass = coming_with(making)
    of_pass._begin(("pair", None))
    until(lambda: making.seen)
    of_pass._begin(("sft", None))  # waits until the other one is decided
    of_pass.give_up()
    making.may_decide.set()
    for one in of_pass._begun:
        assert isinstance(one.made.exception(60), GivenUpError)
    assert making.seen == [("begun", "pair")]


def test_who_waits_hears_of_any_end_of_the_thread(coming_with: Callable[[Making], Coming]) -> None:
    class Panic(BaseException):
        """As a library that is written in Rust raises it."""

    def panic(*_: object) -> None:
        raise Panic

    of_pass = coming_with(panic)  # type: ignore[arg-type]
    own = of_pass._begin(("pair", None))
    assert isinstance(own.made.exception(60), Panic)
    assert not of_pass.deciding.locked()


def test_a_process_that_ends_waits_no_longer_than_it_may(
    coming_with: Callable[[Making], Coming], monkeypatch: pytest.MonkeyPatch
) -> None:
    making = Making()
    of_pass = coming_with(making)
    of_pass.go_on()
    monkeypatch.setattr(coming, "PATIENCE", 0.05)
    of_pass.rest()  # an error would be told with a traceback
    making.may_decide.set()


@pytest.mark.parametrize(("rollouts", "waits"), [(40_000, False), (40_001, True)])
def test_work_over_many_rollouts_waits_for_the_decision_under_way(
    rollouts: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = Making()
    monkeypatch.setattr(coming.datasets, "make", making)
    of_pass = Coming(NOTHING, [("pair", None)], rollouts, audit)
    of_pass.go_on()
    until(lambda: making.seen)
    done = threading.Event()

    def work() -> None:
        with of_pass.beside():
            done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(0.2) is not waits
    making.may_decide.set()
    assert done.wait(60)
    assert of_pass.make("pair", None) == "pair"


class Worked:
    """In place of what a pass has worked out, to see whether it goes."""


@pytest.mark.parametrize("fails", ["nothing", "the dataset", "the audit"])
def test_what_was_worked_out_goes_when_it_is_given_up_whatever_became_of_a_dataset(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked = Worked()
    left = weakref.ref(worked)

    def make(curation: Worked, kind: Kind, recipe: str | None, turn: Turn) -> Kind:
        if fails == "the dataset":
            raise FlywheelError("no room")
        if fails == "nothing":
            passes[0].give_up()  # between its publication and its audit
        return kind

    def failing(curation: Worked, name: str) -> None:
        raise FlywheelError("a file is gone")

    monkeypatch.setattr(coming.datasets, "make", make)
    passes = [Coming(worked, [("pair", None)], 20_000, failing)]  # type: ignore[arg-type]
    del worked
    passes[0].go_on()
    (own,) = passes[0]._begun
    until(lambda: own.audited.done() or (fails == "the dataset" and own.made.done()))
    passes[0].give_up()
    until(lambda: gc.collect() is not None and left() is None)
