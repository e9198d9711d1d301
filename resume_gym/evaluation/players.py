"""Players of episodes: `Scripted` agents, and models behind an OpenAI-compatible `Endpoint`.

`play` plays an episode of a scripted agent; `converse` divides an episode's turns among endpoints.
The player of local models, in `learners.rollouts.model_player`, also implements `Player`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from resume_gym.episode.editing import AnySession
from resume_gym.episode.tools import Toolbox, ToolCall, with_calls
from resume_gym.evaluation.guided import (
    Prompting,
    demonstration,
    fenced,
    find_call,
    guide,
    read_prompting,
)
from resume_gym.llm import Usage
from resume_gym.llm.client import Client, client_of
from resume_gym.llm.openai_chat import OpenAIChat, Said, read_turn, turn_prompt

S = TypeVar("S", bound=AnySession)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DEADLINE_S = 600.0  # seconds per turn; longer than for a verdict, since agents may reason
# number of a turn's calls that the chat repeats: a turn with several calls fails, and each later
# request would carry thousands of calls and their answers
_REPEATED_CALLS = 8
Message = dict[str, Any]
"""A chat message in OpenAI's format."""


def play(agent: Callable[[S], str], session: S) -> S:
    """Play a session to its end with a scripted agent; return the session without judging it."""
    while not session.done:
        session.step(agent(session))
    return session


class Player(Protocol):
    """Player of concurrent episodes: while one episode waits for I/O, the others continue.

    Attributes:
        max_concurrency: recommended number of concurrent episodes.
    """

    max_concurrency: int

    async def play(self, session: AnySession, seed: int) -> None:
        """Play a new session to its end, without grading it.

        Args:
            session: session before its first step.
            seed: seed of the episode; players that cannot be seeded ignore it.

        Raises:
            ModelError: the episode failed; if it is a `Misconfigured`, every episode will fail.
        """
        ...

    async def close(self) -> None:
        """Release the player's connections and memory."""
        ...


class Scripted:
    """Player of a scripted agent.

    Args:
        make: function that creates the agent of one episode from a seed.
    """

    max_concurrency = 256

    def __init__(self, make: Callable[[int], Callable[[Any], str]]) -> None:
        self._make = make

    async def play(self, session: AnySession, seed: int) -> None:
        """See `Player.play`."""
        play(self._make(seed), session)

    async def close(self) -> None:
        """See `Player.close`; there is nothing to release."""


class Endpoint:
    """Player of a model behind a server, by default with native tool calls.

    A response is converted to the text that a local policy would have written. The session parses
    this text and decides whether the turn is malformed, for example if it has several calls.

    Args:
        client: client of the model.
        max_concurrency: recommended number of concurrent episodes.
        prompting: "plain" sends tool schemas; "guided" reads calls from text, see `guided.py`.
    """

    def __init__(
        self, client: Client, max_concurrency: int, prompting: Prompting = "plain"
    ) -> None:
        self.client = client
        self.max_concurrency = max_concurrency
        self._guided = prompting == "guided"

    @property
    def usage(self) -> dict[str, Usage]:
        """Requests, tokens and cost of the model so far, under the key "agent"."""
        return {"agent": self.client.usage}

    async def play(self, session: AnySession, seed: int) -> None:
        """See `Player.play`. `seed` is not sent, but is part of the key of stored answers."""
        await converse(session, seed, [self], lambda: self)

    def opening(self, session: AnySession) -> list[Message]:
        """Return the first messages of the chat."""
        if not self._guided:
            return list(session.messages)
        task, turns = demonstration()
        messages = [("system", guide(session.system_prompt)), ("user", task)]
        for call, observation in turns:
            messages += [("assistant", call), ("user", observation)]
        messages[-1] = ("user", f"{messages[-1][1]}\n\n{session.prompt}")
        return [{"role": role, "content": content} for role, content in messages]

    async def ask(self, session: AnySession, chat: list[Message], seed: int) -> Said:
        """Return the model's next turn, or raise an error of `Client.ask`."""
        tools = () if self._guided else session.tools
        said = await self.client.ask(turn_prompt(chat, tools, seed), read_turn)
        if self._guided and not said.calls and (call := find_call(said.content)):
            said = Said("", call, ())
        return said

    def translated(self, said: Said, toolbox: Toolbox) -> Said:
        """Return a turn of another model in a form that this model's server accepts.

        The ID and extra fields of a call are removed, since a server may reject those of another
        server. A call written as text becomes a native call, so that the model imitates native
        calls. Guided models get calls only as text.
        """
        text = with_calls(said.content, [_named(call) for call in said.calls])
        call = toolbox.read(text)
        if self._guided or not isinstance(call, ToolCall):
            return Said("", text, ())
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
        function = {"name": call.name, "arguments": arguments}
        content = said.content if said.calls else ""
        return Said("", content, [{"type": "function", "function": function}])

    def shown(self, said: Said) -> Said:
        """Return a turn for the chat history, with the calls of a guided model as fenced JSON."""
        return said._replace(content=fenced(said.content)) if self._guided else said

    async def close(self) -> None:
        """See `Player.close`."""
        await self.client.close()


