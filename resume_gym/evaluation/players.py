"""Who plays episodes: scripted agents, and models behind a server with OpenAI's protocol."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol

from resume_gym.agents import Agent
from resume_gym.editing import EditSession
from resume_gym.llm.client import Client
from resume_gym.llm.openai_chat import OpenAIChat, Said, read_turn, turn_prompt
from resume_gym.llm.settings import Settings, check
from resume_gym.tools import with_calls

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DEADLINE_S = 600.0  # of a turn: longer than of a verdict, for models that think
_KINDS: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys(("model", "key_name", "store"), (str, "text")),
    **dict.fromkeys(("base_url", "served", "thinking_field"), (str | None, "text or null")),
    "extra_body": (dict | None, "an object or null"),
    "parallel_tool_calls": (bool | None, "true, false or null"),
    "replay": (bool, "true or false"),
    "temperature": (int | float | None, "a number or null"),
}
"""What options may be that `check` does not look at."""
Message = dict[str, Any]
"""Of a chat, in OpenAI's format."""


class Player(Protocol):
    """Plays episodes, many at once if it waits for somebody.

    Attributes:
        at_once: how many episodes it is best given side by side.
    """

    at_once: int

    async def play(self, session: EditSession[Any, Any], seed: int) -> None:
        """Play a new session to its end; nobody has graded it then.

        Args:
            session: not played yet.
            seed: the same seed plays the same, as far as the player can repeat itself.

        Raises:
            ModelError: it could not go on; `Misconfigured` if it never will.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""
        ...


class Scripted:
    """A scripted agent.

    Args:
        make: the agent of one episode, of a seed.
    """

    at_once = 256

    def __init__(self, make: Callable[[int], Agent]) -> None:
        self._make = make

    async def play(self, session: EditSession[Any, Any], seed: int) -> None:
        """See `Player`."""
        agent: Callable[[Any], str] = self._make(seed)
        while not session.done:
            session.step(agent(session))

    async def close(self) -> None:
        """Nothing to let go of."""


class Endpoint:
    """A model behind a server, with native calls of tools.

    What the model says and calls becomes the text of its action, as a policy would have written
    it, so that the session alone says what is malformed: no call, several calls, broken arguments.

    Args:
        client: asks the model.
        at_once: see `Player`.
    """

    def __init__(self, client: Client, at_once: int) -> None:
        self.client = client
        self.at_once = at_once

    async def play(self, session: EditSession[Any, Any], seed: int) -> None:
        """See `Player`. The seed only tells the answers of a store apart: no server is given it."""
        messages: list[Message] = list(session.messages)
        while not session.done:
            said = await self.client.ask(turn_prompt(messages, session.tools, seed), read_turn)
            step = session.step(action(said))
            messages += turn(said, step.observation, session.turns)

    async def close(self) -> None:
        """See `Player`."""
        await self.client.close()


def endpoint(options: Mapping[str, Any], at_once: int) -> Endpoint:
    """The player of a model's name and options.

    Args:
        options: `model`, and others of `OpenAIChat` and of `llm.settings.Settings`; how many
            requests are on the way at once follows from `at_once`.
        at_once: episodes side by side.

    Raises:
        ValueError: there is no such option, or one is out of range.
    """
    own = {one.name for one in fields(OpenAIChat) if one.init} - {"canary", "concurrency"}
    general = {one.name for one in fields(Settings)} - {"concurrency"}
    for name, value in options.items():
        if name not in own | general:
            known = ", ".join(sorted(own | general))
            raise ValueError(f"expected options among {known}; got {name!r}")
        kinds, wanted = _KINDS.get(name, (object, ""))
        if not isinstance(value, kinds):
            raise ValueError(f"{name}: expected {wanted}, got {value!r}")
        check(name, value)
    of_chat, of_client = (
        {**{one: options[one] for one in known & options.keys()}, "concurrency": at_once}
        for known in (own, general)
    )
    chat: Any = OpenAIChat(**of_chat)
    return Endpoint(Client(chat, Settings(**{"deadline_s": _DEADLINE_S, **of_client})), at_once)


def action(said: Said) -> str:
    """The text of a turn: thought, content, and the calls that its server took out of it."""
    # no thought ends early, whatever it is about
    thought = said.thought.replace("</think>", r"<\/think>")
    text = f"<think>\n{thought}\n</think>\n{said.content}" if thought else said.content
    return with_calls(text, [_named(call) for call in said.calls])


def turn(said: Said, observation: str, number: int) -> list[Message]:
    """A turn and the answer to it, as the model is shown them when it is asked again.

    Servers refuse chats whose calls they cannot read, and answers to calls that nobody made: a
    turn with broken calls is shown as text, and what is no call is answered as the user.

    Args:
        said: the turn.
        observation: what came of it.
        number: of the turn; calls whose server gave them no ids of their own are called after it.
    """
    if said.calls and all(_whole(call) for call in said.calls):
        ids = [call.get("id") for call in said.calls]
        if not all(isinstance(one, str) and one for one in ids) or len(set(ids)) < len(ids):
            # nine letters and digits, as the strictest servers want them
            ids = [f"call{number % 100:02d}{n % 1000:03d}" for n in range(len(ids))]
        calls = [{**call, "id": one} for call, one in zip(said.calls, ids, strict=True)]
        asked = {"role": "assistant", "content": said.content or None, "tool_calls": calls}
        answer = {"role": "tool", "content": observation}
        return [asked, *({**answer, "tool_call_id": one} for one in ids)]
    text = with_calls(said.content, [_named(call) for call in said.calls])
    # an empty turn is refused by some servers as well
    return [
        {"role": "assistant", "content": text or "(nothing)"},
        {"role": "user", "content": observation},
    ]


def _named(call: Mapping[str, Any]) -> tuple[str, str]:
    return call["function"]["name"], call["function"]["arguments"]


def _whole(call: Mapping[str, Any]) -> bool:
    """Whether a call has a name that tools may have, and its arguments are an object."""
    name, arguments = _named(call)
    try:
        return bool(_NAME.fullmatch(name)) and isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
