"""What type a column of a layout's lines has, in the words of a dataset card.

Types are declared by name, never taken from rows. A list of messages, tools or steps is a list of JSON values, so that
each is read back as it was written: columns of structs fill every key of every other row with null. A name that is not
here is one JSON value, which may be anything.
"""

from collections.abc import Iterable

from trace_flywheel.records.message import Message, Tool
from trace_flywheel.records.rows import KtoRow, PreferencePair, PromptRow, Provenance, RlRow, SftRow
from trace_flywheel.trainers.layout import Kind

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


def specimen(kind: Kind) -> SftRow | PreferencePair | KtoRow | RlRow | PromptRow:
    """A row of a kind: a dataset without rows has the columns of this one."""
    asked, answered, refused = Message("user", "q"), Message("assistant", "a"), Message("assistant", "b")
    about = Provenance("r", "sft", "t", "r", ("t",), "g", "1", (1.0,), (f"p#{'0' * 64}",))
    tools = (Tool("t", "", {}),)
    if kind == "pair":
        return PreferencePair("r", (asked,), (answered,), (refused,), tools, about)
    if kind == "kto":
        return KtoRow("r", (asked,), (answered,), True, tools, about)
    if kind == "prompt":
        return PromptRow("r", (asked,), None, "g@1", {"n": 2, "passes": 1, "pass_at_1": 0.5}, tools, about)
    if kind == "rl":
        return RlRow("r", (asked, answered), tools, 1.0, 0.0, {"id": "g"}, about, {"version": None, "age_days": None})
    return SftRow("r", (asked, answered), tools, about)
