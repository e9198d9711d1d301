"""`check_engine` passes the engines of this project, and names the contract that another breaks."""

from collections.abc import Sequence
from itertools import count
from random import Random

import pytest
import torch
from fake_vllm import FakeVLLM
from tiny import ARCHITECTURES, tiny_policy

from learners.engines import Completion, EngineError, Sampling, Weights
from learners.engines.transformers import TransformersEngine
from learners.engines.vllm import VLLMEngine
from learners.testing import check_engine

PROMPT = [9, 1, 17, 4]
SAMPLING = Sampling(temperature=0.7, max_tokens=8, stops={5}, seed=(3,))


class Drawing:
    """A sound engine without a model: the conversation and the seed decide what it samples."""

    max_concurrency = 8
    repeatable = True

    def __init__(self) -> None:
        self.version = 0
        self.seen: dict[int, list[int]] = {}

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        self.seen.setdefault(key, list(ids))
        drawn: list[int] = []
        rng = Random(f"{sampling.seed} {ids}")
        while len(drawn) < sampling.max_tokens and not sampling.stops & set(drawn):
            drawn.append(rng.randrange(8))
        return Completion(drawn, [-rng.random()] * len(drawn), [self.version] * len(drawn))

    def release(self, key: int) -> None:
        self.seen.pop(key, None)

    def load_weights(self, version: int, source: Weights) -> None:
        self.version = version

    def behind(self, version: int) -> list[str]:
        return []

    async def probe(self, ids: Sequence[int], sampling: Sampling) -> list[Completion]:
        return [await self.generate(0, ids, sampling)]

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


class Endless(Drawing):
    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        return Completion([1] * 9, [-1.0] * 9, [self.version] * 9)


class Unstopped(Drawing):
    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        n = sampling.max_tokens
        return Completion([5] * n, [-1.0] * n, [self.version] * n)


class Early(Drawing):
    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        return Completion([1], [-1.0], [self.version])


class Mute(Drawing):
    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        return Completion([], [], [])


class Sparse(Drawing):
    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        said = await super().generate(key, ids, sampling)
        return said._replace(logprobs=said.logprobs[:1])


class Probable(Drawing):
    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        said = await super().generate(key, ids, sampling)
        return said._replace(logprobs=[0.5] * len(said.ids))


class Stale(Drawing):
    def load_weights(self, version: int, source: Weights) -> None:
        self.version = 1


class Lagging(Drawing):
    def behind(self, version: int) -> list[str]:
        return ["http://one"]


class Drifting(Drawing):
    calls = count()

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        said = await super().generate(key, ids, sampling)
        return said._replace(logprobs=[-float(next(self.calls))] * len(said.ids))


class Forgetful(Drawing):
    """Samples from what a conversation was when it began."""

    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        return await super().generate(key, self.seen.get(key, ids), sampling)


class Asleep(Drawing):
    def wake(self) -> None:
        raise EngineError("no memory")


class Refusing(Drawing):
    async def generate(self, key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        if len(ids) > len(PROMPT):
            raise EngineError("no such conversation")
        return await super().generate(key, ids, sampling)


class Unprobed(Drawing):
    probe = None  # type: ignore[assignment]


class Unbounded(Drawing):
    repeatable = None  # type: ignore[assignment]


def test_a_sound_engine_passes() -> None:
    check_engine(Drawing(), PROMPT, SAMPLING, list)


@pytest.mark.parametrize(
    ("engine", "contract"),
    [
        (Endless(), "ids: expected at most max_tokens=8; got"),
        (Unstopped(), r"ids: expected one of stops=\{5\} at the end only"),
        (
            Early(),
            r"ids: expected one of stops=\{5\} at the end, or max_tokens=8 tokens; got \[1\]",
        ),
        (Mute(), r"ids: expected one or more integers from 0; got \[\]"),
        (Sparse(), "expected as many logprobs and versions as ids; got . ids, 1 logprobs, . vers"),
        (Probable(), "logprobs: expected finite numbers of at most 0"),
        (Stale(), r"versions after load_weights: expected \[2, .*; got \[1, "),
        (Lagging(), r"behind\(1\) after load_weights: expected \[\]; got \['http://one'\]"),
        (Drifting(), "repeatable: the same requests under other keys"),
        (Forgetful(), "conversation: tokens after a cached one, as after a new one"),
        (Asleep(), "sleep and wake: expected no exception; got EngineError: no memory"),
        (Refusing(), "generate: expected a Completion; got EngineError: no such conversation"),
        (Unprobed(), "probe: expected no exception; got TypeError"),
        (Unbounded(), "engine.repeatable: type"),
        (object(), "protocol of engines: expected behind, .*; got no behind, close"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_an_engine_that_breaks_a_contract(engine: Drawing, contract: str) -> None:
    with pytest.raises(AssertionError, match=contract):
        check_engine(engine, PROMPT, SAMPLING, list)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_transformers_engine(architecture: str, precision: str) -> None:
    policy, _ = tiny_policy(architecture, SAMPLING.temperature)
    policy.precision = precision
    check_engine(TransformersEngine(policy), PROMPT, SAMPLING, list)


def test_the_engine_of_vllm_servers() -> None:
    weights = {"layer": torch.zeros(2)}.items
    with FakeVLLM(lambda ids: [7, 8, 5]) as one, FakeVLLM(lambda ids: [7] * 99) as other:
        engine = VLLMEngine([one.url, other.url], "nano", "float32", timeout_s=5.0)
        check_engine(engine, PROMPT, SAMPLING, weights)
        engine.close()
