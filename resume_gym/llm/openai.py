"""Provider for OpenAI's chat API, hosted or local (`pip install resume-gym[openai]`)."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from resume_gym.llm import Answer, CutOff, Malformed, Misconfigured, ModelError, Prompt, Refused
from resume_gym.llm.http_errors import cut_off, failed, shown
from resume_gym.llm.sdk_provider import Pools, SDKProvider, are_counts

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

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
class OpenAI(SDKProvider["AsyncOpenAI"]):
    """Provider for servers with OpenAI's chat API; its other options are those of `SDKProvider`.

    `base_url` ends in "/v1"; None is OpenAI's server.

    Attributes:
        model: name of the model.
        extra_body: extra request fields, as `{"chat_template_kwargs": {"enable_thinking": false}}`.
        thinking_field: request field for `thinking_tokens`: "thinking_token_budget" for vLLM with
            a reasoning parser. None for servers without such a field, like OpenAI's.
        canary: send `CANARY` first, and reject a server that does not enforce its schema.
        key_name: environment variable of the API key; a server at `base_url` may need none.
    """

    model: str
    extra_body: Mapping[str, Any] | None = None
    thinking_field: str | None = None
    canary: bool = True
    key_name: str = "OPENAI_API_KEY"
    _unsound: Misconfigured | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name, self._key_names = f"openai/{self.model}", (self.key_name,)
        self._needs_key = self.base_url is None

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

    def _maker(self) -> "Callable[[httpx2.AsyncClient], AsyncOpenAI]":
        from openai import AsyncOpenAI

        def make(connections: "httpx2.AsyncClient") -> AsyncOpenAI:
            return AsyncOpenAI(
                api_key=self._key or "none",  # the SDK insists on a key
                base_url=self.base_url,
                timeout=self.timeout_s,
                max_retries=0,  # the client retries, within its limits
                http_client=connections,
            )

        return make

    async def _before_first(self, pools: "Pools[AsyncOpenAI]") -> None:
        """Check once whether the server enforces schemas."""
        if not self.canary:
            return
        if self._unsound:
            raise self._unsound
        try:
            text = (await self._send(pools, CANARY)).text
            sound = json.loads(text) in [{"colour": colour} for colour in _COLOURS]
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

    async def _request(self, client: "AsyncOpenAI", prompt: Prompt) -> "ChatCompletion":
        sampling = {} if self.temperature is None else {"temperature": self.temperature}
        thinking = {self.thinking_field: self.thinking_tokens} if self.thinking_field else {}
        system = {"role": "system", "content": prompt.system}
        messages, body = self._asks(prompt)
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [system, *messages],
            "max_completion_tokens": self.answer_tokens + self.thinking_tokens,
            # As separate parameters, these would make the SDK traverse every schema
            "extra_body": {**body, **thinking, **(self.extra_body or {})},
            **sampling,
        }
        completion: ChatCompletion = await client.chat.completions.create(**request)
        return completion

    def _asks(self, prompt: Prompt) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the messages after the system message, and the fields for the answer's format."""
        name = re.sub(r"[^\w-]", "_", prompt.kind, flags=re.ASCII)  # the API's character set
        schema = {"name": name, "strict": True, "schema": dict(prompt.schema)}
        form = {"type": "json_schema", "json_schema": schema}
        return [{"role": "user", "content": prompt.user}], {"response_format": form}

    def _failure(self, problem: Exception) -> ModelError:
        import openai

        if isinstance(problem, openai.APIStatusError):
            body = problem.body if isinstance(problem.body, Mapping) else {}
            reply = shown(body.get("message", problem.message), self._key)
            message = f"{self.name}: {problem.status_code}: {reply}"
            headers = problem.response.headers
            return failed(problem.status_code, message, headers, body, self.key_name)
        disconnected = isinstance(problem, openai.APIConnectionError)
        cause = problem.__cause__ if disconnected else None
        cause = cause if isinstance(cause, Exception) else problem
        return self._no_response(cause, (ValueError, openai.APIError), disconnected)

    def _answer(self, response: "ChatCompletion", seconds: float) -> Answer:
        try:  # the SDK does not validate responses
            choice = response.choices[0] if response.choices else None
            text = ("" if choice is None else choice.message.content) or ""
            refusal = None if choice is None else choice.message.refusal
            usage, served = response.usage, response.model or self.model
            spent = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
            fit = isinstance(text, str) and isinstance(served, str) and are_counts(spent)
        except (AttributeError, LookupError, TypeError):
            fit = False
        if not fit:
            raise Malformed(
                f"{self.name}: expected a chat completion, got {shown(response, self._key)!r}"
            )
        answer = Answer(text, served, *spent, seconds)
        if choice is None:
            raise Malformed(f"{self.name}: an answer without choices").after(answer)
        if refusal:
            raise Refused(f"{self.name}: refused: {shown(refusal, self._key)}").after(answer)
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
            message = f"{self.name}: ended by {choice.finish_reason}; {came}"
            raise Malformed(message).after(answer)
        return answer
