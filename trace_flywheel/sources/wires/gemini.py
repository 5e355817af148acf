"""Gemini's generateContent: `contents` of parts, tools as `functionDeclarations`, answers in `candidates`.

A gateway that passes such calls through records the whole request as the JSON text of one user message. It is
rewritten into OpenAI chat form, one item after the other, so that requests which repeat each other still do. Calls
often carry no id; their results are then known by the function's name.
"""

from typing import Any

import orjson

from trace_flywheel.sources.wires.parts import dumped, joined

CUT = "MAX_TOKENS"


def unwrapped(messages: Any) -> dict[str, Any] | None:
    """The chat body (`messages`, `tools`) of a request that was passed through; None for any other one."""
    if not isinstance(messages, list) or len(messages) != 1 or not isinstance(messages[0], dict):
        return None
    text = messages[0].get("content")
    if not isinstance(text, str) or not text.lstrip().startswith("{"):
        return None
    try:
        request = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    contents = request.get("contents")
    if not isinstance(contents, list):
        return None
    system = request.get("systemInstruction") or request.get("system_instruction")
    told = [{"role": "system", "content": _texts(system)}] if isinstance(system, dict) else []
    for content in contents:
        if isinstance(content, dict):
            told += chat_items(content)
    return {"messages": told, "tools": _tools(request.get("tools"))}


def chat_items(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The chat items of one content: results first, then what is left of the turn."""
    listed = content.get("parts")
    parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
    if content.get("role") == "model":
        return [_turn(parts)]
    results = [_result(part["functionResponse"]) for part in parts if isinstance(part.get("functionResponse"), dict)]
    rest = [_part(part) for part in parts if "functionResponse" not in part]
    return [*results, {"role": "user", "content": rest}] if rest or not results else results


def answer_item(body: dict[str, Any]) -> tuple[dict[str, Any], Any] | None:
    """(the first candidate as a chat item, its finish reason); None where there is none."""
    candidates = body.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    content = first.get("content") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(content, dict):
        return None
    return chat_items({**content, "role": "model"})[0], first.get("finishReason")


def _turn(parts: list[dict[str, Any]]) -> dict[str, Any]:
    calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
    spoken = [part for part in parts if "functionCall" not in part and part.get("thought") is not True]
    return {
        "role": "assistant",
        "content": [_part(part) for part in spoken],
        "reasoning_content": joined(*(part.get("text") for part in parts if part.get("thought") is True)),
        "tool_calls": [
            {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": dumped(call.get("args") or {})}}
            for call in calls
        ],
    }


def _result(response: dict[str, Any]) -> dict[str, Any]:
    given = response.get("response")
    output = given.get("output") if isinstance(given, dict) and given.keys() == {"output"} else None
    text = output if isinstance(output, str) else dumped(given)
    if call_id := response.get("id"):
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    return {"role": "function", "name": response.get("name"), "content": text}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    return {**part, "type": next(iter(part), "unknown")}


def _texts(content: dict[str, Any]) -> str:
    parts = content.get("parts")
    return joined(*(p.get("text") for p in parts if isinstance(p, dict))) or "" if isinstance(parts, list) else ""


def _tools(groups: Any) -> list[Any]:
    found = []
    for group in groups if isinstance(groups, list) else ():
        declared = group.get("functionDeclarations") if isinstance(group, dict) else None
        for tool in declared if isinstance(declared, list) else ():
            if isinstance(tool, dict):
                schema = tool.get("parametersJsonSchema") or tool.get("parameters")
                kept = {key: value for key, value in tool.items() if key in {"name", "description"}}
                found.append({**kept, "parameters": schema} if schema else kept)
    return found
