"""Generated schemas: the files are what the types say, and real documents fit them."""

import hashlib
import json
import tarfile
from pathlib import Path

import jsonschema
import jsonschema_rs
import msgspec
import pytest

from tests.flow.token_jobs import token_trial
from trace_flywheel.cli.main import main
from trace_flywheel.flow import schemas
from trace_flywheel.flow.stream.follow import Request, Stream

FOLDER = Path(__file__).parents[2] / "schemas"


def validator(name):
    return jsonschema_rs.Draft202012Validator(schemas.document(name))


@pytest.mark.parametrize("name", schemas.TYPES)
def test_the_file_is_what_the_type_says(name):
    """A change of a type that is no new optional field needs a new version; then: python -m …flow.schemas."""
    assert (FOLDER / f"{name}.schema.json").read_bytes() == schemas.text(name)


@pytest.mark.parametrize("name", schemas.TYPES)
def test_schemas_are_valid_open_and_named(name):
    document = schemas.document(name)
    jsonschema.Draft202012Validator.check_schema(document)
    assert document["$id"].endswith(f"/{name}.schema.json")
    assert "additionalProperties" not in document


def test_what_is_published_does_not_change():
    """A new version is a new file. Only for a new optional key: `cd schemas && sha256sum *.json > SHA256SUMS`."""
    listed = dict(reversed(line.split("  ")) for line in (FOLDER / "SHA256SUMS").read_text().splitlines())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.glob("*.json")}
    assert listed == found


def test_no_schema_is_written_by_hand():
    assert {path.name for path in FOLDER.glob("*.json")} == {f"{name}.schema.json" for name in schemas.TYPES}


def test_stream_lines_fit_their_schema(tmp_path):
    job = tmp_path / "job"
    token_trial(job, "t__1", failed=1)
    token_trial(job, "t__2", reward=None, error="late", error_category="timeout")
    (token_trial(job, "t__3") / "trajectory" / "llm_trajectory.jsonl").unlink()
    check = validator("rollout-stream.v1")
    for record in Stream(Request(job, follow=False, group_size=2)):
        check.validate(json.loads(msgspec.json.encode(record)))


def test_all_fields_up_to_group_complete_are_required():
    required = schemas.document("rollout-stream.v1")["required"]
    assert (required[0], required[-1], len(required)) == ("schema_version", "group_complete", 19)


def test_a_manifest_of_convert_fits_and_so_does_its_training_signal(tmp_path, benchflow_trial):
    for name, reward in (("t__1", 1.0), ("t__2", 0.0), ("u__1", None)):
        benchflow_trial(tmp_path / "job", name, reward=reward)
    manifest = tmp_path / "m.json"
    flags = ["--out", str(tmp_path / "o"), "--manifest", str(manifest), "--group-advantage", "grpo"]
    assert main(["convert", str(tmp_path / "job"), *flags]) == 0
    document = json.loads(manifest.read_text())
    validator("convert-manifest.v1").validate(document)
    validator("training-signal.v1").validate(document["training_signal"])


def test_the_answer_of_validate_fits(tmp_path, benchflow_trial, capsys):
    benchflow_trial(tmp_path / "job", "t__1")
    rows = str(tmp_path / "rows.jsonl")
    assert main(["convert", str(tmp_path / "job"), "--out", rows]) == 0
    capsys.readouterr()
    assert main(["validate", rows, "--source-jobs", str(tmp_path / "job")]) == 0
    answer = json.loads(capsys.readouterr().out)
    validator("validation.v1").validate(answer)
    assert not validator("validation.v1").is_valid(answer | {"ok": False})


def test_the_metadata_of_episodes_fits(tmp_path, benchflow_trial):
    benchflow_trial(tmp_path / "job", "t__1")
    out = tmp_path / "episodes"
    assert main(["convert", str(tmp_path / "job"), "--format", "openenv-episodes", "--out", str(out)]) == 0
    validator("openenv-metadata.v1").validate(json.loads((out / "metadata.json").read_text()))


def test_rows_of_recordings_fit(tmp_path, benchflow_trial):
    benchflow_trial(tmp_path / "job", "t__1")
    rows = tmp_path / "rows.jsonl"
    assert main(["convert", str(tmp_path / "job"), "--format", "atraj-sft", "--out", str(rows)]) == 0
    (row,) = map(json.loads, rows.read_text().splitlines())
    validator("atraj-sft-row.v1").validate(row)
    assert not validator("atraj-sft-row.v1").is_valid(row | {"messages": []})


def test_coverage_fits(tmp_path, capsys):
    token_trial(tmp_path / "job", "t__1")
    assert main(["token-coverage", str(tmp_path / "job"), "--json"]) == 0
    validator("token-coverage.v1").validate(json.loads(capsys.readouterr().out))


@pytest.mark.corpus
def test_every_conformance_case(shared_dir, tmp_path):
    """Results, rows, derived stream lines and training signals of all cases."""
    with tarfile.open(shared_dir / "conformance" / "benchflow-cases.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    result, stream, signal = (
        validator(name) for name in ("benchflow-result.v1", "rollout-stream.v1", "benchflow-training-signal.v1")
    )
    seen = {"result": 0, "stream": 0, "signal": 0, "prime-sft": 0, "trl-sft": 0}
    for path in tmp_path.rglob("input/**/result.json"):
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if isinstance(document, dict):
            assert result.is_valid(document), path
            seen["result"] += 1
    rows = {name: validator(f"{name}-row.v1") for name in ("prime-sft", "trl-sft")}
    for path in tmp_path.rglob("expected/*/rows.jsonl"):
        name = "trl-sft" if "trl" in path.parent.name else "prime-sft"
        for line in filter(None, path.read_text("utf-8").split("\n")):
            assert rows[name].is_valid(json.loads(line)), path
            seen[name] += 1
    for path in tmp_path.rglob("expected-derived/stream*/stdout.jsonl"):
        for line in path.read_text().split("\n")[:-1]:
            assert stream.is_valid(json.loads(line)), path
            seen["stream"] += 1
    for path in tmp_path.rglob("expected-derived/group*/rows.jsonl"):
        for line in filter(None, path.read_text().split("\n")):
            assert signal.is_valid(json.loads(line)), path
            seen["signal"] += 1
    assert min(seen.values()) > 5, seen


@pytest.mark.corpus
@pytest.mark.parametrize("source", ["benchflow-jobs-skill-lift", "benchflow-repo-fixtures"])
def test_every_result_of_the_corpus(corpus, source):
    check = validator("benchflow-result.v1")
    for path in corpus(source).rglob("result.json"):
        document = json.loads(path.read_bytes())
        assert check.is_valid(document), [e.message for e in check.iter_errors(document)]
