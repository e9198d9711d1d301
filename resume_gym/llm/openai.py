"""Provider for OpenAI's chat API, hosted or local (`pip install resume-gym[openai]`)."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from resume_gym.llm import (
    Answer,
    CutOff,
    Malformed,
    Misconfigured,
    ModelError,
    Prompt,
    Refused,
    Unavailable,
)
from resume_gym.llm.failures import cut_off, failed, read_key, shown

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

    from resume_gym.llm.connections import Pools

_COLOURS = ("red", "green")
CANARY = Prompt(
    system="You copy what you are told to, whatever it is.",
    user='Reply with this JSON object, exactly: {"colour": "blue"}',
    schema={
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": list(_COLOURS)}},
        "required": ["colour"],
        "additionalProperties": False,
    },
    kind="canary",
)
"""Requests an answer that its schema forbids: a server that enforces schemas cannot return it."""


@dataclass
class OpenAI:
    """Provider for servers with OpenAI's chat API.

    Attributes:
        model: name of the model.
        base_url: address of the server, with "/v1"; None for OpenAI's.
        extra_body: extra request fields, as `{"chat_template_kwargs": {"enable_thinking": false}}`.
        answer_tokens: token budget of the answer.
        thinking_tokens: token budget for thinking before the answer. The server gets only the sum,
            unless `thinking_field` is set: longer thinking leaves fewer tokens for the answer.
        thinking_field: request field for `thinking_tokens`: "thinking_token_budget" for vLLM with
            a reasoning parser. None for servers without such a field, like OpenAI's.
        temperature: None for the server's default.
        timeout_s: timeout of one request, from start to end, in seconds.
        concurrency: number of concurrent requests for which connections are kept.
        canary: send `CANARY` first, and reject a server that does not enforce its schema.
        key_name: environment variable of the API key; a server at `base_url` may need none.
    """

    model: str
    base_url: str | None = None
    extra_body: Mapping[str, Any] | None = None
    answer_tokens: int = 2048
    thinking_tokens: int = 4096
    thinking_field: str | None = None
    temperature: float | None = None
    timeout_s: float = 60.0
    concurrency: int = 64
    canary: bool = True
    key_name: str = "OPENAI_API_KEY"
    _clients: "Pools[AsyncOpenAI] | None" = field(default=None, init=False, repr=False)
    _key: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        self.name = f"openai/{self.model}"
        self._connecting = asyncio.Lock()
        self._unsound: Misconfigured | None = None

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Parameters that affect the answers, besides prompt and model."""
        return {
            "answer_tokens": self.answer_tokens,
            "thinking_tokens": self.thinking_tokens,
            "thinking_field": self.thinking_field,
            "temperature": self.temperature,
            "extra_body": self.extra_body,
        }

    async def send(self, prompt: Prompt) -> Answer:
        """See `resume_gym.llm.Provider`."""
        async with self._connecting:
            if self._clients is None:
                self._clients = await asyncio.to_thread(self._connect)  # the import takes seconds
            clients = self._clients
            if self.canary:
                await self._test(clients)
        return await self._send(clients, prompt)

    async def close(self) -> None:
        """See `resume_gym.llm.Provider`."""
        clients, self._clients = self._clients, None
        for client in clients.clients if clients else ():
            await client.close()

    def _connect(self) -> "Pools[AsyncOpenAI]":
        try:
            import httpx2
            from openai import AsyncOpenAI

            from resume_gym.llm.connections import Pools
        except ImportError as problem:
            raise Misconfigured(f"{self.name}: {problem}; pip install resume-gym[openai]") from None
        self._key = read_key([self.key_name], self.name)
        if not self._key and self.base_url is None:
            raise Misconfigured(f"{self.name}: expected a key in {self.key_name}; it is not set")

        def make(connections: httpx2.AsyncClient) -> AsyncOpenAI:
            return AsyncOpenAI(
                api_key=self._key or "none",  # the SDK insists on a key
                base_url=self.base_url,
                timeout=self.timeout_s,
                max_retries=0,  # the client retries, within its limits
                http_client=connections,
            )

        return Pools(make, self.concurrency)

    async def _test(self, clients: "Pools[AsyncOpenAI]") -> None:
        """Check once whether the server enforces schemas."""
        if self._unsound:
            raise self._unsound
        try:
            text = (await self._send(clients, CANARY)).text
            sound = json.loads(text) in [{"colour": one} for one in _COLOURS]
        except CutOff:
            raise  # a truncated answer proves nothing about schemas
        except (Malformed, Refused) as problem:
            sound, text = False, str(problem)
        except ValueError:
            sound = False
        if not sound:
            self._unsound = Misconfigured(
                f"{self.name}: the server does not enforce JSON schemas: it was to answer "
                f"{' or '.join(_COLOURS)}, and came up with {shown(text, self._key)!r}; take one "
                "with structured output, or say canary=False and have more answers refused"
            )
            raise self._unsound
        self.canary = False

    async def _send(self, clients: "Pools[AsyncOpenAI]", prompt: Prompt) -> Answer:
        began = time.perf_counter()
        try:
            with clients.one() as client:
                async with asyncio.timeout(self.timeout_s):
                    response = await client.chat.completions.create(**self._request(prompt))
        except TimeoutError:
            raise Unavailable(f"{self.name}: a request took {self.timeout_s:g} s") from None
        except Exception as problem:
            raise self._failure(problem) from None  # the SDK's exception may contain the key
        return self._answer(response, time.perf_counter() - began)

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        sampling = {} if self.temperature is None else {"temperature": self.temperature}
        thinking = {self.thinking_field: self.thinking_tokens} if self.thinking_field else {}
        system = {"role": "system", "content": prompt.system}
        messages, body = self._asks(prompt)
        return {
            "model": self.model,
            "messages": [system, *messages],
            "max_completion_tokens": self.answer_tokens + self.thinking_tokens,
            # As separate parameters, these would make the SDK traverse every schema
            "extra_body": {**body, **thinking, **(self.extra_body or {})},
            **sampling,
        }

    def _asks(self, prompt: Prompt) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the messages after the system message, and the fields for the answer's format."""
        name = re.sub(r"[^\w-]", "_", prompt.kind, flags=re.ASCII)  # the API's character set
        schema = {"name": name, "strict": True, "schema": dict(prompt.schema)}
        form = {"type": "json_schema", "json_schema": schema}
        return [{"role": "user", "content": prompt.user}], {"response_format": form}

    def _failure(self, problem: Exception) -> ModelError:
        import httpx2
        import openai

        if isinstance(problem, openai.APIStatusError):
            body = problem.body if isinstance(problem.body, Mapping) else {}
            said = shown(body.get("message", problem.message), self._key)
            told = f"{self.name}: {problem.status_code}: {said}"
            return failed(problem.status_code, told, problem.response.headers, body, self.key_name)
        cause = problem.__cause__ if isinstance(problem, openai.APIConnectionError) else None
        cause = cause or problem
        told = f"{self.name}: {type(cause).__name__}: {shown(cause, self._key)}"
        if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return Misconfigured(f"{told}; check base_url, {self.base_url!r}")
        if isinstance(problem, openai.APIConnectionError | httpx2.TransportError):
            return Unavailable(f"{told} at {self.base_url}" if self.base_url else told)
        if isinstance(problem, ValueError | openai.APIError | httpx2.HTTPError):
            return Malformed(told)  # status 200, but not OpenAI's protocol
        raise problem

    def _answer(self, response: "ChatCompletion", seconds: float) -> Answer:
        """Convert a response; raise if it holds no complete answer."""
        try:  # the SDK does not validate responses
            choice = response.choices[0] if response.choices else None
            text = (choice.message.content if choice else None) or ""
            refusal = choice.message.refusal if choice else None
            usage = response.usage
            spent = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
            fit = isinstance(text, str) and all(isinstance(count, int) for count in spent)
        except (AttributeError, LookupError, TypeError):
            fit = False
        if not fit:
            raise Malformed(f"{self.name}: expected a chat completion, got {shown(response)!r}")
        answer = Answer(text, response.model or self.model, *spent, seconds)
        if choice is None:
            raise Malformed(f"{self.name}: an answer without choices").after(answer)
        if refusal:
            raise Refused(f"{self.name}: refused: {shown(refusal)}").after(answer)
        if choice.finish_reason == "content_filter":
            raise Refused(f"{self.name}: refused: content_filter").after(answer)
        if choice.finish_reason == "length":
            details = getattr(usage, "completion_tokens_details", None)
            thought = getattr(details, "reasoning_tokens", None)
            thought = thought if isinstance(thought, int) else None
            budgets = self.answer_tokens, self.thinking_tokens
            raise cut_off(self.name, text, thought, *budgets).after(answer)
        if choice.finish_reason != "stop" or not text:
            came = f"{len(text)} characters came"
            told = f"{self.name}: ended by {choice.finish_reason}; {came}"
            raise Malformed(told).after(answer)
        return answer
