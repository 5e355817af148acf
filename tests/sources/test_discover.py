import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_flywheel.flow.tokens.coverage import token_coverage
from trace_flywheel.records.fate import Drop
from trace_flywheel.records.rollout import Rollout
from trace_flywheel.redaction.policy import Policy
from trace_flywheel.redaction.redact import redactor
from trace_flywheel.sources import benchflow_folders, registry
from trace_flywheel.sources.discover import (
    RootError,
    discover,
    read_unit,
    run_id_of,
    units,
)
from trace_flywheel.sources.reader import Folder, ReadOptions, Run, Unit
from trace_flywheel.sources.run_state import fingerprint, newest_change
from trace_flywheel.sources.walked import walked


def path_of(run_id: str) -> tuple[str, str]:
    """(root label, path below the root) of the only place that a run id can have been made from."""
    label, *parts = (os.fsdecode(unquote_to_bytes(part)) for part in run_id.split("/"))
    return label, "/".join(parts)


class MarkReader:
    """Claims folders that hold a file `mark`; one unit, which reading breaks on."""

    format = "mark"
    precedence = 5

    def claims(self, folder: Folder) -> bool:
        return "mark" in folder.files

    def finished(self, folder: Folder) -> bool:
        return "done" in folder.files

    def units(self, run: Run) -> Sequence[Unit]:
        return (Unit(run.path / "mark", "mark", 1),)

    def read(self, run: Run, unit: Unit, options: ReadOptions) -> Iterator[Rollout | Drop]:
        raise KeyError("unforeseen")
        yield


@pytest.fixture(autouse=True)
def _mark_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "READERS", (MarkReader(), *registry.READERS))


