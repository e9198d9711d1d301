"""The three tools: their schemas, and the one way from an agent's text to a call.

The action is the assistant's text: an optional `<think>` block, free text, and one Hermes call
`<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

ToolError = Literal[
    "none",
    "no_call",
    "several_calls",
    "bad_json",
    "unknown_tool",
    "bad_arguments",
    "not_found",
    "ambiguous",
    "unchanged",
    "too_large",
]

ERRORS: tuple[ToolError, ...] = (
    "none",
    "no_call",
    "several_calls",
    "bad_json",
    "unknown_tool",
    "bad_arguments",
    "not_found",
    "ambiguous",
    "unchanged",
    "too_large",
)


def _schema(name: str, description: str, properties: dict[str, Any], required: list[str]) -> Any:
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS: tuple[Mapping[str, Any], ...] = (
    _schema(
        "str_replace",
        "Replace text in the resume. `old` must match exactly and occur `count` times.",
        {
            "old": {"type": "string", "description": "text in the resume"},
            "new": {"type": "string", "description": "its replacement; empty deletes"},
            "count": {"type": "integer", "minimum": 1, "default": 1},
        },
        ["old", "new"],
    ),
    _schema("review", "Show the whole resume and the end of the page.", {}, []),
    _schema("submit", "Hand in the resume and end the episode.", {}, []),
)
"""The tools in OpenAI's format, as chat templates and inference servers take them."""

_ARGUMENTS = {"str_replace": {"old", "new", "count"}, "review": set(), "submit": set()}
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_decode = json.JSONDecoder().raw_decode


class ToolCall(NamedTuple):
    """A well-formed call; the other fields belong to `str_replace`."""

    name: str
    old: str = ""
    new: str = ""
    occurrences: int = 1


class Malformed(NamedTuple):
    """A text that is no call: why, in a sentence for the agent, and for which tool if known."""

    error: ToolError
    reason: str
    name: str = ""


def tool_call(name: str, **arguments: Any) -> str:
    """The action text that calls a tool.

    >>> print(tool_call("str_replace", old="Helped build", new="Built"))
    <tool_call>
    {"name": "str_replace", "arguments": {"old": "Helped build", "new": "Built"}}
    </tool_call>
    """
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    call = call.replace("</think>", r"<\/think>")  # JSON for the same text; no thought ends here
    return f"{_OPEN}\n{call}\n{_CLOSE}"


def parse(text: str) -> ToolCall | Malformed:
    """Read the one call out of an agent's text. Never raises on any string."""
    thought, closed, said = text.partition("</think>")
    if not closed:
        said = thought
    head, opened, rest = said.partition(_OPEN)
    if not opened or "<think>" in head:
        return Malformed("no_call", f"expected one {_OPEN}...{_CLOSE}, found none")
    body = rest.lstrip()
    try:
        call, end = _decode(body)
    except (ValueError, RecursionError) as problem:
        return Malformed("bad_json", f"the call is not valid JSON: {_brief(problem)}")
    rest = body[end:].lstrip()
    if not rest.startswith(_CLOSE):
        return Malformed("bad_json", f"expected {_CLOSE} after the JSON object")
    if _OPEN in rest:
        return Malformed("several_calls", "expected one call a turn, found several")
    return _check(call)


def _brief(problem: Exception) -> str:
    return "nested too deeply" if isinstance(problem, RecursionError) else str(problem)


def _check(call: Any) -> ToolCall | Malformed:
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return Malformed("bad_json", 'expected an object {"name": ..., "arguments": {...}}')
    name, arguments = call["name"], call.get("arguments", {})
    known = _ARGUMENTS.get(name)
    if known is None:
        tools = ", ".join(_ARGUMENTS)
        return Malformed("unknown_tool", f"unknown tool {name[:80]!r}; the tools are {tools}")
    if not isinstance(arguments, dict) or not arguments.keys() <= known:
        wanted = ", ".join(sorted(known)) or "none"
        given = map(repr, arguments) if isinstance(arguments, dict) else [_kind(arguments)]
        got = ", ".join(given)
        return Malformed("bad_arguments", f"{name} takes {wanted}; got {got[:200]}", name)
    if name != "str_replace":
        return ToolCall(name)
    if problem := _problem(**arguments):
        return Malformed("bad_arguments", problem, name)
    if arguments["new"] == arguments["old"]:
        return Malformed("unchanged", "`new` is equal to `old`", name)
    return ToolCall(name, arguments["old"], arguments["new"], arguments.get("count", 1))


def _problem(old: Any = None, new: Any = None, count: Any = 1) -> str:
    """What is wrong with the arguments of `str_replace`; empty if nothing is."""
    for name, value in (("old", old), ("new", new)):
        if not isinstance(value, str):
            return f"`{name}` must be a string, got {_kind(value)}"
        if fault := text_fault(value):
            return f"`{name}` holds {fault}"
    if not old:
        return "`old` is empty; give the text to replace"
    if type(count) is not int or count < 1:
        got = str(count)[:20] if isinstance(count, int) else _kind(count)
        return f"`count` must be a positive integer, got {got}"
    return ""


def _kind(value: Any) -> str:
    """What JSON calls a value; naming it is safe where printing it is deep or long."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "null" if value is None else "a number")


def text_fault(text: str) -> str:
    """What a text holds that no document may hold; empty if nothing."""
    if "\x00" in text:
        return "a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "a lone surrogate"
    return ""
