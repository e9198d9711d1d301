"""Log-probabilities of sampled tokens by a teacher model on a vLLM server."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import aiohttp

from learners.engines import EngineError
from learners.engines.api_key import headers
from learners.errors import ConfigError
from learners.rollouts.rollout import Rollout
from learners.rollouts.tokens import ChatTokens

_RETRY_S = 0.5
_BAD_REQUEST, _TOO_MANY_REQUESTS, _SERVER_ERROR = 400, 429, 500
_LOWEST, _ROUNDING = -1e6, 1e-3  # log-probabilities; rounding errors may lift one above 0


async def ask(rollouts: Sequence[Rollout], url: str, chat: ChatTokens, timeout_s: float) -> None:
    """Set `teacher` of each rollout, from the prompt log-probabilities of a vLLM server.

    Args:
        rollouts: played rollouts.
        url: address of the server, whose API key is that of the engine's servers.
        chat: encoder of the policy.
        timeout_s: time limit for all answers in seconds, including retries.

    Raises:
        ConfigError: the teacher's tokenizer differs from the policy's.
        EngineError: the server did not answer in time, refused a request, or gave a wrong answer.
    """
    server = _Server(url)

    async def score(rollout: Rollout) -> None:
        ids = rollout.prompt + rollout.response
        body = {"model": model, "prompt": ids, "max_tokens": 1, "prompt_logprobs": 0}
        answer = await server.call("v1/completions", body)
        with _expected(f"a log-probability of each token from {url}"):
            rollout.teacher = _logprobs(answer, ids)[len(rollout.prompt) - 1 :]

    with suppress(TimeoutError):
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(
                headers=headers(), timeout=aiohttp.ClientTimeout(total=None)
            ) as server.client,
        ):
            answer = await server.call("v1/models")
            with _expected(f"the name of a model from {url}/v1/models"):
                model = answer["data"][0]["id"]
            text = rollouts[0].session.prompt
            body = {"model": model, "prompt": text, "add_special_tokens": False}
            answer = await server.call("tokenize", body)
            with _expected(f"token ids from {url}/tokenize"):
                tokens = answer["tokens"]
            if tokens != chat.write(text)[:-1]:
                raise ConfigError(f"teacher: expected the policy's tokenizer, {url} has another")
            await asyncio.gather(*map(score, rollouts))
            return
    raise EngineError(f"teacher: no answer of {url} within {timeout_s:.0f} s; {server.problem}")


class _Server:
    """A vLLM server; `problem` is why the latest request failed."""

    client: aiohttp.ClientSession

    def __init__(self, url: str) -> None:
        self.url = url
        self.problem = "no request was made"

    async def call(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        """Return the answer to a request, which is repeated until the server answers."""
        method, address = "GET" if body is None else "POST", f"{self.url}/{path}"
        while True:
            try:
                async with self.client.request(method, address, json=body) as answer:
                    if answer.ok:
                        with _expected(f"JSON from {address}"):
                            return json.loads(await answer.read())
                    self.problem = f"status {answer.status}: {(await answer.text())[:300]}"
                    refused = _BAD_REQUEST <= answer.status < _SERVER_ERROR
                    if refused and answer.status != _TOO_MANY_REQUESTS:
                        told = f"{self.url} refused a request; {self.problem}"
                        raise EngineError(f"teacher: {told}")
            except (aiohttp.ClientError, OSError) as error:
                self.problem = str(error) or type(error).__name__
            await asyncio.sleep(_RETRY_S)


def _logprobs(answer: Any, ids: Sequence[int]) -> list[float]:
    """Return the log-probabilities of all tokens but the first, which has none."""
    (choice,) = answer["choices"]
    places = choice["prompt_logprobs"][1:]
    known = [place[str(token)]["logprob"] for token, place in zip(ids[1:], places, strict=True)]
    for value in known:
        if type(value) not in (int, float) or not _LOWEST <= value <= _ROUNDING:
            raise ValueError(f"expected a number from {_LOWEST:g} to 0, got {value!r:.40}")
    return [min(0.0, float(value)) for value in known]


@contextmanager
def _expected(what: str) -> Iterator[None]:
    """Convert exceptions due to an answer of another form to an EngineError."""
    try:
        yield
    except (LookupError, RecursionError, TypeError, ValueError) as problem:
        told = f"expected {what}: {type(problem).__name__}: {problem}"
        raise EngineError(f"teacher: {told}") from None
