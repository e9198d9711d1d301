"""A model behind a loopback server, with native calls of tools: it says what a script says."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loopback import Loopback, Say, openai_server

_CALL = re.compile(r'<tool_call>\n\{"name": "(\w+)", "arguments": (.*?)\}\n</tool_call>', re.DOTALL)


def native(say: Say, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The wire of a server that takes the calls out of what its model writes."""
    thought, closed, said = say.text.rpartition("</think>")
    calls = [
        {"id": f"call-{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, (name, text) in enumerate(_CALL.findall(said))
    ]
    message = {"role": "assistant", "content": _CALL.sub("", said).strip() or None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": thought.removeprefix("<think>")} if closed else {}
    end = "tool_calls" if calls else {"safety": "content_filter"}.get(say.finish, say.finish)
    return {
        "id": "one",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": end}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }


@contextmanager
def model(script: Callable[[int], str], delay_s: float = 0.0) -> Iterator[Loopback]:
    """A server whose model says what the script says at each turn of a chat."""

    def reply(body: Mapping[str, Any]) -> str:
        return script(sum(one["role"] == "assistant" for one in body["messages"]))

    with openai_server(reply, delay_s) as server:
        server._wire = native
        yield server
