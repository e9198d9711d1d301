"""Helpers of `check_env`: check tool schemas; create edits, malformed and random calls."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from resume_gym.episode.editing import AnySession
from resume_gym.episode.tools import tool_call
from resume_gym.testing.expectations import brief, broken, expect, no_exception

Schema = Mapping[str, Any]

SUBMIT = tool_call("submit")
NO_CALL = "There is no call in this action."

_TRIALS = 2000  # maximum number of calls that `find_edit` tries
_STRANGE = ("", " ", "\n", "\t", "é 语言 🙂", "\u202e", "</tool_call>", "<think>", "{}", "\\", '"')


def check_tools(tools: Sequence[Schema]) -> None:
    """Check that each tool has a valid name, a description, and a schema that JSON can represent.

    Raises:
        AssertionError: A schema is invalid.
    """
    for tool in tools:
        function = tool["function"]
        name, parameters = function["name"], function["parameters"]
        with no_exception(f"tool {name}: schema as JSON"):
            json.dumps(tool)
        expect(f"tool {name}: type", "function", tool.get("type"))
        expect(f"tool {name}: parameters.type", "object", parameters.get("type"))
        if not re.fullmatch(r"[\w-]{1,64}", name, re.ASCII):
            raise broken("name of a tool", "1 to 64 letters, digits, _ and -", brief(name))
        if not function.get("description"):
            raise broken(f"tool {name}: description", "a text for the agent", "none")


def find_edit(session: AnySession) -> str:
    """Find, by trial, an action that edits the document of a new session.

    `random_call` generates the calls; each call is tried in a new session.

    Raises:
        AssertionError: None of the tried calls edits the document.
    """
    rng = Random(0)
    tools = [tool for tool in session.tools if tool["function"]["name"] in session.editors]
    for _ in range(_TRIALS):
        call = random_call(rng, rng.choice(tools), session.text)
        with no_exception(f"step({brief(call)})"):
            if type(session)(session.task, session.rules).step(call).error == "none":
                return call
    names = ", ".join(sorted(session.editors))
    wanted = f"one of {_TRIALS} random calls of {names} to edit the document"
    raise broken("edits", wanted, "only errors; pass a function `edit` that returns an edit")


def random_call(rng: Random, tool: Schema, text: str) -> str:
    """Return a call with random arguments, drawn from `text`, the tool's schema and `_STRANGE`."""
    name, parameters = tool["function"]["name"], tool["function"]["parameters"]
    properties = parameters["properties"]
    hints = [word for schema in properties.values() for word in _words(schema)]
    lines = [line.strip(" -*#") for line in text.split("\n")]
    pools = [pool for pool in (text.split("\n"), lines, text.split(), hints, _STRANGE) if pool]
    arguments: dict[str, Any] = {}
    for argument in parameters["required"]:
        if properties[argument]["type"] == "integer":
            arguments[argument] = rng.choice([1, 1, 2, 10**6])
        else:
            arguments[argument] = rng.choice(rng.choice(pools))
    return tool_call(name, **arguments)


def _words(schema: Schema) -> list[str]:
    return [*re.findall(r"\w+", schema.get("description", "")), *schema.get("enum", ())]


def malformed_calls(session: AnySession) -> Iterator[tuple[str, str]]:
    """Yield malformed actions, each with the expected error code."""
    yield from [("", "no_call"), (NO_CALL, "no_call"), ("<think>" + SUBMIT, "no_call")]
    yield from [(f"<tool_call>{text}</tool_call>", "bad_json") for text in ("", "{", "[]", "null")]
    yield SUBMIT + SUBMIT, "several_calls"
    yield tool_call("no_such_tool"), "unknown_tool"
    yield "x" * (session.rules.max_chars + 1), "too_large"
    for tool in session.tools:
        name, parameters = tool["function"]["name"], tool["function"]["parameters"]
        yield tool_call(name, no_such_argument="x"), "bad_arguments"
        for missing in parameters["required"]:
            given = {key: "x" for key in parameters["required"] if key != missing}
            yield tool_call(name, **given), "bad_arguments"
        for argument in parameters["properties"]:
            yield tool_call(name, **{argument: [1]}), "bad_arguments"
            yield tool_call(name, **{argument: "\ud800"}), "bad_arguments"


def script(session: AnySession, edit: str) -> list[str]:
    """Return the actions of an episode: `NO_CALL`, a call that shows text, `edit` and `SUBMIT`."""
    shows = [
        tool["function"]["name"]
        for tool in session.tools
        if not tool["function"]["parameters"]["required"]
    ]
    shows = [name for name in shows if name not in {*session.editors, "submit"}]
    # an episode of only three turns has no turn for the tool that shows text
    before = [NO_CALL, *map(tool_call, shows[:1])][: session.rules.max_turns - 2]
    return [*before, edit, SUBMIT]
