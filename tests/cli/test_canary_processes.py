"""What a refresh writes, says and stores holds nothing that was planted, its worker processes' temporary files too.

Sound runs with canaries in their texts, so that they are converted, previewed and published. Every process looks into
a file as it is removed or renamed; what is left at the end is looked into here. The private partition
(`graded_traces`) is the one place where texts as they came may lie.
"""

import base64
import contextlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet as pq
import pytest

from trace_flywheel.sample.write import write_sample

CHECKOUT = Path(__file__).parents[2]
TOKEN = "ghp_" + "Zb9qT4" * 6
PASSWORD = "Wq7/x+" + "R3mLk9&vT2"
PERSONAL = ("ilse.brandt@" + "contoso.com", "4012 8888 " + "8888 1881")
AGAIN = (
    PASSWORD,
    base64.b64encode(f"u:{PASSWORD}".encode()).decode(),
    PASSWORD.encode().hex(),
    quote(PASSWORD, safe=""),
)
PLANTED = (
    f"export GITHUB_TOKEN={TOKEN}",
    f"DB_PASSWORD='{PASSWORD}'\nand later {' or '.join(AGAIN)}",
    f"curl 'https://a.contoso.com/x?mail={quote(PERSONAL[0])}'",
    f"write to {PERSONAL[0]}, card {PERSONAL[1]}",
)


def forms() -> list[bytes]:
    found = [*PERSONAL, quote(PERSONAL[0])]
    for value in (TOKEN, PASSWORD):
        found += [value, quote(value, safe=""), json.dumps(value)[1:-1], value.encode().hex()]
        found += [base64.b64encode(bytes(lead) + value.encode()).decode()[4:-4] for lead in range(3)]
    return [form.encode() for form in found]


FORMS = forms()
WATCH = """
import os, sys
FORMS, LOG = [bytes.fromhex(f) for f in os.environ["CANARIES"].split()], os.environ["CANARY_LOG"]
busy = False
def look(event, args):
    global busy
    if busy or event not in ("os.remove", "os.rename", "shutil.rmtree"):
        return
    busy = True
    try:
        path = os.fspath(args[0])
        path = path.decode() if isinstance(path, bytes) else path
        for name in [os.path.join(d, f) for d, _, fs in os.walk(path) for f in fs] or [path]:
            if os.path.isfile(name) and "graded_traces" not in name:
                with open(name, "rb") as file:
                    data = file.read()
                bad = any(form in data for form in FORMS)
                with open(LOG, "a") as log:
                    log.write(f"{os.getpid()} {'LEAK' if bad else 'looked'} {name}\\n")
    except OSError:
        pass
    finally:
        busy = False
sys.addaudithook(look)
with open(LOG, "a") as log:
    log.write(f"{os.getpid()} began -\\n")
os.register_at_fork(after_in_child=lambda: open(LOG, "a").write(f"{os.getpid()} began -\\n"))
"""
RUN = """
import sys
from trace_flywheel.flow import workers
workers.PATIENCE = 0.0
from trace_flywheel.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def planted(root: Path) -> None:
    """The sample with one of the canaries behind some of its longer texts."""
    write_sample(root)
    rng = random.Random(11)

    def change(node: Any, share: float) -> Any:
        if isinstance(node, dict):
            return {key: change(value, share) for key, value in node.items()}
        if isinstance(node, list):
            return [change(value, share) for value in node]
        longer = isinstance(node, str) and node.count(" ") > 3 and not node.lstrip().startswith(("{", "["))
        return f"{node}\n{rng.choice(PLANTED)}\n" if longer and rng.random() < share else node

    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.suffix not in (".json", ".jsonl", ".atraj"):
            continue
        whole = path.read_text("utf-8")
        texts = whole.split("\n") if path.suffix == ".jsonl" else [whole]
        with contextlib.suppress(ValueError):  # what the sample breaks on purpose stays as it is
            path.write_text(
                "\n".join(json.dumps(change(json.loads(t), 0.2)) if t.strip() else t for t in texts), "utf-8"
            )


def holding(folder: Path, wanted: Callable[[bytes], bool]) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "graded_traces" not in path.parts:
            data = path.read_bytes()
            if path.suffix == ".parquet":
                data += json.dumps(pq.read_table(path).to_pylist(), default=str, ensure_ascii=False).encode()
            if wanted(data):
                yield str(path.relative_to(folder))


def leaked(data: bytes) -> bool:
    return any(form in data for form in FORMS)


@pytest.mark.slow
def test_a_refresh_in_processes_leaves_nothing(tmp_path: Path) -> None:
    root, home, temporary, log = tmp_path / "in", tmp_path / "home", tmp_path / "tmp", tmp_path / "log"
    planted(root)
    assert any(leaked(path.read_bytes()) for path in root.rglob("*") if path.is_file())
    temporary.mkdir()
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(WATCH)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FLYWHEEL_")},
        "PYTHONPATH": f"{tmp_path / 'hook'}{os.pathsep}{CHECKOUT}",
        "FLYWHEEL_HOME": str(home),
        "FLYWHEEL_INGEST__WORKERS": "2",
        "TMPDIR": str(temporary),
        "CANARIES": " ".join(form.hex() for form in FORMS),
        "CANARY_LOG": str(log),
    }
    said = b""
    for command in (["refresh", "--root", str(root)], ["refresh", "--root", str(root), "--json"], ["datasets"]):
        done = subprocess.run(
            [sys.executable, "-c", RUN, *command], env=environment, cwd=tmp_path, capture_output=True, timeout=400
        )
        assert done.returncode in (0, 1), done.stderr[-2000:]
        said += done.stdout + done.stderr
    assert not leaked(said)
    told = [line.split(" ", 2) for line in log.read_text().splitlines()]
    assert [line for line in told if line[1] == "LEAK"] == []
    assert len({pid for pid, what, _ in told if what == "began"}) > 4, "no worker process was watched"
    assert any(what == "looked" and str(home) in name for _, what, name in told)
    assert list(holding(home, leaked)) == []
    assert list(holding(temporary, leaked)) == []
    for rule in (b"[REDACTED:github_token:", b"[REDACTED:secret:", b"[REDACTED:email:", b"[REDACTED:credit_card:"):
        assert list(holding(home / "datasets", lambda data, rule=rule: rule in data)), rule
