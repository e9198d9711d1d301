import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_gym import ERRORS, TOOLS, FailedCall, ToolCall, parse, tool_call
from resume_gym.episode.tools import Toolbox, schema

REVIEW = tool_call("review")


def replacing(**arguments: Any) -> str:
    return tool_call("str_replace", **{"old": "a", "new": "b", **arguments})


def raw(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


@pytest.mark.parametrize(
    "text",
    [
        REVIEW,
        f"I look first.\n{REVIEW}\nThat is all.",
        f"<think>two words</think>\n{REVIEW}",
        f"thought whose opening tag stood in the prompt</think>{REVIEW}",
        f"<think>shall I write <tool_call>{{}}</tool_call>?</think>{REVIEW}",
        raw('{"name": "review"}'),
        raw('\n\n {"arguments": {}, "name": "review"} \n'),
    ],
)
def test_a_single_call_is_parsed(text: str) -> None:
    assert parse(text) == ToolCall("review")


@pytest.mark.parametrize("escape", [r"\u0000", r"\ud800", r"\udfff"])
def test_escaped_faults_are_refused(escape: str) -> None:
    for field in ("old", "new"):
        body = {"old": "x", "new": "y", field: "@"}
        text = json.dumps({"name": "str_replace", "arguments": body}).replace("@", escape)
        result = parse(raw(text))
        assert isinstance(result, FailedCall)
        assert result.error == "bad_arguments"
        assert field in result.reason


def test_an_escaped_pair_of_surrogates_is_a_character() -> None:
    call = parse(raw(r'{"name": "str_replace", "arguments": {"old": "\ud83d\ude42", "new": ""}}'))
    assert call == ToolCall("str_replace", {"old": "🙂", "new": ""})


@pytest.mark.parametrize("depth", [1, 2, 30, 60, 400, 1200])
def test_any_depth_of_nesting_is_answered(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    for arguments in (deep, f'{{"old": {deep}}}', f'{{"old": "a", "new": "", "count": {deep}}}'):
        result = parse(raw(f'{{"name": "str_replace", "arguments": {arguments}}}'))
        assert isinstance(result, FailedCall)


valid = st.text().filter(lambda text: "\x00" not in text)


@given(old=valid.filter(bool), new=valid, count=st.integers(1, 10**30))
def test_tool_call_and_parse_are_inverse(old: str, new: str, count: int) -> None:
    arguments = {"old": old, "new": new, "count": count}
    assert parse(tool_call("str_replace", **arguments)) == ToolCall("str_replace", arguments)


@pytest.mark.parametrize("text", ["</think>", "<think>", "<tool_call>", "</tool_call>{}", "\\</"])
def test_markers_may_stand_in_arguments(text: str) -> None:
    action = f"<think>x</think>{tool_call('str_replace', old=text, new='y')}"
    assert parse(action) == ToolCall("str_replace", {"old": text, "new": "y"})
    action = tool_call("str_replace", old="y", new=text)
    assert parse(action) == ToolCall("str_replace", {"old": "y", "new": text})


@pytest.mark.parametrize("thought", ["", "<think>x</think>", "x</think>", f"{REVIEW}?</think>"])
@pytest.mark.parametrize("text", ["</think>", "<think>", "a </think> b <think>", "</tool_call>"])
def test_unescaped_markers_in_strings_change_no_reading(thought: str, text: str) -> None:
    call = raw(json.dumps({"name": "str_replace", "arguments": {"old": text, "new": text}}))
    assert parse(thought + call) == ToolCall("str_replace", {"old": text, "new": text})
    assert parse(f"<think>Perhaps {call}?</think>{REVIEW}") == ToolCall("review")


EDIT = '{"name": "str_replace", "arguments": {"old": "a", "new": "b"'


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("", "no_call", "found none"),
        ('{"name": "review", "arguments": {}}', "no_call", "found none"),
        (f"{REVIEW}\n{REVIEW}", "several_calls", "found several"),
        (raw("{'name': 'review'}"), "bad_json", "not valid JSON"),
        (raw('{"name": "review"} {}'), "bad_json", "expected </tool_call>"),
        (raw('[{"name": "review"}]'), "bad_json", "expected an object"),
        (raw("[" * 100_000), "bad_json", ""),
        (raw('{"name": "review", "arguments": %s}' % ("9" * 5000)), "bad_json", ""),
        (tool_call("delete", line=3), "unknown_tool", "unknown tool 'delete'"),
        (tool_call("\x00\udc00"), "unknown_tool", ""),
        (tool_call("review", all=True), "bad_arguments", "takes none; got 'all'"),
        (replacing(old=3), "bad_arguments", "`old` must be a string, got a number"),
        (replacing(old="a\x00"), "bad_arguments", "a NUL character"),
        (replacing(new="\ud800"), "bad_arguments", "a lone surrogate"),
        *(
            (replacing(count=count), "bad_arguments", "`count` must be a positive integer")
            for count in (0, -1, True, 1.0, "1", float("nan"))
        ),
        (raw('{"name": "review", "name": "submit"}'), "bad_json", "key 'name' occurs twice"),
        (raw(EDIT + r', "x": {"\ud800": 1, "\ud800": 2}}}'), "bad_json", "occurs twice"),
        (raw(f"{EDIT}}}}}".replace("arguments", "inputs")), "bad_arguments", "'inputs'"),
        (raw('{"function": "review"}'), "bad_json", "'function'"),
        (raw('{"name": "submit", "arguments": null}'), "bad_arguments", "`arguments` .* got null"),
        (tool_call("str_replace", old="a", new="b", by=1), "bad_arguments", "got 'by'"),
        (raw('{"name": "submit", "arguments": "a\nb"}'), "bad_json", r"holds '\\n' itself"),
        ('<tool_call>{"name": "submit"}', "bad_json", "expected </tool_call> .* got nothing"),
        (raw("\n<function=submit>\n"), "bad_json", r"expected an object .* got '<function=submit>"),
        (f"<think>a</think> so <think>b</think>{REVIEW}", "no_call", "found a second <think>"),
        (f"<think>never ends {REVIEW}", "no_call", "<think> without </think>"),
        (f"<think>{REVIEW}</think>", "no_call", "none after </think>, one before"),
    ],
)
def test_what_is_no_call_is_answered_with_its_fault(text: str, error: str, reason: str) -> None:
    failed = parse(text)
    assert isinstance(failed, FailedCall)
    assert failed.error == error
    assert bool(failed.name) == (error == "bad_arguments")
    assert re.search(reason, failed.reason)
    assert 10 < len(failed.reason) < 500
    failed.reason.encode()
    assert "\x00" not in failed.reason


