"""Turns of a chat with tools, from servers with OpenAI's protocol (`resume-gym[openai]`).

A provider as `openai.OpenAI` is, for `client.Client`: a turn's prompt is the whole chat so far, its
answer what the model said, with native calls, as JSON. Nothing is parsed out of texts here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from resume_gym.llm import Answer, Malformed, Prompt, Refused
from resume_gym.llm.failures import shown
from resume_gym.llm.openai import OpenAI

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_ENDS = ("stop", "tool_calls", "length")


class Said(NamedTuple):
    """A model's turn.

    Attributes:
        thought: what it thought, if its server tells.
        content: its text; a refusal of its own is one.
        calls: of tools, as the server gave them, with names and arguments as texts.
    """

    thought: str
    content: str
    calls: Sequence[Mapping[str, Any]]


def turn_prompt(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], draw: int
) -> Prompt:
    """What is asked for a turn.

    Args:
        messages: of the chat so far, in OpenAI's format; the first is the system's.
        tools: schemas in OpenAI's format.
        draw: differs where another answer to the same chat is wanted.
    """
    system, *rest = messages
    said = json.dumps(rest, ensure_ascii=False)
    return Prompt(system["content"], said, {"tools": list(tools)}, "turn-1", draw)


def read_turn(text: str) -> Said:
    """The turn in the text of an answer."""
    return Said(**json.loads(text))


@dataclass
class OpenAIChat(OpenAI):
    """Sends chats with tools; its options are those of `OpenAI`, and one more.

    A turn has no budget of its own for thinking: a turn that was cut off is a turn.

    Answers of a store are also told apart by the server's address: a model before and after its
    training is often served under one name.

    Attributes:
        parallel_tool_calls: what the server is told about several calls in a turn; None is not to
            mention it, for servers that refuse to hear of it.
    """

    answer_tokens: int = 4096
    thinking_tokens: int = 0
    timeout_s: float = 300.0
    canary: bool = False
    parallel_tool_calls: bool | None = False

    @property
    def sampling(self) -> Mapping[str, Any]:
        """See `OpenAI.sampling`."""
        own = {"parallel_tool_calls": self.parallel_tool_calls, "base_url": self.base_url}
        return {**super().sampling, **own}

    def _asks(self, prompt: Prompt) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        body = {"tools": prompt.schema["tools"]}
        if self.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = self.parallel_tool_calls
        return json.loads(prompt.user), body

    def _answer(self, response: "ChatCompletion", seconds: float) -> Answer:
        """What the response holds; a turn that was cut off is the model's turn as well."""
        try:  # the SDK checks no types
            told = response.model_dump(exclude_none=True, warnings=False)
            choice: dict[str, Any] = (told.get("choices") or [{}])[0]
            said = _said(choice["message"]) if choice else Said("", "", ())
            usage = told.get("usage", {})
            spent = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
            end, model = choice.get("finish_reason"), str(told.get("model") or self.model)
            fit = all(type(count) is int for count in spent)
        except (AttributeError, LookupError, TypeError, ValueError):
            fit = False
        if not fit:
            raise Malformed(f"{self.name}: expected a chat completion, got {shown(response)!r}")
        text = _sendable(json.dumps(said._asdict(), ensure_ascii=False))
        answer = Answer(text, model, *spent, seconds)
        if not choice:
            raise Malformed(f"{self.name}: an answer without choices").after(answer)
        if end == "content_filter":
            raise Refused(f"{self.name}: refused: content_filter").after(answer)
        if end not in _ENDS:
            raise Malformed(f"{self.name}: ended by {end}").after(answer)
        return answer


def _said(message: Mapping[str, Any]) -> Said:
    """A message of the wire; raises TypeError if it is none."""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    content = message.get("content") or message.get("refusal") or ""
    if isinstance(content, list):  # of parts, of which some servers make thoughts as well
        content = "".join(part["text"] for part in content if part["type"] == "text")
    calls = [_call(one) for one in message.get("tool_calls") or ()]
    if not (isinstance(thought, str) and isinstance(content, str)):
        raise TypeError("expected texts")
    return Said(thought, content, calls)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call with all that its server wants back; its arguments as text, as most servers give."""
    function = dict(call["function"])
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    text = "{}" if text.strip() in ("", "null") else text  # what some give for tools without any
    if not isinstance(function["name"], str):
        raise TypeError("expected the name of a tool")
    return {"type": "function", **call, "function": {**function, "arguments": text}}


def _sendable(text: str) -> str:
    """The text without halves of characters, which a cut-off may leave and no request can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
