"""Row schemas: enforced, explained without values, and valid themselves."""

from pathlib import Path

import jsonschema
import orjson
import pytest

from trace_flywheel.trainers.schema import schema, shape_faults

NAMES = ["prime-sft-row.v1", "trl-sft-row.v1", "trl-dpo-row.v1", "messages-row.v1", "messages-pair-row.v1"]


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_valid_and_named_like_their_file(name):
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert schema(name)["$id"].endswith(f"/{name}.schema.json")


def test_faults_name_place_and_rule_but_no_value():
    row = {"messages": [{"role": "robot", "content": 3}, {"role": "user"}], "reward": "s3cret", "gold": "s3cret"}
    assert list(shape_faults("prime-sft-row.v1", row)) == [
        "gold: is not allowed in this layout",
        "messages[0].content: must be string or array or null",
        "messages[0].role: must be one of ['assistant', 'system', 'tool', 'user']",
        "messages[1]: needs content or tool_calls",
        "reward: must be number or null",
    ]


def test_a_row_that_is_no_object_and_an_absent_key():
    assert list(shape_faults("prime-sft-row.v1", [])) == ["row: must be object"]
    assert list(shape_faults("prime-sft-row.v1", {})) == ["row: 'messages' is a required property"]


def test_unknown_schema():
    with pytest.raises(FileNotFoundError, match="no schema nope"):
        schema("nope")


def test_every_schema_file_parses():
    for file in (Path(__file__).parents[2] / "schemas").glob("*.json"):
        assert orjson.loads(file.read_bytes())["$schema"]
