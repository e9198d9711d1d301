"""Provider for chats with tools, through OpenAI's chat API (`pip install -e .[openai]`).

`OpenAIChat` works with `client.Client`, as `openai.OpenAI` does. A prompt (`turn_prompt`) holds the
whole chat so far. An answer (`read_turn`) is JSON with the next assistant message and its native
tool calls. This module does not parse tool calls out of text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from resume_gym.llm import Answer, Malformed, Prompt
from resume_gym.llm.openai import OpenAI

_ENDS = ("stop", "tool_calls", "length")


class Said(NamedTuple):
    """An assistant message of a chat.

    Attributes:
        thought: reasoning text, if the server returns it.
        content: text of the message, or of the model's refusal.
        calls: tool calls in the server's format; names and arguments are strings.
    """

    thought: str
    content: str
    calls: Sequence[Mapping[str, Any]]


def turn_prompt(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, object]], draw: int
) -> Prompt:
    """Build the prompt for the next turn of a chat.

    Args:
        messages: the chat so far in OpenAI's format, from the system message on.
        tools: tool schemas in OpenAI's format.
        draw: sample index, for several answers to the same chat.
    """
    system, *rest = messages
    chat = json.dumps(rest, ensure_ascii=False)
    return Prompt(system["content"], chat, {"tools": list(tools)}, "turn-1", draw)


def read_turn(text: str) -> Said:
    """Parse the text of an answer."""
    return Said(**json.loads(text))


@dataclass(kw_only=True)
class OpenAIChat(OpenAI):
    """Provider for chats with tools; has the options of `OpenAI` and `parallel_tool_calls`.

    By default, `answer_tokens` limits thinking and answer together. A truncated message is a valid
    answer. The cache key includes the server's address, since servers may share model names.

    Attributes:
        parallel_tool_calls: request field that allows several calls in a turn; None omits the
            field, for servers that reject it.
    """

    sampled = (*OpenAI.sampled, "parallel_tool_calls", "base_url")
    answer_tokens: int = 4096
    thinking_tokens: int = 0
    timeout_s: float = 300.0
    parallel_tool_calls: bool | None = False

    def _asks(self, prompt: Prompt) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        if not prompt.schema["tools"]:  # servers reject an empty list of tools
            return json.loads(prompt.user), {}
        body = {"tools": prompt.schema["tools"]}
        if self.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = self.parallel_tool_calls
        return json.loads(prompt.user), body

    def _text(self, message: Mapping[str, object]) -> str:
        return _sendable(json.dumps(_said(message)._asdict(), ensure_ascii=False))

    def _check_end(
        self,
        end: object,
        message: Mapping[str, object],
        usage: Mapping[str, object],
        answer: Answer,
    ) -> None:
        if end not in _ENDS:
            raise Malformed(f"{self.name}: finish reason {end}").after(answer)


def _said(message: Mapping[str, Any]) -> Said:
    """Convert a message of the API; raise TypeError if a field has a wrong type."""
    # Servers disagree on the name of the reasoning field
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):  # some servers return content parts, reasoning among them
        content = "".join(part["text"] for part in content if part["type"] == "text")
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    if not (isinstance(thought, str) and isinstance(content, str)):
        raise TypeError("expected texts")
    return Said(thought, content, calls)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool call's arguments to text; keep all other fields, which servers expect back."""
    function = dict(call["function"])
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    # Some servers send "" or null for a tool without arguments
    text = "{}" if text.strip() in ("", "null") else text
    if not isinstance(function["name"], str):
        raise TypeError("expected the name of a tool")
    return {"type": "function", **call, "function": {**function, "arguments": text}}


def _sendable(text: str) -> str:
    """Replace lone surrogates, which truncated text may contain and requests cannot encode."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
