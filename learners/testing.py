"""`check_engine`: the contracts of an engine that samples tokens, without a test framework.

>>> check_engine(TransformersEngine(policy), [3, 1, 4], Sampling(1.0, 16, {0}, (0,)), list)

`resume_gym.testing` has the checks of environments, judges and adapters.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from learners.engines import Completion, Engine, Sampling, Weights
from resume_gym.testing.expectations import brief, broken, expect, failure, no_exception

_KEYS = range(4)
_OTHER_KEYS = range(4, 8)
_TOLERANCE = 0.1  # of log-probabilities with and without a cache; bfloat16 has 8 bits


def check_engine(
    engine: Engine, prompt: Sequence[int], sampling: Sampling, weights: Weights
) -> None:
    """Check an engine.

    The contracts: a completion has as many log-probabilities and versions as tokens; it ends at
    a stop token or at `max_tokens`, and at neither before; each token has the version of the
    weights that `load_weights` loaded last, and `behind` names no server afterwards; a
    conversation goes on under its key, and starts anew after `release`; a repeatable engine
    returns the same tokens and log-probabilities for the same requests, and samples from a
    cached conversation as from a new one; `probe` returns completions; after `sleep` and `wake`
    the engine samples again. The engine is not closed.

    Args:
        engine: The engine. It loads versions 1 and 2 of the weights, and samples about 30
            completions, four at a time, with the keys 0 to 7.
        prompt: Token ids of a prompt, at least one.
        sampling: Sampling parameters; the requests of a batch have different seeds.
        weights: Weights to load; `list`, which gives none, for an engine that needs none.

    Raises:
        AssertionError: A contract is broken.
    """
    parts = {name for name in {**Engine.__annotations__, **vars(Engine)} if name[0] != "_"}
    if missing := sorted(name for name in parts if not hasattr(engine, name)):
        raise broken("protocol of engines", ", ".join(sorted(parts)), f"no {', '.join(missing)}")
    expect("engine.repeatable: type", bool, type(engine.repeatable))
    # in one event loop, to which an engine may bind its connections
    asyncio.run(_check(engine, list(prompt), sampling, weights))


async def _check(engine: Engine, prompt: list[int], sampling: Sampling, weights: Weights) -> None:
    _load(engine, 1, weights)
    asked = [prompt] * len(_KEYS)
    first = await _sample(engine, _KEYS, asked, sampling, version=1)
    again = await _sample(engine, _OTHER_KEYS, asked, sampling, version=1)
    if engine.repeatable:
        expect("repeatable: the same requests under other keys", first, again)
    _release(engine, _OTHER_KEYS)

    longer = [[*prompt, *one.ids, *prompt] for one in first]
    one_token = replace(sampling, max_tokens=1)
    cached = await _sample(engine, _KEYS, longer, one_token, version=1)
    fresh = await _sample(engine, _OTHER_KEYS, longer, one_token, version=1)
    if engine.repeatable:
        _expect_close(fresh, cached)

    _load(engine, 2, weights)
    longer = [[*ids, *one.ids, *prompt] for ids, one in zip(longer, cached, strict=True)]
    await _sample(engine, _KEYS, longer, sampling, version=2)
    _release(engine, [*_KEYS, *_OTHER_KEYS])
    with no_exception("sleep and wake"):
        engine.sleep()
        engine.wake()
    await _sample(engine, _KEYS, asked, sampling, version=2)
    _release(engine, _KEYS)
    with no_exception("probe"):
        probed = await engine.probe(prompt, sampling)  # last, since it may close connections
    expect("probe: type", list, type(probed))
    for one in probed:
        _check_completion(one, sampling, version=2)


async def _sample(
    engine: Engine,
    keys: Sequence[int],
    conversations: Sequence[list[int]],
    sampling: Sampling,
    version: int,
) -> list[Completion]:
    """Continue conversations concurrently, each with a seed of its place in the batch."""
    asked = [
        engine.generate(key, ids, replace(sampling, seed=(*sampling.seed, place)))
        for place, (key, ids) in enumerate(zip(keys, conversations, strict=True))
    ]
    said = await asyncio.gather(*asked, return_exceptions=True)
    for one in said:
        if isinstance(one, BaseException):
            raise broken("generate", "a Completion", failure(one)) from one
        _check_completion(one, sampling, version)
    return [one for one in said if isinstance(one, Completion)]


def _check_completion(one: object, sampling: Sampling, version: int) -> None:
    if not isinstance(one, Completion):
        raise broken("generate", "a Completion", brief(one))
    lengths = [len(part) for part in one]
    if len(set(lengths)) > 1:
        told = "{} ids, {} logprobs, {} versions".format(*lengths)
        raise broken("completion", "as many logprobs and versions as ids", told)
    ids, stops, limit = one.ids, sampling.stops, sampling.max_tokens
    if not ids or any(type(token) is not int or token < 0 for token in ids):
        raise broken("completion: ids", "one or more integers from 0", brief(ids))
    if len(ids) > limit:
        raise broken("completion: ids", f"at most max_tokens={limit}", brief(ids))
    if not set(ids[:-1]).isdisjoint(stops):
        raise broken("completion: ids", f"one of stops={stops} at the end only", brief(ids))
    if ids[-1] not in stops and len(ids) < limit:
        told = f"one of stops={stops} at the end, or max_tokens={limit} tokens"
        raise broken("completion: ids", told, brief(ids))
    if not all(math.isfinite(value) and value <= 0 for value in one.logprobs):
        raise broken("completion: logprobs", "finite numbers of at most 0", brief(one.logprobs))
    expect("completion: versions after load_weights", [version] * len(ids), one.versions)


def _expect_close(fresh: Sequence[Completion], cached: Sequence[Completion]) -> None:
    """Compare the first tokens after new conversations with those after cached ones.

    Rounding may turn a draw, so only tokens that are equal are compared.
    """
    gaps = [
        abs(one.logprobs[0] - other.logprobs[0])
        for one, other in zip(fresh, cached, strict=True)
        if one.ids == other.ids
    ]
    contract = "conversation: tokens after a cached one, as after a new one"
    if not gaps:
        expect(contract, [one.ids for one in fresh], [one.ids for one in cached])
    elif max(gaps) > _TOLERANCE:
        told = f"log-probabilities equal to within {_TOLERANCE}"
        raise broken(contract, told, f"a difference of {max(gaps):.3f}")


def _load(engine: Engine, version: int, weights: Weights) -> None:
    with no_exception(f"load_weights({version})"):
        engine.load_weights(version, weights)
    expect(f"behind({version}) after load_weights", [], list(engine.behind(version)))


def _release(engine: Engine, keys: Sequence[int]) -> None:
    for key in (*keys, -1):  # -1 is unknown
        with no_exception(f"release({key})"):
            engine.release(key)
