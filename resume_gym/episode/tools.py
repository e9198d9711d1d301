"""Tool schemas, and the parser that extracts a tool call from an agent's text.

An action is the assistant's text: an optional `<think>` block, free text, and one call in the
Hermes format, `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from resume_gym.support.json_lines import unique_keys

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
    """A valid call: a known tool with all required arguments and no unknown arguments."""

    name: str
    arguments: Mapping[str, Any] = MappingProxyType({})


class FailedCall(NamedTuple):
    """A failed action: error code, error message for the agent, and the tool's name if known."""

    error: ToolError
    reason: str
    name: str = ""


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def schema(name: str, description: str, properties: dict[str, object], required: list[str]) -> Any:
    """Return a tool schema in OpenAI's format.

    Args:
        name: name of the tool.
        description: description of the tool for the agent.
        properties: JSON schema of each argument, of type "string" or "integer" (at least 1).
        required: names of the required arguments.
    """
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


class Toolbox:
    """The tools of an environment and the parser of their calls.

    Args:
        schemas: schemas of the tools, made by `schema`; one of them is a tool `submit` without
            arguments.

    Attributes:
        schemas: schemas in OpenAI's format, which chat templates and inference servers accept.
    """

    def __init__(self, *schemas: Mapping[str, Any]) -> None:
        self.schemas: tuple[Mapping[str, Any], ...] = schemas
        # for each tool: the type of each argument, and the names of the required arguments
        self._arguments: dict[str, tuple[dict[str, str], set[str]]] = {}
        for tool in schemas:
            name, parameters = tool["function"]["name"], tool["function"]["parameters"]
            required = set(parameters["required"])
            kinds = {key: kind.get("type") for key, kind in parameters["properties"].items()}
            if name in self._arguments:
                raise ValueError(f"schemas: {name} occurs twice")
            if unknown := required - kinds.keys():
                raise ValueError(f"{name}: {min(unknown)} is required, but is not in properties")
            for key, kind in kinds.items():
                if kind not in ("string", "integer"):
                    expected = "expected type 'string' or 'integer'"
                    raise ValueError(f"{name}: {key}: {expected}, got {kind!r}")
            self._arguments[name] = kinds, required
        if self._arguments.get("submit") != ({}, set()):
            raise ValueError("schemas: expected a tool `submit` without arguments")

    def read(self, text: str) -> ToolCall | FailedCall:
        """Parse the single tool call in an agent's text; an invalid text gives a `FailedCall`."""
        thought, answer = split_thought(text)
        head, opened, rest = answer.partition(_OPEN)
        if "<think>" in head:  # a call inside an unclosed thought does not count
            told = "found a second <think>" if thought else "<think> without </think>"
            return FailedCall("no_call", f"expected one {_OPEN}...{_CLOSE} after a thought; {told}")
        if not opened:
            told = "none after </think>, one before" if _OPEN in thought else "none"
            return FailedCall("no_call", f"expected one {_OPEN}...{_CLOSE}, found {told}")
        # Decode the JSON before looking for the closing tag, since the arguments may contain one.
        body = rest.lstrip()
        try:
            call, end = decode(body)
        except (ValueError, RecursionError) as problem:
            return FailedCall("bad_json", _brief(problem, body))
        rest = body[end:].lstrip()
        if not rest.startswith(_CLOSE):
            return FailedCall("bad_json", f"expected {_CLOSE} after the JSON, got {_start(rest)}")
        if _OPEN in rest:
            return FailedCall("several_calls", "expected one call a turn, found several")
        return self._check(call)

    def _check(self, call: object) -> ToolCall | FailedCall:
        if not isinstance(call, dict):
            return FailedCall("bad_json", f"expected {_CALL}, got {_kind(call)}")
        if not isinstance(name := call.get("name"), str):
            got = _kind(name) if "name" in call else f"the keys {_list(call)}"
            return FailedCall("bad_json", f"expected {_CALL} with a text as name, got {got}")
        if name not in self._arguments:
            tools = ", ".join(self._arguments)
            return FailedCall("unknown_tool", f"unknown tool {name[:80]!r}; the tools are {tools}")
        kinds, required = self._arguments[name]
        arguments = call.get("arguments", {})
        if not isinstance(arguments, dict):
            told = f"`arguments` must be an object, got {_kind(arguments)}"
            return FailedCall("bad_arguments", told, name)
        if required and "arguments" not in call:
            told = f"expected the keys name and arguments, got {_list(call)}"
            return FailedCall("bad_arguments", told, name)
        if unknown := [key for key in arguments if key not in kinds]:
            wanted = ", ".join(sorted(kinds)) or "none"
            return FailedCall("bad_arguments", f"{name} takes {wanted}; got {_list(unknown)}", name)
        for argument, kind in kinds.items():
            if argument not in arguments:
                problem = "is missing" if argument in required else ""
            else:
                problem = _problem(kind, arguments[argument])
            if problem:
                return FailedCall("bad_arguments", f"`{argument}` {problem}", name)
        return ToolCall(name, arguments)


