"""`flywheel redact`: files and pipes, whole output or none, a report without values."""

import io
import json
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from trace_flywheel.cli.main import main

GITHUB = "ghp_" + "a1B2c3D4" * 4 + "wxyz"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYWHEEL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_pipe(home: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(f"T={GITHUB}\r\nx \xff\n".encode())))
    assert main(["redact", "-"]) == 0
    assert capfdbinary.readouterr().out == "T=[REDACTED:github_token:1]\r\nx ÿ\n".encode()
    assert not home.exists()


@pytest.mark.parametrize("bad", [b"caf\xe9", b"\xed\xb2\x80", b"\xff\xfeT\x00"])
def test_bytes_that_are_no_text_are_refused_with_their_place(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: bytes
) -> None:
    (tmp_path / "in.txt").write_bytes(f"T={GITHUB}\n".encode() + bad + b"\n")
    (tmp_path / "out.txt").write_text("before")
    assert main(["redact", "in.txt", "--out", "out.txt", "--report", "report.json"]) == 1
    told = capsys.readouterr()
    place = 4 if bad.startswith(b"caf") else 1
    assert f"in.txt:2: byte {place} of the line is no UTF-8" in told.err
    assert told.out == ""
    assert (tmp_path / "out.txt").read_text() == "before"
    assert not (tmp_path / "report.json").exists()


def test_a_file_with_a_report(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"a": GITHUB}, {"b": f"{GITHUB} ann.lind@fabrikam.de"}, {"n": 1}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["redact", "in.jsonl", "--out", "out.jsonl", "--report", "report.json"]) == 0
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert out == [
        {"a": "[REDACTED:github_token:1]"},
        {"b": "[REDACTED:github_token:1] [REDACTED:email:1]"},
        {"n": 1},
    ]
    text = (tmp_path / "report.json").read_text()
    report = json.loads(text)
    assert GITHUB not in text
    assert "ann.lind" not in text
    assert report["rules"]["github_token"] == {"family": "code_host", "findings": 2, "values": 1}
    assert [(p["place"], p["rule"]) for p in report["places"]] == [
        ("line 1", "github_token"),
        ("line 2", "github_token"),
        ("line 2", "email"),
    ]
    assert report["places"][0]["fingerprint"] == report["places"][1]["fingerprint"]
    assert stat.S_IMODE((home / "redaction.key").stat().st_mode) == 0o600
    assert capsys.readouterr().out == "3 records, 3 findings replaced: out.jsonl\n"


def test_a_key_block_over_several_lines_is_found(home: Path, tmp_path: Path) -> None:
    kind = "PRIVATE" + " KEY"
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj" * 2
    (tmp_path / "a.txt").write_text(
        f"$ cat k\n-----BEGIN {kind}-----\n{body[:64]}\n{body[:60]}\n-----END {kind}-----\n$\n"
    )
    assert main(["redact", "a.txt", "--out", "b.txt"]) == 0
    assert (tmp_path / "b.txt").read_text() == "$ cat k\n[REDACTED:private_key:1]\n$\n"


def test_what_cannot_be_made_clean_is_left_out_and_named(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.jsonl").write_text('{"a": 1}\n{"card": 4111111111111111}\n')
    assert main(["redact", "in.jsonl", "--out", "out.jsonl", "--json"]) == 1
    told = capsys.readouterr()
    assert told.err == "in.jsonl:2: left out: number_finding (credit_card)\n"
    assert json.loads(told.out)["left_out"] == [{"line": 2, "reason": "number_finding", "rule": "credit_card"}]
    assert (tmp_path / "out.jsonl").read_text() == '{"a": 1}\n'


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["redact", "none.txt"], 1, "none.txt: No such file"),
        (["redact", "a.txt", "--out", "a.txt"], 1, "is the input"),
        (["redact", "a.txt", "--json"], 2, "give --out too"),
    ],
)
def test_faults_are_one_line(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    assert main(arguments) == code
    assert told in capsys.readouterr().err
    assert (tmp_path / "a.txt").read_text() == "a\n"


def test_rules_and_allowed_values_of_the_settings_count(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "family = 'f'\n[[rule]]\nname = 'ours'\nanchors = ['ctk_']\nbody = '[a-z0-9]{20}'\nexamples = ['ct{|}k_{l20}']"
    )
    (tmp_path / "flywheel.toml").write_text(
        "[redaction]\nrules = ['mine.toml']\n[[redaction.allow]]\npattern = '.*@contoso[.]com'\nreason = 'public'\n"
    )
    (tmp_path / "a.txt").write_text("ctk_a1b2ca1b2ca1b2ca1b2c ci@contoso.com\n")
    assert main(["redact", "a.txt", "--out", "b.txt", "--report", "r.json"]) == 0
    assert (tmp_path / "b.txt").read_text() == "[REDACTED:ours:1] ci@contoso.com\n"
    assert json.loads((tmp_path / "r.json").read_text())["allow"][0]["reason"] == "public"


def test_a_faulty_rule_file_writes_nothing(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text("family = 'f'\n[[rule]]\nname = 'ours'\n")
    (tmp_path / "flywheel.toml").write_text("[redaction]\nrules = ['mine.toml']\n")
    (tmp_path / "a.txt").write_text("a\n")
    assert main(["redact", "a.txt", "--out", "b.txt"]) == 1
    assert "mine.toml: ours: give anchors and body" in capsys.readouterr().err
    assert not (tmp_path / "b.txt").exists()
