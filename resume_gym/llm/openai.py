"""Provider for OpenAI's chat API, hosted or local (`pip install -e .[openai]`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from resume_gym.llm import Answer, Malformed, ModelError, Prompt, Refused
from resume_gym.llm.http_errors import failed, shown
from resume_gym.llm.sdk_provider import SDKProvider, are_counts

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion


@dataclass
class OpenAI(SDKProvider):
    """Provider for servers with OpenAI's chat API, with the options of `SDKProvider`.

    `base_url` ends in "/v1"; None means OpenAI's own server. The server must enforce JSON schemas.

    Attributes:
        model: name of the model.
        extra_body: request fields, such as `{"chat_template_kwargs": {"enable_thinking": false}}`.
        thinking_field: name of the request field for `thinking_tokens`: "thinking_token_budget" for
            vLLM with a reasoning parser; None for servers without such a field, like OpenAI's.
        key_name: environment variable of the API key; a server at `base_url` may need no key.
    """

    sampled: ClassVar[tuple[str, ...]] = (
        *("answer_tokens", "thinking_tokens", "thinking_field"),
        *("temperature", "extra_body"),
    )
    model: str
    extra_body: Mapping[str, Any] | None = None
    thinking_field: str | None = None
    key_name: str = "OPENAI_API_KEY"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name, self._key_names = f"openai/{self.model}", (self.key_name,)
        self._needs_key = self.base_url is None

    def _connect(self, http: "httpx2.AsyncClient") -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=self._key or "none",  # the SDK requires a key, even if the server needs none
            base_url=self.base_url,
            timeout=None,
            max_retries=0,  # the client of this package retries, within its rate limits
            http_client=http,
        )

    async def _request(self, client: "AsyncOpenAI", prompt: Prompt) -> "ChatCompletion":
        sampling = {} if self.temperature is None else {"temperature": self.temperature}
        thinking = {self.thinking_field: self.thinking_tokens} if self.thinking_field else {}
        system = {"role": "system", "content": prompt.system}
        messages, body = self._asks(prompt)
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [system, *messages],
            "max_completion_tokens": self.answer_tokens + self.thinking_tokens,
            # `extra_body` holds the schema, since the SDK walks through all other parameters
            "extra_body": {**body, **thinking, **(self.extra_body or {})},
            **sampling,
        }
        completion: ChatCompletion = await client.chat.completions.create(**request)
        return completion

    def _asks(self, prompt: Prompt) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the messages after the system message, and the fields for the answer's format."""
        # OpenAI allows only ASCII letters, digits, "_" and "-" in the name of a schema
        name = re.sub(r"[^\w-]", "_", prompt.kind, flags=re.ASCII)
        schema = {"name": name, "strict": True, "schema": dict(prompt.schema)}
        form = {"type": "json_schema", "json_schema": schema}
        return [{"role": "user", "content": prompt.user}], {"response_format": form}

    def _failure(self, problem: BaseException) -> ModelError | None:
        import openai

        if isinstance(problem, openai.APIStatusError):
            body = problem.body if isinstance(problem.body, Mapping) else {}
            reply = shown(body.get("message", problem.message), self._key)
            message = f"{self.name}: {problem.status_code}: {reply}"
            headers = problem.response.headers
            return failed(problem.status_code, message, headers, body, self.key_name)
        # the response does not follow OpenAI's protocol
        if isinstance(problem, ValueError | openai.APIError):
            return Malformed(f"{self.name}: {type(problem).__name__}: {shown(problem, self._key)}")
        return None

    def _answer(self, response: "ChatCompletion", seconds: float) -> Answer:
        try:  # the SDK does not validate responses
            completion = response.model_dump(exclude_none=True, warnings=False)
            choice: dict[str, Any] = (completion.get("choices") or [{}])[0]
            message = choice["message"] if choice else {}
            text, model = self._text(message), completion.get("model") or self.model
            usage = completion.get("usage", {})
            # no prompt has 0 tokens: a server that reports 0 does not count them
            spent = usage.get("prompt_tokens") or None, usage.get("completion_tokens")
            reported = [count for count in spent if count is not None]
            fit = isinstance(text, str) and isinstance(model, str) and are_counts(reported)
        except (AttributeError, LookupError, TypeError, ValueError):
            fit = False
        if not fit:
            raise Malformed(
                f"{self.name}: expected a chat completion, got {shown(response, self._key)!r}"
            )
        answer = Answer(text, model, *spent, seconds)
        if not choice:
            raise Malformed(f"{self.name}: the answer has no choices").after(answer)
        if choice.get("finish_reason") == "content_filter":
            raise Refused(f"{self.name}: refused: content_filter").after(answer)
        self._check_end(choice.get("finish_reason"), message, usage, answer)
        return answer

    def _text(self, message: Mapping[str, Any]) -> str:
        """Return the text of a message; a malformed one raises exceptions that callers handle."""
        text: str = message.get("content", "")
        return text

    def _check_end(
        self,
        end: object,
        message: Mapping[str, object],
        usage: Mapping[str, object],
        answer: Answer,
    ) -> None:
        """Raise a `ModelError` if the answer is not complete."""
        if refusal := message.get("refusal"):
            raise Refused(f"{self.name}: refused: {shown(refusal, self._key)}").after(answer)
        if end == "length":
            details = usage.get("completion_tokens_details")
            thought = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
            raise self._cut_off(thought).after(answer)
        if end != "stop" or not answer.text:
            came = f"the text has {len(answer.text)} characters"
            raise Malformed(f"{self.name}: finish reason {end}; {came}").after(answer)
