"""Provider for Google's Gemini, through its SDK (`pip install -e .[gemini]`)."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resume_gym.llm import Answer, Malformed, ModelError, Prompt, Refused
from resume_gym.llm.http_errors import failed, shown
from resume_gym.llm.sdk_provider import SDKProvider, are_counts

if TYPE_CHECKING:
    import httpx2
    from google import genai
    from google.genai import types

KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Environment variables for the API key; the first one that is set is used."""
THINKING = ("minimal", "low", "medium", "high")
_REFUSALS = {
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"),
    *("ESCALATION", "MODEL_ARMOR", "PUP_LIMITED_DISABLED"),
}


@dataclass
class Gemini(SDKProvider):
    """Provider for Gemini models, with the options of `SDKProvider`.

    Google recommends the default temperature for Gemini 3.

    Attributes:
        model: name of the model.
        thinking: thinking level, one of `THINKING`; None for models without levels, such as Gemini
            2.5, which get the token budget `thinking_tokens` instead.

    Raises:
        ValueError: the thinking level is unknown.
    """

    sampled = ("thinking", "answer_tokens", "thinking_tokens", "temperature")
    model: str = "gemini-3-flash-preview"
    thinking: str | None = "low"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thinking is not None and self.thinking not in THINKING:
            raise ValueError(
                f"thinking: expected one of {', '.join(THINKING)} or None, got {self.thinking!r}"
            )
        self.name, self._key_names = f"gemini/{self.model}", KEYS

    def _connect(self, http: "httpx2.AsyncClient") -> "genai.Client":
        from google import genai
        from google.genai import types

        # this warning of the SDK quotes the server's reply, which may contain the API key
        warnings.filterwarnings("ignore", ".* is not a valid", module=r"google\.genai")
        # Without our HTTP client, the SDK uses aiohttp and does not limit the size of answers
        options = types.HttpOptions(base_url=self.base_url, httpx_async_client=http)
        return genai.Client(api_key=self._key, vertexai=False, http_options=options)

    async def _request(
        self, client: "genai.Client", prompt: Prompt
    ) -> "types.GenerateContentResponse":
        return await client.aio.models.generate_content(
            model=self.model, contents=prompt.user, config=self._config(prompt)
        )

    def _config(self, prompt: Prompt) -> "types.GenerateContentConfig":
        from google.genai import types

        thinking: dict[str, Any] = {"thinking_budget": self.thinking_tokens}
        if self.thinking:
            thinking = {"thinking_level": types.ThinkingLevel(self.thinking.upper())}
        return types.GenerateContentConfig(
            system_instruction=prompt.system,
            response_mime_type="application/json",
            response_json_schema=dict(prompt.schema),  # Gemini 2.5+ keeps the schema's order
            thinking_config=types.ThinkingConfig(**thinking),
            max_output_tokens=self.answer_tokens + self.thinking_tokens,
            temperature=self.temperature,
            # The SDK must not send further requests, since the client would not pace them
            automatic_continuation=False,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )

    def _failure(self, problem: BaseException) -> ModelError | None:
        from google.genai import errors

        if isinstance(problem, errors.APIError):
            reply = shown(problem.message or problem.details, self._key)
            headers = getattr(problem.response, "headers", None) or {}
            message = f"{self.name}: {problem.code}: {reply}"
            return failed(problem.code, message, headers, problem.details, " or ".join(KEYS))
        # the response does not follow Gemini's protocol
        if isinstance(problem, ValueError | TypeError):
            return Malformed(f"{self.name}: {type(problem).__name__}: {shown(problem, self._key)}")
        return None

    def _answer(self, response: "types.GenerateContentResponse", seconds: float) -> Answer:
        usage = response.usage_metadata  # any field of this object may be missing
        thought = usage and usage.thoughts_token_count
        tokens_in = tokens_out = None
        if usage and usage.prompt_token_count:  # no prompt has 0 tokens: 0 means not counted
            tokens_in = usage.prompt_token_count
            tokens_out = (usage.candidates_token_count or 0) + (thought or 0)  # Gemini omits 0
            if not are_counts((tokens_in, tokens_out)):
                counts = shown((tokens_in, usage.candidates_token_count, thought))
                raise Malformed(f"{self.name}: expected token counts, got {counts}")
        candidate = response.candidates[0] if response.candidates else None
        parts = (candidate.content and candidate.content.parts) if candidate else None
        text = "".join(part.text or "" for part in parts or () if not part.thought)
        served = response.model_version or self.model
        answer = Answer(text, served, tokens_in, tokens_out, seconds)
        if (feedback := response.prompt_feedback) and feedback.block_reason:
            raise Refused(f"{self.name}: blocked: {feedback.block_reason.value}").after(answer)
        if candidate is None:
            raise Malformed(f"{self.name}: the answer has no candidates").after(answer)
        reason = candidate.finish_reason.value if candidate.finish_reason else "missing"
        if reason in _REFUSALS:
            raise Refused(f"{self.name}: refused: {reason}").after(answer)
        if reason == "MAX_TOKENS":
            raise self._cut_off(thought).after(answer)
        if reason != "STOP" or not text:
            came = f"the text has {len(text)} characters"
            raise Malformed(f"{self.name}: finish reason {reason}; {came}").after(answer)
        return answer