PIECES = """\
<think> </think> <tool_call> </tool_call> {"name":" review ","arguments": {}} {"old":" " \
\\u0000 \\ud800 1e999 NaN [[ null"""
pieces = st.sampled_from(PIECES.split(" "))


@given(st.one_of(st.text(), st.lists(pieces | st.text(max_size=5)).map("".join)))
def test_parse_never_raises(text: str) -> None:
    for action in (text, raw(text), raw(f'{{"name": "str_replace", "arguments": {text}}}')):
        result = parse(action)
        assert isinstance(result, ToolCall) or result.error in ERRORS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(json_values, json_values)
def test_parse_never_raises_on_json(name: Any, arguments: Any) -> None:
    for call in (
        {"name": name, "arguments": arguments},
        {"name": "str_replace", "arguments": {"old": name, "new": arguments, "count": name}},
        arguments,
    ):
        result = parse(raw(json.dumps(call)))
        assert isinstance(result, ToolCall) or result.error in ERRORS


def test_schemas_describe_what_parse_takes() -> None:
    functions = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    assert functions.keys() == {"str_replace", "review", "submit"}
    for name, parameters in functions.items():
        values = {key: key for key in parameters["required"]}
        assert parse(tool_call(name, **values)) == ToolCall(name, values)
    assert list(functions["str_replace"]["properties"]) == ["old", "new", "count"]


def test_a_box_without_submit_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a tool `submit` without arguments"):
        Toolbox(schema("drop", "Remove a line.", {"line": {"type": "integer"}}, ["line"]))