def mark(folder: Path, *more: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("mark", *more):
        (folder / name).write_text("x")
    return folder


def ids(*roots: Path) -> list[str]:
    return [run.run_id for run in discover(roots).runs]


def test_runs_are_found_at_any_depth_and_owned_whole(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    mark(jobs / "b" / "deep" / "run", "done")
    mark(jobs / "a")
    mark(jobs / "a" / "nested")
    mark(jobs / ".git")
    found = discover([jobs])
    assert [(r.run_id, r.finished) for r in found.runs] == [("jobs/a", False), ("jobs/b/deep/run", True)]
    assert found.problems == ()


def test_a_root_that_is_a_run_is_called_by_its_label(tmp_path: Path) -> None:
    assert ids(mark(tmp_path / "only")) == ["only"]


def test_a_relative_root_has_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark(tmp_path / "jobs" / "a")
    monkeypatch.chdir(tmp_path / "jobs" / "a")
    assert ids(Path()) == ["a"]
    assert ids(Path("..")) == ["jobs/a"]


def test_links_are_not_entered_and_loops_do_no_harm(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    mark(jobs / "a")
    mark(tmp_path / "elsewhere")
    (jobs / "loop").symlink_to(jobs)
    (jobs / "out").symlink_to(tmp_path / "elsewhere")
    assert ids(jobs) == ["jobs/a"]


def test_a_root_inside_another_gives_no_run_twice(tmp_path: Path) -> None:
    mark(tmp_path / "jobs" / "team" / "a")
    expected = ["jobs/team/a"]
    assert ids(tmp_path / "jobs", tmp_path / "jobs" / "team") == expected
    assert ids(tmp_path / "jobs" / "team", tmp_path / "jobs") == expected
    assert ids(tmp_path / "jobs", tmp_path / "jobs") == expected


def test_two_roots_of_one_name_are_an_error_and_labels_mend_it(tmp_path: Path) -> None:
    mark(tmp_path / "x" / "jobs" / "a")
    mark(tmp_path / "y" / "jobs" / "a")
    roots = [tmp_path / "x" / "jobs", tmp_path / "y" / "jobs"]
    with pytest.raises(RootError, match="same name 'jobs'; rename one or give it a label"):
        discover(roots)
    labelled = discover({"x": roots[0], "y": roots[1]})
    assert [run.run_id for run in labelled.runs] == ["x/a", "y/a"]


def test_a_missing_root_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(RootError, match="nowhere: No such file or directory; give a folder of runs"):
        discover([tmp_path / "nowhere"])


@pytest.mark.parametrize("name", ["result.json", "results.json", "rows.jsonl", "x.atraj.gz"])
def test_a_run_of_no_known_format_is_a_problem(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "jobs" / "strange"
    folder.mkdir(parents=True)
    (folder / name).write_text("{}")
    mark(tmp_path / "jobs" / "good")
    found = discover([tmp_path / "jobs"])
    assert [r.run_id for r in found.runs] == ["jobs/good"]
    (problem,) = found.problems
    assert (problem.reason, problem.run_id, problem.path) == ("unknown_shape", "jobs/strange", "strange")
    assert name in problem.evidence["text"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_a_problem(tmp_path: Path) -> None:
    closed = tmp_path / "jobs" / "closed"
    closed.mkdir(parents=True)
    closed.chmod(0)
    (problem,) = discover([tmp_path / "jobs"]).problems
    closed.chmod(0o755)
    assert (problem.reason, problem.path) == ("unreadable_file", "closed")


def problems(*roots: Path) -> list[tuple[str | None, str]]:
    return [(p.path, p.evidence["text"]) for p in discover(roots).problems]


def test_a_hidden_folder_with_a_run_is_told_and_read_as_a_root(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    mark(jobs / "a")
    mark(jobs / ".agents" / "skills" / ".deep" / "run")
    (jobs / ".notes").mkdir()
    (jobs / ".notes" / "log.jsonl").write_text("{}")
    assert ids(jobs) == ["jobs/a"]
    assert problems(jobs) == [(".agents", "hidden folder: name it as a root to read it")]
    assert ids(jobs, jobs / ".agents" / "skills" / ".deep") == [".deep/run", "jobs/a"]
    assert ids(jobs, jobs / ".agents") == ["jobs/a"], "hidden again, below the root that was named"
    assert problems(jobs, jobs / ".agents" / "skills") == [
        (".agents", "hidden folder: name it as a root to read it"),
        (".deep", "hidden folder: name it as a root to read it"),
    ]


@pytest.mark.parametrize("name", [".git", ".venv", ".cache", ".tox", "node_modules", "__pycache__"])
def test_folders_of_tools_are_not_looked_into(tmp_path: Path, name: str) -> None:
    mark(tmp_path / "jobs" / name / "run")
    mark(tmp_path / "jobs" / ".hidden" / name / "run")
    assert (ids(tmp_path / "jobs"), problems(tmp_path / "jobs")) == ([], [])


@pytest.mark.parametrize("name", [".flywheel", "home"])
@pytest.mark.parametrize("marker", ["lake/format", "datasets/sft_dataset/latest"])
def test_a_flywheels_home_is_no_source(tmp_path: Path, name: str, marker: str) -> None:
    home = tmp_path / "jobs" / name
    (home / marker).parent.mkdir(parents=True)
    (home / marker).write_text("1")
    mark(home / "lake" / "graded_traces" / "run")
    assert (ids(tmp_path / "jobs"), problems(tmp_path / "jobs")) == ([], [])


@pytest.mark.parametrize("name", ["result.json", "results.json", "x.atraj", "rows.jsonl"])
def test_a_linked_result_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "jobs" / "run").mkdir(parents=True)
    (tmp_path / "elsewhere").write_text("{}")
    (tmp_path / "jobs" / "run" / name).symlink_to(tmp_path / "elsewhere")
    ((path, text),) = problems(tmp_path / "jobs")
    assert path == f"run/{name}"
    assert "is a link, which is not followed" in text


def test_a_link_to_what_is_read_anyway_counts_nothing_twice_and_other_links_are_told(tmp_path: Path) -> None:
    mark(tmp_path / "jobs" / "a", "results.json")
    (tmp_path / "jobs" / "latest").mkdir()
    (tmp_path / "jobs" / "latest" / "results.json").symlink_to("../a/results.json")
    assert (ids(tmp_path / "jobs"), problems(tmp_path / "jobs")) == (["jobs/a"], [])
    (tmp_path / "jobs" / "other.txt").write_text("[]")
    (tmp_path / "jobs" / "latest" / "results.jsonl").symlink_to("../other.txt")
    ((path, text),) = problems(tmp_path / "jobs")
    assert (path, "is a link, which is not followed" in text) == ("latest/results.jsonl", True)


def test_a_linked_folder_outside_the_root_is_told_unless_a_root_covers_it(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    mark(jobs / "a")
    mark(tmp_path / "elsewhere" / "run")
    (jobs / "out").symlink_to(tmp_path / "elsewhere")
    (jobs / "in").symlink_to(jobs / "a")
    assert problems(jobs) == [("out", "leads out of the root and is not followed: name the folder behind it as a root")]
    assert ids(jobs, tmp_path / "elsewhere") == ["elsewhere/run", "jobs/a"]


def test_many_roots_cost_no_more_each_than_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A canonical selection names thousands of trials, each a root: looking all up for each took most of a minute."""
    for n in range(40):
        (tmp_path / f"t{n}").mkdir()
        (tmp_path / f"t{n}" / "result.json").write_text('{"rollout_name": "t", "task_name": "t", "rewards": null}')
    asked = []
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: asked.append(path) or real(path))
    assert len(discover(sorted(tmp_path.iterdir())).runs) == 40
    assert len(asked) <= 3 * 40


def test_an_empty_result_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "results.json").write_bytes(b"")
    assert problems(tmp_path / "runs") == [("r", "no format known here claims it: results.json (empty)")]


def test_the_fingerprint_follows_linked_files(tmp_path: Path) -> None:
    folder = mark(tmp_path / "a")
    (tmp_path / "target").write_text("1")
    (folder / "result.json").symlink_to(tmp_path / "target")
    (run,) = discover([folder]).runs
    before = fingerprint(run)
    (tmp_path / "target").write_text("22")
    assert fingerprint(run) != before


def test_side_files_are_no_problem(tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "goldens.jsonl").write_text("{}\n")
    assert discover([tmp_path]).problems == ()


def test_the_fingerprint_follows_names_sizes_and_times(tmp_path: Path) -> None:
    folder = mark(tmp_path / "a", "other")
    (run,) = discover([folder]).runs
    first = fingerprint(run)
    assert fingerprint(run) == first
    os.utime(folder / "mark", ns=(10**18, 2 * 10**18))
    touched = fingerprint(run)
    assert touched != first
    assert newest_change(run) == 2e9
    (folder / "other").rename(folder / "renamed")
    assert fingerprint(run) not in {first, touched}
    (folder / "renamed").rename(folder / "other")
    assert fingerprint(run) == touched


def test_a_tree_that_changes_meanwhile_does_no_harm(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    row = json.dumps([{"trace_id": "t", "task_id": "t", "messages": []}])
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            for n in range(30):
                folder = mark(jobs / f"{n % 3}" / f"run{n}")
                (folder / "result.json").write_text('{"trial_name"')
                (folder / "results.json").write_text(row)
            for n in range(3):
                shutil.rmtree(jobs / f"{n}")

    jobs.mkdir()
    writer = threading.Thread(target=change)
    writer.start()
    try:
        for _ in range(40):
            for run in discover([jobs]).runs:
                fingerprint(run)
    finally:
        over.set()
        writer.join()


def test_a_vanished_run_has_a_state(tmp_path: Path) -> None:
    run = Run("gone", "mark", tmp_path, tmp_path / "gone")
    assert newest_change(run) == 0.0
    assert fingerprint(run) == fingerprint(run)


def test_an_unforeseen_fault_ends_its_unit_only(tmp_path: Path) -> None:
    (run,) = discover([mark(tmp_path / "a")]).runs
    (unit,) = units(run)
    (drop,) = read_unit(run, unit, ReadOptions())
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.run_id, drop.path) == ("unreadable_file", "a", "mark")
    assert drop.evidence == {"text": "KeyError: 'unforeseen'"}


@pytest.mark.parametrize(
    ("label", "relative", "expected"),
    [
        ("jobs", "2026-02-09__12-22-47", "jobs/2026-02-09__12-22-47"),
        ("jobs", "Hermes 70B-t-bench-ext", "jobs/Hermes 70B-t-bench-ext"),
        ("jobs", "a...b", "jobs/a%2E%2E%2Eb"),
        ("jobs", "a..b", "jobs/a..b"),
        ("jobs", "50%", "jobs/50%25"),
        ("jobs", "a,[b]\n", "jobs/a%2C%5Bb%5D%0A"),
        ("a/b", "", "a%2Fb"),
        ("..", "x", "%2E%2E/x"),
        ("jobs", "åé", "jobs/åé"),
    ],
)
def test_run_ids(label: str, relative: str, expected: str) -> None:
    assert run_id_of(label, relative) == expected
    assert path_of(expected) == (label, relative)


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1, max_size=12).filter(
    lambda name: name not in {".", ".."}
)


@given(label=names, parts=st.lists(names, max_size=4))
def test_a_run_id_is_reversible_and_accepted_by_dagster(label: str, parts: list[str]) -> None:
    run_id = run_id_of(label, "/".join(parts))
    assert path_of(run_id) == (label, "/".join(parts))
    assert not any(refused in run_id for refused in ("...", "\a", "\b", "\f", "\n", "\r", "\t", "\v", "\0"))


def test_bytes_that_are_no_utf8_survive_in_a_run_id() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert run_id_of("jobs", name) == "jobs/caf%E9"
    assert path_of("jobs/caf%E9") == ("jobs", name)


def test_discovery_reads_json_only_where_a_reader_asks(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "summary.json").write_text(json.dumps({"job_name": "x"}))
    found = discover([tmp_path / "jobs"])
    assert (found.runs, found.problems) == ((), ())


@pytest.mark.parametrize("name", ["result.json", "results.json", "d.atraj"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, "is a folder, where a run has a file of this name"),
        (os.mkfifo, "is no regular file: put the file here"),
        (lambda path: path.symlink_to("nowhere"), "is a link, which is not followed"),
    ],
)
def test_what_stands_where_a_file_of_a_run_would_is_told(
    tmp_path: Path, name: str, make: Callable[[Path], object], said: str
) -> None:
    folder = tmp_path / "jobs" / "runs" / "x"
    folder.mkdir(parents=True)
    make(folder / name)
    found = discover([tmp_path / "jobs"])
    assert found.runs == ()
    (problem,) = found.problems
    assert problem.path == f"runs/x/{name}"
    assert problem.evidence["text"].startswith(said)


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Path]:
    """A run beside folders in folders, deeper than Python calls and longer than a path may be."""
    root = mark(tmp_path / "jobs" / "run").parent
    bottom = root / "deep"
    bottom.mkdir()
    handle = os.open(bottom, os.O_RDONLY)
    for _ in range(2_500):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    yield root
    subprocess.run(["rm", "-rf", str(bottom)], check=False)


def test_folders_nested_too_deeply_are_told_and_harm_no_other(nested: Path) -> None:
    found = discover([nested])
    assert [run.run_id for run in found.runs] == ["jobs/run"]
    assert [(problem.reason, problem.evidence["text"]) for problem in found.problems] == [
        ("unreadable_file", "File name too long")
    ]


def test_walks_over_a_users_folders_do_not_call_themselves(nested: Path) -> None:
    assert sum(1 for _ in walked(nested)) > 1_500
    assert list(benchflow_folders.trials(nested)) == []
    assert token_coverage(nested, redactor(Policy()), ReadOptions()).rollouts == 0