_CALL = 'an object {"name": ..., "arguments": {...}}'
_TAG = re.compile(rf"{_OPEN}\s*|</think>")


def split_thought(text: str) -> tuple[str, str]:
    """Split a text into the thought, up to `</think>`, and the rest.

    The opening `<think>` may be part of the prompt instead of `text`. A `</think>` inside a string
    of a tool call does not end the thought.

    >>> split_thought("So.</think>Yes.")
    ('So.</think>', 'Yes.')
    """
    end = 0
    for tag in _TAG.finditer(text) if "</think>" in text else ():
        if tag.start() < end:
            continue
        if tag[0] == "</think>":
            return text[: tag.end()], text[tag.end() :]
        if text.startswith("{", tag.end()):
            with suppress(ValueError, RecursionError):
                _, end = _decode_any(text, tag.end())
    return "", text


decode = json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode
"""Decode the JSON value at an offset; return it and its end offset. Reject repeated keys."""
_decode_any = json.JSONDecoder(strict=False).raw_decode


def _problem(kind: str, value: object) -> str:
    """Describe what is wrong with an argument of a call; empty if the argument is valid."""
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


def tool_call(name: str, **arguments: object) -> str:
    """Format the action text that calls a tool.

    >>> print(tool_call("str_replace", old="Helped build", new="Built"))
    <tool_call>
    {"name": "str_replace", "arguments": {"old": "Helped build", "new": "Built"}}
    </tool_call>
    """
    return with_calls("", [(name, json.dumps(arguments, ensure_ascii=False))])


def with_calls(content: str, calls: Iterable[tuple[str, str]]) -> str:
    """Put tool calls, which an inference server has extracted, back into the text.

    Args:
        content: text without the calls.
        calls: name of each call, and its arguments as JSON text, which may be invalid.
    """
    texts = [content] if content else []
    for name, arguments in calls:
        call = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'
        # the same JSON string, written without the closing tag
        call = call.replace("</think>", r"<\/think>")
        texts.append(f"{_OPEN}\n{call}\n{_CLOSE}")
    return "\n".join(texts)


def _brief(problem: Exception, body: str) -> str:
    """Return why the text after an opening tag cannot be decoded."""
    if not body.startswith("{"):
        return f"expected {_CALL}, got {_start(body)}"
    if isinstance(problem, RecursionError):
        return "the call is not valid JSON: nested too deeply"
    if isinstance(problem, json.JSONDecodeError) and "control character" in problem.msg:
        raw = body[problem.pos]
        return f"the call is not valid JSON: a string holds {raw!r} itself, not its escape"
    return f"the call is not valid JSON: {problem}"


def _start(text: str) -> str:
    return f"{text[:40]!r}" if text else "nothing"


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))[:200] or "none"


def _kind(value: object) -> str:
    """Return the JSON type of a value. Messages name the type, since the value may be long."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "null" if value is None else "a number")


def paired(text: str) -> str:
    """Replace each surrogate pair by the character that it encodes, as JSON parsers do."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def text_fault(text: str) -> str:
    """Return the kind of forbidden character that a text contains; empty if there is none."""
    if "\x00" in text:
        return "a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "a lone surrogate"
    return ""