async def converse(
    session: AnySession,
    seed: int,
    endpoints: Sequence[Endpoint],
    choose: Callable[[], Endpoint],
) -> None:
    """Play a session to its end with models that share its turns.

    Args:
        session: session before its first step.
        seed: seed of the episode; see `Endpoint.play`.
        endpoints: the models; each has a separate chat with all turns.
        choose: function that returns the model of the next turn.

    Raises:
        ModelError: the model of a turn failed; no other model replaces it.
    """
    chats = [one.opening(session) for one in endpoints]
    while not session.done:
        chosen = choose()
        said = await chosen.ask(session, chats[endpoints.index(chosen)], seed)
        step = session.step(action(said))
        said = said._replace(calls=said.calls[:_REPEATED_CALLS])
        for one, chat in zip(endpoints, chats, strict=True):
            own = said if one is chosen else one.translated(said, session.toolbox)
            chat += turn(one.shown(own), step.observation, session.turns)


def endpoint(options: Mapping[str, object], max_concurrency: int) -> Endpoint:
    """Make an endpoint from the options of an agent spec.

    Args:
        options: `model`, `prompting`, the options of `OpenAIChat`, and those of
            `llm.settings.Settings` other than `concurrency`.
        max_concurrency: maximum number of concurrent episodes, and of concurrent requests.

    Raises:
        ValueError: an option is unknown or out of range, or the API key is missing.
    """
    given = {"deadline_s": _DEADLINE_S, **options}
    prompting = read_prompting(given)
    given.pop("prompting", None)
    client = client_of(OpenAIChat, given, concurrency=max_concurrency)
    return Endpoint(client, max_concurrency, prompting)


def action(said: Said) -> str:
    """Return a turn as the text of an action: thought, content, and tool calls as text."""
    # a closing tag in the thought would end the thought early
    thought = said.thought.replace("</think>", r"<\/think>")
    text = f"<think>\n{thought}\n</think>\n{said.content}" if thought else said.content
    return with_calls(text, [_named(call) for call in said.calls])


def turn(said: Said, observation: str, number: int) -> list[Message]:
    """Convert a turn and its observation to chat messages in OpenAI's format.

    Servers reject chats with invalid tool calls, and tool messages without a tool call. A turn that
    has no call or an invalid call is therefore sent as text, and its observation as a user message.

    Args:
        said: turn of the model, as an assistant message.
        observation: observation after the turn.
        number: number of the turn, part of the call ids that replace missing or repeated ids.
    """
    if said.calls and all(_whole(call) for call in said.calls):
        ids = [call.get("id") for call in said.calls]
        if not all(isinstance(id_, str) and id_ for id_ in ids) or len(set(ids)) < len(ids):
            # call ids of exactly nine letters and digits, as the strictest servers require
            ids = [f"call{number % 100:02d}{n % 1000:03d}" for n in range(len(ids))]
        calls = [{**call, "id": id_} for call, id_ in zip(said.calls, ids, strict=True)]
        assistant = {"role": "assistant", "content": said.content or None, "tool_calls": calls}
        answer = {"role": "tool", "content": observation}
        return [assistant, *({**answer, "tool_call_id": id_} for id_ in ids)]
    text = with_calls(said.content, [_named(call) for call in said.calls])
    # some servers reject an empty assistant message
    return [
        {"role": "assistant", "content": text or "(nothing)"},
        {"role": "user", "content": observation},
    ]


def _named(call: Mapping[str, Any]) -> tuple[str, str]:
    return call["function"]["name"], call["function"]["arguments"]


def _whole(call: Mapping[str, object]) -> bool:
    """Return whether a call has a valid tool name and a JSON object as arguments."""
    name, arguments = _named(call)
    try:
        return bool(_NAME.fullmatch(name)) and isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False
