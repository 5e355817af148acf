"""The column types of layouts that are tables. Declared once: two files of one layout can always be read together."""

from collections.abc import Sequence

import pyarrow as pa

_CALL = pa.struct(
    [
        ("id", pa.string()),
        ("type", pa.string()),
        ("function", pa.struct([("name", pa.string()), ("arguments", pa.string())])),
    ]
)
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("tool_calls", pa.list_(_CALL)),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
    ]
)
_TOOL_FUNCTION = pa.struct([("name", pa.string()), ("description", pa.string()), ("parameters", pa.string())])
_TOOL = pa.struct([("type", pa.string()), ("function", _TOOL_FUNCTION)])

SCHEMAS = {
    "verl-sft": pa.schema(
        [
            ("messages", pa.list_(_MESSAGE)),
            ("tools", pa.list_(_TOOL)),
            ("task_id", pa.string()),
            ("row_id", pa.string()),
            ("reward", pa.float64()),
        ]
    ),
}


BESIDE = pa.schema(
    [
        ("advantage", pa.float64()),
        ("group", pa.string()),
        ("reward_vector", pa.string()),
        ("advantage_vector", pa.list_(pa.float64())),
        ("agent_role", pa.string()),
        ("parent_tool_call_id", pa.string()),
        ("subagent_type", pa.string()),
        ("subagent_description", pa.string()),
    ]
)
"""What a conversion tells beside its rows where it is asked to. Objects are JSON text."""


def table_schema(name: str, beside: Sequence[str] = ()) -> pa.Schema:
    """The columns of the layout `name`, and some of `BESIDE`."""
    schema = SCHEMAS[name]
    for column in beside:
        schema = schema.append(BESIDE.field(column))
    return schema
