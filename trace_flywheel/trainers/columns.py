"""What type a column of a layout's lines has, in the words of a dataset card.

Types are declared by name, never taken from rows. A list of messages, tools or steps is a list of JSON values, so that
each is read back as it was written: columns of structs fill every key of every other row with null. A name that is not
here is one JSON value, which may be anything.
"""

from collections.abc import Iterable

TEXT, NUMBER, WHOLE, FLAG, JSON, JSON_LIST = "string", "float64", "int64", "bool", "json", "list: json"
TYPES = {
    **dict.fromkeys(("row_id", "task_id", "task_name", "episode_id", "session_id", "schema_version", "id"), TEXT),
    **dict.fromkeys(("agent", "model", "source", "source_path", "instruction", "response", "system"), TEXT),
    **dict.fromkeys(("answer", "verifier"), TEXT),
    **dict.fromkeys(("reward", "score", "advantage"), NUMBER),
    **dict.fromkeys(("turn", "exchange_index", "example_id"), WHOLE),
    **dict.fromkeys(("label", "done", "is_completed", "is_truncated", "parallel_tool_calls"), FLAG),
    **dict.fromkeys(("messages", "prompt", "completion", "chosen", "rejected", "tools", "tool_defs"), JSON_LIST),
    **dict.fromkeys(("steps", "content", "tool_trace"), JSON_LIST),
}
OWN = {("skyrl-sft", "tools"): TEXT}
"""Where a layout means something else by a name."""


def column_types(layout: str, names: Iterable[str]) -> dict[str, str]:
    """The types of the columns that the rows of a layout have, sorted by name."""
    return {name: OWN.get((layout, name), TYPES.get(name, JSON)) for name in sorted(names)}
