"""The benchmarks' own promises: corpora are what they say, figures are judged as ratios of one run only."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks import branches, folders
from benchmarks.corpus import NEAR_TARGETS, Shape, attempt, attempts, shaped, truth
from benchmarks.measure import Cost, cost_of, interleaved, ratio
from benchmarks.report import document, table
from benchmarks.suites import Result
from benchmarks.text import jaccard, shingles
from trace_flywheel.api import load_rollouts
from trace_flywheel.cli.main import main
from trace_flywheel.sources.discover import discover

SMALL = Shape(tasks=4, attempts=30, exact=0.1, near=0.3, secrets=0.3, system=200, prompt=200, output=(50, 100))


def test_a_corpus_is_a_function_of_its_seed():
    one, again = list(attempts(SMALL)), list(attempts(SMALL))
    assert one == again
    assert [attempt(SMALL, n) for n in (7, 3)] == [one[7], one[3]]
    other = attempt(SMALL._replace(seed=1), 7)
    assert (other.task, other.last) == (one[7].task, other.last)
    assert other.last != one[7].last
    assert len({a.name for a in one}) == SMALL.rollouts == 120


def test_repeats_have_the_jaccard_that_is_told():
    made = {a.name: a for a in attempts(SMALL)}
    near = [a for a in made.values() if a.kind == "near"]
    exact = [a for a in made.values() if a.kind == "exact"]
    assert len(near) > 10
    assert len(exact) > 3
    for one in near:
        assert one.of is not None
        assert (made[one.of].kind, made[one.of].task) == ("own", one.task)
        assert one.jaccard == pytest.approx(jaccard(made[one.of].learned(), one.learned()))
        assert min(abs(one.jaccard - target) for target in NEAR_TARGETS) < 0.03  # type: ignore[operator]
    assert all(made[a.of or ""].learned() == a.learned() for a in exact)
    apart = [jaccard(a.learned(), b.learned()) for a, b in pairwise(near) if a.of != b.of]
    assert max(apart) < 0.5


def test_jaccard_is_of_word_shingles():
    assert shingles("a b c d e f") == {("a", "b", "c", "d", "e"), ("b", "c", "d", "e", "f")}
    assert shingles("A b") == {("a", "b")}
    assert jaccard("a b c d e", "a b c d f") == 0.0
    assert jaccard("a b c d e f", "a b c d e") == 0.5


@pytest.mark.parametrize("format", folders.FORMATS)
def test_every_format_is_read_whole(tmp_path, format):
    """The same conversations from every kind of folder; secrets stand where the truth says, until they are redacted."""
    shape = SMALL._replace(attempts=3)
    size = folders.write(tmp_path, format, shape)
    assert size * 1e6 == sum(f.stat().st_size for f in (tmp_path / "jobs").rglob("*") if f.is_file())
    assert {run.format for run in discover([tmp_path / "jobs"]).runs} == {"eval_run" if format == "eval" else format}
    lost: list = []
    raw = {r.trace_id: r for r in load_rollouts(tmp_path / "jobs", pii=None, on_drop=lost.append)}
    assert lost == []
    made = {a.name: a for a in attempts(shape)}
    assert raw.keys() == made.keys()
    for name, rollout in raw.items():
        assert [m.role for m in rollout.messages].count("assistant") == len(made[name].steps) + 1
        if format != "atraj":
            assert (rollout.reward, rollout.task_id) == (made[name].reward, made[name].task)
    clean = {r.trace_id: str(r) for r in load_rollouts(tmp_path / "jobs")}
    known = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    secrets = [one for one in known if one["secret"]]
    assert len(secrets) > 1
    assert all(one["secret"] in str(raw[one["name"]]) and one["secret"] not in clean[one["name"]] for one in secrets)


def test_branched_trials_give_a_row_a_child(tmp_path):
    branches.write(tmp_path / "jobs", 3)
    words = ["--format", "branch-tree", "--out", str(tmp_path / "rows.jsonl"), "--pairs", str(tmp_path / "pairs.jsonl")]
    assert main(["convert", str(tmp_path / "jobs"), *words]) == 0
    assert [len((tmp_path / name).read_text().splitlines()) for name in ("rows.jsonl", "pairs.jsonl")] == [12, 18]


def test_the_truth_names_repeats_and_secrets_only():
    own = {a.name for a in attempts(SMALL) if a.kind == "own" and not a.secret}
    told = list(truth(SMALL))
    assert own.isdisjoint(one["name"] for one in told)
    assert len(own) + len(told) == SMALL.rollouts
    assert shaped(10, tasks=50).rollouts == 10


def test_a_cost_counts_the_children():
    """CPU and memory of what a command starts are its own; what fails ends the benchmark with its words."""
    burn = "import time\ns=time.process_time()\nwhile time.process_time()-s<.4: pass\nx=b'x'*90_000_000\ntime.sleep(.3)"
    parent = f"import subprocess,sys\nsubprocess.run([sys.executable,'-c',{burn!r}])\nprint('said')"
    cost = cost_of([sys.executable, "-c", parent])
    assert cost.out == "said\n"
    assert cost.cpu >= 0.4
    assert cost.wall >= 0.4
    assert cost.workers > 90_000_000 / 2**20
    assert cost.peak < cost.workers
    with pytest.raises(SystemExit, match="no such thing"):
        cost_of([sys.executable, "-c", "raise SystemExit('no such thing')"])


def test_rounds_are_interleaved_and_ratios_are_of_one_round():
    calls: list[str] = []

    def of(name: str, seconds: float) -> Cost:
        calls.append(name)
        return Cost(seconds, seconds)

    costs = interleaved({"a": lambda: of("a", 1.0), "b": lambda: of("b", 3.0)}, 3)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert {name: len(each) for name, each in costs.items()} == {"a": 3, "b": 3}
    # A machine that slows down by ten in one round changes no ratio.
    assert ratio([3.0, 30.0, 3.0], [1.0, 10.0, 1.0]) == (3.0, 3.0, 3.0)
    assert str(ratio([1.0, 2.0, 6.0], [1.0, 1.0, 2.0])) == "2.0 (1.0-3.0)"


def test_only_ratios_are_judged():
    slow, fine = (Result("s", "x", "1 s", "9 s", ratio([r], [1.0]), 5.0) for r in (4.0, 9.0))
    absolute = Result("s", "y", "99 MB/s", gate=5.0)
    assert (slow.passed, fine.passed, absolute.passed) == (False, True, None)
    lines = table([slow, fine, absolute]).splitlines()
    assert ">= 5: MISSED" in lines[-3]
    assert ">= 5: held" in lines[-2]
    assert lines[-1] == "| y | 99 MB/s |  |  |  |"
    told = document([slow], {"cores": 2}, 10, 1)
    assert told["results"][0]["ratio"] == [4.0, 4.0, 4.0]
    assert json.loads(json.dumps(told))["results"][0]["passed"] is False


def test_the_runner_measures_at_toy_size(tmp_path: Path, capsys):
    """A suite from generator to table; the rivals need a registry and stay out."""
    out = tmp_path / "figures.json"
    arguments = ["--no-rivals", "--rollouts", "4", "--rounds", "1", "--work", str(tmp_path), "--json", str(out)]
    assert runner.main(["convert", *arguments]) == 0
    told = json.loads(out.read_text())
    assert [r["what"].split(",")[0] for r in told["results"]] == ["prime-sft", "trl-sft", "prime-sft"]
    assert all("s CPU" in r["own"] for r in told["results"])
    assert capsys.readouterr().out.startswith("### convert")
    with pytest.raises(SystemExit):
        runner.main(["no-such-suite"])


def test_the_straightforward_build_is_extrapolated_in_line_without_what_it_takes_once() -> None:
    from benchmarks.suites.end_to_end import whole

    assert whole({"setup": 2.0, "cpu": 12.0, "bytes": 1_000_000}, 10.0) == 102.0


def test_the_product_makes_one_chain_as_the_straightforward_build_does(tmp_path):
    from benchmarks.one_dataset import make
    from trace_flywheel.lake.dataset import find_version, names

    folders.write(tmp_path, "eval", SMALL)
    rows = make(tmp_path / "jobs", tmp_path / "home")
    assert rows["sft_dataset"] >= rows["balanced_mix"] > 0
    assert names(tmp_path / "home") == ("balanced_mix", "sft_dataset")
    assert not any((find_version(tmp_path / "home", name).path / "layouts").exists() for name in rows)
