"""`flywheel refresh` on folders that are cut, empty, mis-encoded, linked or hidden: nothing goes by in silence."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trace_flywheel.lake.dataset import fates as fates_of
from trace_flywheel.lake.dataset import find_version

CHECKOUT = Path(__file__).parents[2]


def row(trace: str, text: str = "Add the two numbers in the file.") -> dict[str, Any]:
    messages = [{"role": "user", "content": f"{text} ({trace})"}, {"role": "assistant", "content": f"Done: {trace}."}]
    return {"task_id": trace, "trace_id": trace, "verdict": "pass", "reward": 1.0, "grader": "g", "messages": messages}


def bytes_of(*rows: dict[str, Any]) -> bytes:
    return json.dumps(list(rows), ensure_ascii=False).encode()


GOOD = bytes_of(row("good-1"), row("good-2"))
FILES = {
    "bom": b"\xef\xbb\xbf" + bytes_of(row("bom-1")),
    "cut": bytes_of(row("cut-1"), row("cut-2"))[:-40],
    "empty": b"",
    "garbage": b'{"results": nonsense',
    "good": GOOD,
    "latin": bytes_of(row("latin-1"), row("latin-2", "caf\xe9"), row("latin-3")).replace("\xe9".encode(), b"\xe9"),
    "lines": b"\n".join(json.dumps(row(f"line-{i}"), ensure_ascii=False).encode() for i in range(2)),
    "separators": bytes_of(row("separators-1", "one\u2028two\u0085three")),
    "zero": b"[]",
}


class Seen:
    """One refresh over all of `FILES`, one linked file, one hidden run and one trial that still runs."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "evals", folder / "evals" / "home"
        for name, data in FILES.items():
            self.write(f"runs/{name}/results.json", data)
        self.write(".hidden/runs/r/results.json", bytes_of(row("hidden-1")))
        (folder / "outside.json").write_bytes(bytes_of(row("outside-1")))
        (self.root / "runs" / "linked").mkdir()
        (self.root / "runs" / "linked" / "results.json").symlink_to(folder / "outside.json")
        trial = {"task_name": "t", "rollout_name": "t__1", "agent": "a", "model": "m", "rewards": {"reward": 1.0}}
        self.write("job/t__1/result.json", json.dumps(trial).encode())
        for name in ("t__1", "t__2"):
            self.write(f"job/{name}/config.json", b'{"agent": "a", "model": "m"}')
            capture = (
                {"type": "user_message", "text": "Write the file."},
                {"type": "agent_message", "text": f"Written: {name}."},
            )
            lines = "\n".join(map(json.dumps, capture))
            self.write(f"job/{name}/trajectory/acp_trajectory.jsonl", lines.encode())
        shutil.copytree(self.root / "job" / "t__1", self.root / "job" / os.fsdecode(b"t\xff__3"))
        self.document, self.stderr = self.refresh()

    def write(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def refresh(self) -> tuple[dict[str, Any], str]:
        command = [sys.executable, "-m", "trace_flywheel.cli.main", "refresh", "--json"]
        command += ["--root", str(self.root), "--home", str(self.home)]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    def fates(self) -> dict[tuple[str, str | None], tuple[str | None, dict[str, Any]]]:
        """(reason, evidence) by run and trace in the newest ledger of the SFT set."""
        rows = fates_of(find_version(self.home, "sft_dataset")).to_pylist()
        return {(f["run_id"], f["trace_id"]): (f["reason"], json.loads(f["evidence"] or "{}")) for f in rows}

    def problem(self, start: str) -> str:
        (found,) = [p for p in self.document["problems"] if p.startswith(start)]
        assert found in self.stderr
        return str(found)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return Seen(tmp_path_factory.mktemp("problems"))


def test_readable_files_are_read_whatever_their_bytes(seen: Seen) -> None:
    fates = seen.fates()
    for trace in ("bom-1", "cut-1", "good-1", "good-2", "latin-1", "latin-3", "line-0", "line-1", "separators-1"):
        assert [reason for (_, t), (reason, _) in fates.items() if t == trace] == [None], trace


def test_unreadable_rows_are_drops_that_name_them(seen: Seen) -> None:
    fates = seen.fates()
    reason, evidence = fates["evals/runs/cut", None]
    assert (reason, evidence["text"]) == ("bad_json", "row 2: the file ends in it")
    reason, evidence = fates["evals/runs/latin", None]
    assert (reason, evidence["text"][:20]) == ("bad_encoding", "row 2: not UTF-8: in")


def test_what_is_no_run_or_gives_none_is_a_problem(seen: Seen) -> None:
    assert seen.problem("runs/empty: ").endswith("results.json (empty)")
    assert "no format known here claims it: results.json" in seen.problem("runs/garbage: ")
    assert seen.problem("evals/runs/zero: ") == "evals/runs/zero: nothing could be read: it holds no rollout"
    assert "is a link, which is not followed" in seen.problem("runs/linked/results.json: ")
    assert "name it as a root to read it" in seen.problem(".hidden: ")
    assert len(seen.document["problems"]) == 5, "the home below the root is none"


def test_quarantined_counts_runs_in_quarantine(seen: Seen) -> None:
    assert seen.document["runs"] == {"found": 8, "ingested": 7, "unchanged": 0, "quarantined": 1}


def test_a_folder_whose_name_is_not_utf_8_is_one_drop_and_the_rest_is_published(seen: Seen) -> None:
    reason, evidence = seen.fates()["evals/job", r"t\xff__3"]
    assert (reason, evidence["text"]) == ("bad_encoding", "the path is not UTF-8; rename it")
    assert evidence["path"] == r"job/t\xff__3"
    assert seen.fates()["evals/job", "t__1"][0] is None


def test_a_trial_that_still_runs_is_a_drop_until_it_is_finished(seen: Seen) -> None:
    assert seen.fates()["evals/job", "t__2"][0] == "missing_result"
    trial = {"task_name": "t", "rollout_name": "t__2", "agent": "a", "model": "m", "rewards": {"reward": 0.0}}
    seen.write("job/t__2/result.json", json.dumps(trial).encode())
    seen.document, seen.stderr = seen.refresh()
    assert seen.document["runs"] == {"found": 8, "ingested": 1, "unchanged": 6, "quarantined": 1}
    assert seen.fates()["evals/job", "t__2"][0] == "not_passing"
