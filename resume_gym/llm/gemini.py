"""Provider for Google's Gemini, through its SDK (`pip install resume-gym[gemini]`)."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from resume_gym.llm import (
    Answer,
    Malformed,
    Misconfigured,
    ModelError,
    Prompt,
    Refused,
    Unavailable,
)
from resume_gym.llm.failures import cut_off, failed, read_key, shown

if TYPE_CHECKING:
    from google import genai
    from google.genai import types

    from resume_gym.llm.connections import Pools

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Environment variables for the API key; the first one that is set is used."""
THINKING = ("minimal", "low", "medium", "high")
_PATIENCE_MS = 10_000  # the server rejects shorter timeouts
_REFUSALS = {
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"),
    *("ESCALATION", "MODEL_ARMOR", "PUP_LIMITED_DISABLED"),
}


@dataclass
class Gemini:
    """Provider for Gemini models.

    Attributes:
        model: name of the model.
        thinking: thinking level, one of `THINKING`; None for models that take a token budget
            instead, such as Gemini 2.5, which is then `thinking_tokens`. No model takes both.
        api_version: API version ("v1beta"); None for the SDK's default.
        base_url: address of another server with the same protocol.
        answer_tokens: token budget of the answer.
        thinking_tokens: token budget for thinking before the answer. With a thinking level the
            server limits only the sum: longer thinking leaves fewer tokens for the answer.
        temperature: None for the model's default, which Google recommends for Gemini 3.
        timeout_s: timeout of one request, from start to end, in seconds.
        concurrency: number of concurrent requests for which connections are kept.

    Raises:
        ValueError: the thinking level is unknown.
    """

    model: str = "gemini-3-flash-preview"
    thinking: str | None = "low"
    api_version: str | None = None
    base_url: str | None = None
    answer_tokens: int = 2048
    thinking_tokens: int = 4096
    temperature: float | None = None
    timeout_s: float = 60.0
    concurrency: int = 64
    _clients: "Pools[genai.Client] | None" = field(default=None, init=False, repr=False)
    _key: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        if self.thinking is not None and self.thinking not in THINKING:
            raise ValueError(
                f"thinking: expected one of {', '.join(THINKING)} or None, got {self.thinking!r}"
            )
        self.name = f"gemini/{self.model}"
        self._connecting = asyncio.Lock()

    @property
    def sampling(self) -> Mapping[str, Any]:
        """Parameters that affect the answers, besides prompt and model."""
        return {
            "thinking": self.thinking,
            "answer_tokens": self.answer_tokens,
            "thinking_tokens": self.thinking_tokens,
            "temperature": self.temperature,
        }

    async def send(self, prompt: Prompt) -> Answer:
        """See `resume_gym.llm.Provider`."""
        async with self._connecting:
            if self._clients is None:
                self._clients = await asyncio.to_thread(self._connect)  # the import takes seconds
            clients = self._clients
        began = time.perf_counter()
        try:
            with clients.one() as client:
                async with asyncio.timeout(self.timeout_s):
                    response = await client.aio.models.generate_content(
                        model=self.model, contents=prompt.user, config=self._config(prompt)
                    )
        except TimeoutError:
            raise Unavailable(f"{self.name}: a request took {self.timeout_s:g} s") from None
        except Exception as problem:
            raise self._failure(problem) from None  # the SDK's exception may contain the key
        return self._answer(response, time.perf_counter() - began)

    async def close(self) -> None:
        """See `resume_gym.llm.Provider`."""
        clients, self._clients = self._clients, None
        for client in clients.clients if clients else ():
            await client.aio.aclose()

    def _connect(self) -> "Pools[genai.Client]":
        try:
            import httpx2
            from google import genai
            from google.genai import types

            from resume_gym.llm.connections import Pools
        except ImportError as problem:
            raise Misconfigured(f"{self.name}: {problem}; pip install resume-gym[gemini]") from None
        self._key = read_key(KEYS, self.name)
        if not self._key:
            raise Misconfigured(f"{self.name}: expected a key in {' or '.join(KEYS)}; none is set")

        def make(connections: httpx2.AsyncClient) -> genai.Client:
            # Without an HTTP client, the SDK uses aiohttp, with no limit on connections
            options = types.HttpOptions(
                base_url=self.base_url,
                api_version=self.api_version,
                timeout=max(_PATIENCE_MS, round(1000 * self.timeout_s)),
                httpx_async_client=connections,
                httpx_client=unused,
            )
            return genai.Client(api_key=self._key, vertexai=False, http_options=options)

        unused = httpx2.Client(trust_env=False)  # else the SDK creates one for each client
        try:
            return Pools(make, self.concurrency)
        except ValueError as problem:
            raise Misconfigured(f"{self.name}: {shown(problem, self._key)}") from None

    def _config(self, prompt: Prompt) -> "types.GenerateContentConfig":
        from google.genai import types

        thinking: dict[str, Any] = {"thinking_budget": self.thinking_tokens}
        if self.thinking:
            thinking = {"thinking_level": types.ThinkingLevel(self.thinking.upper())}
        return types.GenerateContentConfig(
            system_instruction=prompt.system,
            response_mime_type="application/json",
            response_json_schema=ordered(prompt.schema),
            thinking_config=types.ThinkingConfig(**thinking),
            max_output_tokens=self.answer_tokens + self.thinking_tokens,
            temperature=self.temperature,
            # The SDK must not send further requests itself: they would escape pacing
            automatic_continuation=False,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )

    def _failure(self, problem: Exception) -> ModelError:
        import httpx2
        from google.genai import errors

        if isinstance(problem, errors.APIError):
            said = shown(problem.message or problem.details, self._key)
            headers = getattr(problem.response, "headers", None) or {}
            told = f"{self.name}: {problem.code}: {said}"
            return failed(problem.code, told, headers, problem.details, " or ".join(KEYS))
        told = f"{self.name}: {type(problem).__name__}: {shown(problem, self._key)}"
        if isinstance(problem, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return Misconfigured(f"{told}; check base_url, {self.base_url!r}")
        if isinstance(problem, httpx2.TransportError):
            return Unavailable(f"{told} at {self.base_url}" if self.base_url else told)
        if isinstance(problem, ValueError | TypeError | RecursionError | httpx2.HTTPError):
            return Malformed(told)  # status 200, but not Gemini's protocol
        raise problem

    def _answer(self, response: "types.GenerateContentResponse", seconds: float) -> Answer:
        """Convert a response; raise if it holds no complete answer."""
        usage = response.usage_metadata  # any field may be missing
        counts = (
            (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count)
            if usage
            else ()
        )
        tokens_in, *written = [count or 0 for count in counts] or [0]
        candidate = response.candidates[0] if response.candidates else None
        parts = (candidate.content and candidate.content.parts) if candidate else None
        text = "".join(one.text or "" for one in parts or () if not one.thought)
        served = response.model_version or self.model
        answer = Answer(text, served, tokens_in, sum(written), seconds)
        if (feedback := response.prompt_feedback) and feedback.block_reason:
            raise Refused(f"{self.name}: blocked: {feedback.block_reason.value}").after(answer)
        if candidate is None:
            raise Malformed(f"{self.name}: an answer without candidates").after(answer)
        reason = candidate.finish_reason.value if candidate.finish_reason else "STOP"
        if reason in _REFUSALS:
            raise Refused(f"{self.name}: refused: {reason}").after(answer)
        if reason == "MAX_TOKENS":
            thought = usage.thoughts_token_count if usage else None
            budgets = self.answer_tokens, self.thinking_tokens
            raise cut_off(self.name, text, thought, *budgets).after(answer)
        if reason != "STOP" or not text:
            came = f"{len(text)} characters came"
            raise Malformed(f"{self.name}: ended by {reason}; {came}").after(answer)
        return answer


def ordered(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Add Gemini's `propertyOrdering` to a schema, so that the answer keeps the schema's order."""

    def walk(value: Any) -> Any:
        if isinstance(value, Mapping):
            found = {name: walk(one) for name, one in value.items()}
            if isinstance(value.get("properties"), Mapping):
                found["propertyOrdering"] = list(value["properties"])
            return found
        return [walk(one) for one in value] if isinstance(value, list | tuple) else value

    found: dict[str, Any] = walk(schema)
    return found
