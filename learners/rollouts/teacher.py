"""Log-probabilities of sampled tokens by a teacher model on a vLLM server."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiohttp

from learners.engines import EngineError
from learners.engines.api_key import headers
from learners.errors import ConfigError
from learners.rollouts.rollout import Rollout
from learners.rollouts.tokens import ChatTokens

_RETRY_S = 0.5
_BAD_REQUEST, _SERVER_ERROR = 400, 500


async def ask(rollouts: Sequence[Rollout], url: str, chat: ChatTokens, timeout_s: float) -> None:
    """Set `teacher` of each rollout, from the prompt log-probabilities of a vLLM server.

    Args:
        rollouts: played rollouts.
        url: address of the server, whose API key is that of the engine's servers.
        chat: encoder of the policy.
        timeout_s: time limit for all answers in seconds, including retries.

    Raises:
        ConfigError: the teacher's tokenizer differs from the policy's.
        EngineError: the server did not answer in time, or refused a request.
    """
    problem = "no request was made"

    async def call(path: str, body: Mapping[str, object] | None = None) -> Any:
        nonlocal problem
        while True:
            method = "GET" if body is None else "POST"
            try:
                async with client.request(method, f"{url}/{path}", json=body) as answer:
                    if answer.ok:
                        return await answer.json()
                    problem = f"status {answer.status}: {(await answer.text())[:300]}"
                    if _BAD_REQUEST <= answer.status < _SERVER_ERROR:
                        raise EngineError(f"teacher: {url} refused a request; {problem}")
            except (aiohttp.ClientError, OSError) as error:
                problem = str(error) or type(error).__name__
            await asyncio.sleep(_RETRY_S)

    async def score(rollout: Rollout) -> None:
        ids = rollout.prompt + rollout.response
        body = {"model": model, "prompt": ids, "max_tokens": 1, "prompt_logprobs": 0}
        (choice,) = (await call("v1/completions", body))["choices"]
        pairs = zip(ids, choice["prompt_logprobs"], strict=True)
        known = [0.0 if place is None else place[str(token)]["logprob"] for token, place in pairs]
        rollout.teacher = known[len(rollout.prompt) :]

    with suppress(TimeoutError):
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(
                headers=headers(), timeout=aiohttp.ClientTimeout(total=None)
            ) as client,
        ):
            model = (await call("v1/models"))["data"][0]["id"]
            text = rollouts[0].session.prompt
            body = {"model": model, "prompt": text, "add_special_tokens": False}
            if (await call("tokenize", body))["tokens"] != chat.write(text)[:-1]:
                raise ConfigError(f"teacher: expected the policy's tokenizer, {url} has another")
            await asyncio.gather(*map(score, rollouts))
            return
    raise EngineError(f"teacher: no answer of {url} within {timeout_s:.0f} s; {problem}")
