"""Tool schemas, and the parser that extracts a tool call from an agent's text.

An action is the assistant's text: an optional `<think>` block, free text, and one call in the
Hermes format, `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

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

ERRORS: tuple[ToolError, ...] = get_args(ToolError)


class ToolCall(NamedTuple):
    """A valid call: a known tool with all required arguments and no unknown ones."""

    name: str
    arguments: Mapping[str, Any] = MappingProxyType({})


class FailedCall(NamedTuple):
    """A failed action: error code, reason for the agent, and the tool's name if known."""

    error: ToolError
    reason: str
    name: str = ""


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_decode = json.JSONDecoder().raw_decode


def schema(name: str, description: str, properties: dict[str, Any], required: list[str]) -> Any:
    """Return a tool schema in OpenAI's format.

    Args:
        name: Name of the tool.
        description: Description for the agent.
        properties: JSON schema of each argument: "string", or "integer" for a positive integer.
        required: Names of the required arguments.
    """
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


class Toolbox:
    """The tools of an environment and the parser of their calls.

    Args:
        schemas: Results of `schema`, including a tool `submit` without arguments.

    Attributes:
        schemas: Schemas in OpenAI's format, which chat templates and inference servers accept.
    """

    def __init__(self, *schemas: Mapping[str, Any]) -> None:
        self.schemas: tuple[Mapping[str, Any], ...] = schemas
        # by tool: the kind of each argument, and the required ones
        self._arguments: dict[str, tuple[dict[str, str], set[str]]] = {}
        for tool in schemas:
            name, parameters = tool["function"]["name"], tool["function"]["parameters"]
            required = set(parameters["required"])
            kinds = {key: kind.get("type") for key, kind in parameters["properties"].items()}
            if name in self._arguments:
                raise ValueError(f"schemas: {name} stands twice")
            if unknown := required - kinds.keys():
                raise ValueError(f"{name}: {min(unknown)} is required, but no property")
            for key, kind in kinds.items():
                if kind not in ("string", "integer"):
                    expected = "expected type 'string' or 'integer'"
                    raise ValueError(f"{name}: {key}: {expected}, got {kind!r}")
            self._arguments[name] = kinds, required
        if self._arguments.get("submit") != ({}, set()):
            raise ValueError("schemas: expected a tool `submit` without arguments")

    def read(self, text: str) -> ToolCall | FailedCall:
        """Parse the single tool call in an agent's text; never raises."""
        thought, closed, answer = text.partition("</think>")
        if not closed:
            answer = thought
        head, opened, rest = answer.partition(_OPEN)
        if not opened or "<think>" in head:  # a call inside an unclosed thought does not count
            return FailedCall("no_call", f"expected one {_OPEN}...{_CLOSE}, found none")
        # Decode a JSON value first: arguments may contain the closing tag.
        body = rest.lstrip()
        try:
            call, end = _decode(body)
        except (ValueError, RecursionError) as problem:
            return FailedCall("bad_json", f"the call is not valid JSON: {_brief(problem)}")
        rest = body[end:].lstrip()
        if not rest.startswith(_CLOSE):
            return FailedCall("bad_json", f"expected {_CLOSE} after the JSON object")
        if _OPEN in rest:
            return FailedCall("several_calls", "expected one call a turn, found several")
        return self._check(call)

    def _check(self, call: Any) -> ToolCall | FailedCall:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return FailedCall("bad_json", 'expected an object {"name": ..., "arguments": {...}}')
        name, arguments = call["name"], call.get("arguments", {})
        if name not in self._arguments:
            tools = ", ".join(self._arguments)
            return FailedCall("unknown_tool", f"unknown tool {name[:80]!r}; the tools are {tools}")
        kinds, required = self._arguments[name]
        if not isinstance(arguments, dict) or not arguments.keys() <= kinds.keys():
            wanted = ", ".join(sorted(kinds)) or "none"
            names = map(repr, arguments) if isinstance(arguments, dict) else [_kind(arguments)]
            got = ", ".join(names)
            return FailedCall("bad_arguments", f"{name} takes {wanted}; got {got[:200]}", name)
        for argument, kind in kinds.items():
            given = argument in arguments or argument in required
            if given and (problem := _problem(kind, arguments.get(argument))):
                return FailedCall("bad_arguments", f"`{argument}` {problem}", name)
        return ToolCall(name, arguments)


def _problem(kind: str, value: Any) -> str:
    """Describe what is wrong with an argument; empty if it is valid."""
    if kind == "integer":
        if type(value) is int and value >= 1:
            return ""
        got = str(value)[:20] if isinstance(value, int) else _kind(value)
        return f"must be a positive integer, got {got}"
    if not isinstance(value, str):
        return f"must be a string, got {_kind(value)}"
    fault = text_fault(value)
    return f"holds {fault}" if fault else ""


TOOLS: tuple[Mapping[str, Any], ...] = (
    schema(
        "str_replace",
        "Replace text in the resume. `old` must match exactly and occur `count` times.",
        {
            "old": {"type": "string", "description": "text in the resume"},
            "new": {"type": "string", "description": "its replacement; empty deletes"},
            "count": {"type": "integer", "minimum": 1, "default": 1},
        },
        ["old", "new"],
    ),
    schema("review", "Show the whole resume and the end of the page.", {}, []),
    schema("submit", "Hand in the resume and end the episode.", {}, []),
)
"""The schemas of the resume tools in OpenAI's format."""

TOOLBOX = Toolbox(*TOOLS)
parse = TOOLBOX.read
"""Parse the call of a resume tool in an agent's text; see `Toolbox.read`."""


def tool_call(name: str, **arguments: Any) -> str:
    """Format the action text that calls a tool.

    >>> print(tool_call("str_replace", old="Helped build", new="Built"))
    <tool_call>
    {"name": "str_replace", "arguments": {"old": "Helped build", "new": "Built"}}
    </tool_call>
    """
    return with_calls("", [(name, json.dumps(arguments, ensure_ascii=False))])


def with_calls(content: str, calls: Iterable[tuple[str, str]]) -> str:
    """Restore the tool calls that an inference server has extracted from a model's text.

    Args:
        content: Text without the calls.
        calls: Name and arguments of each call, the arguments as JSON text; invalid JSON is kept.
    """
    texts = [content] if content else []
    for name, arguments in calls:
        call = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'
        call = call.replace("</think>", r"<\/think>")  # equivalent JSON that ends no thought
        texts.append(f"{_OPEN}\n{call}\n{_CLOSE}")
    return "\n".join(texts)


def _brief(problem: Exception) -> str:
    return "nested too deeply" if isinstance(problem, RecursionError) else str(problem)


def _kind(value: Any) -> str:
    """Return the JSON type of a value, for messages on values too deep or long to print."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "null" if value is None else "a number")


def text_fault(text: str) -> str:
    """Name the forbidden kind of character that a text contains; empty if there is none."""
    if "\x00" in text:
        return "a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "a lone surrogate"
    return ""
