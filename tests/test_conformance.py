"""The published cases: `flywheel convert` against the rows that BenchFlow wrote for the same folders.

What differs is of the kinds that docs/benchflow.md explains: `KINDS` says for each case which lines of that page.
"""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from trace_flywheel.cli.main import main

PAGE = Path(__file__).parents[1] / "docs" / "benchflow.md"
CLAUDE = "Claude Code's tool calls become text"
ARGUMENTS = "broken argument text is wrapped and trained on"
SHOWN = "values that documentation shows"
PLACEHOLDER = "`***REDACTED***`"
WEAK = "any value under a secret's name is replaced"
CODE = "`password=getpass()` in code is rewritten"
DECLARED = "a declared tool keeps name, description and `parameters` alone"
FROM_PRIME = "rows of a prime-sft file give no trl-sft row"
WITHHELD = "a member that is lost changes the baseline in silence"
OF_STEPS = "`--row-mode exchange` takes a `results.jsonl` row apart"
KINDS: dict[str, tuple[str, ...]] = {
    "c03_group_timeouts": (CLAUDE,),
    "c04_group_unscored": ("`token-coverage` of a trial whose `result.json` cannot be read",),
    "c06_claude_gateway": (CLAUDE,),
    "c07_anthropic_native": (CLAUDE,),
    "c08_responses_codex": ("parallel calls of the Responses API are turns of their own", DECLARED),
    "c09_gemini_passthrough": ("Gemini's own requests become one user message",),
    "c10_secrets": (SHOWN, PLACEHOLDER, WEAK, "a quoted password with a space is half redacted"),
    "c12_tool_id_repair": (
        "calls without a result and turns that say nothing are rows",
        "results stay in the order they came",
        "a user turn between a call and its result stays there",
        "a call id used again stays",
        "legacy `function_call` answers lose their result",
    ),
    "c13_arguments": (
        ARGUMENTS,
        "NaN inside an argument string stays",
        "empty argument text is wrapped as malformed",
        "stand under `_non_object_arguments`",
        WEAK,
    ),
    "c14c_empty_llm": ("an empty capture gives no row",),
    "c15_subagents": (
        CLAUDE,
        "a result without its call fails the row",
        "exchange rows hold helper and sub-agent calls",
    ),
    "c16_rewards_odd": ("NaN and infinity pass `--min-reward`",),
    "c16_rewards_odd/derived": (WITHHELD,),
    "c17f_result_shapes": ("a trial without `task_name` has its folder's name as task",),
    "c18_unicode": ("half a surrogate pair is written as an escape",),
    "c19_symlinks": ("a linked file is followed wherever it leads",),
    "c20_results_jsonl": (OF_STEPS,),
    "c21_scoring/derived": (WITHHELD,),
    "c24_tools": (DECLARED,),
    # one of its variants agrees: it writes its rows elsewhere, where the runner does not look
    "c27_cli_errors": ("a wrong path gives an empty file and exit 0", "`--min-reward nan` filters nothing"),
    # the case's command has words behind its options, which its runner hands over as arguments
    "c29_token_capture/derived": (),
    "c34_argument_redaction": ("redaction turns valid arguments into `_malformed_json_arguments`", CODE, WEAK),
    "r_export_accepts_existing_p0": (FROM_PRIME,),
    "r_export_no_redact_preserve0": (SHOWN, FROM_PRIME),
    "r_export_preserves_valid_to0": (FROM_PRIME,),
    "r_export_repairs_legacy_res0": (FROM_PRIME,),
    "r_export_writes_one_json_ob0": (FROM_PRIME,),
    "r_results_jsonl_keeps_all_r0": (OF_STEPS,),
    "r_train_convert_accepts_res0": (FROM_PRIME,),
    "r_train_convert_no_redact_p0": (FROM_PRIME,),
    "r_train_convert_sanitizes_m0": (ARGUMENTS,),
    "r_validate_accepts_prime_ro0": (FROM_PRIME,),
    "r_validate_rejects_banned_m0": (FROM_PRIME,),
    "r_validate_rejects_non_obje0": (ARGUMENTS,),
}
LEAST_EQUAL = 345
"""Variants that give BenchFlow's very rows."""


@pytest.mark.corpus
@pytest.mark.slow
def test_every_case_of_the_main_path_agrees(shared_dir: Path, tmp_path: Path) -> None:
    flywheel = tmp_path / "flywheel"
    flywheel.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trace_flywheel.cli.main "$@"\n')
    flywheel.chmod(0o755)
    must_match = (shared_dir / "conformance" / "must-match.txt").read_text().splitlines()
    cases = sorted({line.split()[1].split("/")[0] for line in must_match if line.startswith("flow ")})
    checkout = Path(__file__).parents[1]
    command = [sys.executable, str(shared_dir / "conformance" / "run.py"), "--tag", "flow", *cases]
    done = subprocess.run(
        [*command, "--flywheel", str(flywheel)],
        env={"PYTHONPATH": str(checkout), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " 0 must-match variants differ" in done.stdout


@pytest.mark.parametrize("kind", sorted({kind for kinds in KINDS.values() for kind in kinds}))
def test_every_kind_of_difference_is_explained(kind: str) -> None:
    assert kind in PAGE.read_text("utf-8")


@pytest.mark.corpus
@pytest.mark.slow
def test_every_difference_is_of_a_kind_that_is_explained(shared_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("conformance_run", shared_dir / "conformance" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    told: list[str] = []
    monkeypatch.setattr(runner, "subprocess", SimpleNamespace(run=in_process))
    monkeypatch.setattr(runner, "print", lambda line, **_: told.append(line), raising=False)
    monkeypatch.setattr(sys, "argv", ["run.py", "--flywheel", "no-such-program"])
    before = Path.cwd()
    try:
        assert runner.main() == 0, [line for line in told if line.startswith("MUST")]
    finally:
        os.chdir(before)
    found = re.fullmatch(r"(\d+) of 466 variants agree; 0 must-match variants differ", told[-1])
    assert found is not None
    assert int(found[1]) >= LEAST_EQUAL
    different = [re.match(r"differs +([^/]+)(/derived)?", line) for line in told[:-1]]
    names = {f"{m[1]}{m[2] or ''}" if f"{m[1]}{m[2] or ''}" in KINDS else m[1] for m in different if m}
    assert names == KINDS.keys()


def in_process(command: Sequence[str], cwd: Path, **_: object) -> SimpleNamespace:
    """What the runner asks of a process, without one: a start takes longer than a case."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    os.chdir(cwd)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in command[1:]])
    said = (stream.buffer.getvalue().decode() for stream in (out, err))
    return SimpleNamespace(returncode=code, stdout=next(said), stderr=next(said))
