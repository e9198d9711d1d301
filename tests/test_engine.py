import asyncio
from collections.abc import Sequence
from random import Random

import pytest
import torch
from tiny import ARCHITECTURES, VOCABULARY, make_sample, plain_logprobs, tiny_model, tiny_policy
from torch import Tensor
from transformers import PreTrainedModel

from learners.engines import Completion, Sampling
from learners.engines import transformers as embedded
from learners.engines.transformers import Request, TransformersEngine, _Ragged, draw
from learners.training.policy import Policy
from learners.training.rows import pack

STOP = 5
TEMPERATURE = 0.7


def ask(
    key: int,
    ids: list[int],
    seed: int = 0,
    max_tokens: int = 12,
    stop: int = STOP,
    temperature: float = TEMPERATURE,
) -> Request:
    return Request(key, ids, Sampling(temperature, max_tokens, {stop}, (seed, key)))


def words(count: int, seed: int) -> list[int]:
    return Random(seed).choices(range(VOCABULARY), k=count)


def check(plain: PreTrainedModel, requests: Sequence[Request], said: list[Completion]) -> None:
    """The log-probabilities are those of an ordinary forward over each whole conversation."""
    for request, one in zip(requests, said, strict=True):
        whole = request.ids + one.ids
        with torch.no_grad():
            every = plain_logprobs(plain, whole, request.sampling.temperature)
        first = len(request.ids) - 1
        wanted = every[torch.arange(first, len(whole) - 1), one.ids]
        torch.testing.assert_close(torch.tensor(one.logprobs), wanted, atol=1e-5, rtol=0)


def talk(
    engine: TransformersEngine, turns: int, heard: Sequence[int], plain: PreTrainedModel
) -> list[list[int]]:
    """Several turns with replies of uneven lengths; each turn is checked."""
    ids = [words(n, n) for n in heard]
    for turn in range(turns):
        # conversations come in any order, and some sit a turn out
        keys = [key for key in reversed(range(len(ids))) if (key + turn) % 3 or turn == 0]
        requests = [ask(key, ids[key], turn) for key in keys]
        said = engine.sample(requests)
        check(plain, requests, said)
        for key, one in zip(keys, said, strict=True):
            ids[key] = ids[key] + one.ids + words(1 + key * turn % 4, turn)
    return ids


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logprobs_are_those_of_an_ordinary_forward(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_GROW", 4)  # the caches are outgrown all the time
    monkeypatch.setattr(embedded, "_FEED_TOKENS", 40)  # and prompts need several batches
    policy, plain = tiny_policy(architecture, TEMPERATURE)
    # equal lengths are equal prompts, and share a cache
    heard = (9, 1, 17, 9, 4, 9, 4, 2)
    lengths = {len(one) for one in talk(TransformersEngine(policy), 4, heard, plain)}
    assert len(lengths) > 2, "the test wants uneven lengths"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_trainer_agrees_with_the_sampler(precision: str) -> None:
    policy, _ = tiny_policy("qwen3", TEMPERATURE)
    policy.precision = precision
    prompt = words(20, 0)
    requests = [ask(key, prompt) for key in range(6)]
    said = TransformersEngine(policy).sample(requests)
    samples = [make_sample(0, prompt, one.ids, logprobs=one.logprobs) for one in said]
    (row,) = pack(samples, 1000)
    gap = (policy(row)[0] - row.logprobs).abs()
    assert gap.max() < 1e-5 if precision == "float32" else 0 < gap.mean() < 0.05


class CountedPolicy(Policy):
    """Remembers the shape of every forward."""

    shapes: list[tuple[int, ...]]

    def hidden(self, tokens: Tensor, positions: Tensor, **attention: object) -> Tensor:
        self.shapes.append(tuple(tokens.shape))
        return super().hidden(tokens, positions, **attention)


def counted() -> tuple[CountedPolicy, PreTrainedModel]:
    twin, plain = tiny_policy("qwen3", TEMPERATURE)
    policy = CountedPolicy(twin.model, TEMPERATURE, "float32")
    policy.shapes = []
    return policy, plain


def test_one_prompt_is_computed_once() -> None:
    policy, plain = counted()
    prompt = words(8, 1)
    requests = [ask(key, prompt) for key in range(4)]
    said = TransformersEngine(policy).sample(requests)
    assert policy.shapes[0] == (1, 7)
    assert {width for _, width in policy.shapes[1:]} == {1}
    check(plain, requests, said)
    assert len({tuple(one.ids) for one in said}) > 1, "members of a group are drawn apart"

    def prefilled_apart() -> list[Completion]:
        engine = TransformersEngine(policy)
        with torch.inference_mode():
            for request in requests:
                engine._prefill([request])
        return engine.sample(requests)

    assert [one.ids for one in prefilled_apart()] == [one.ids for one in said]


def test_a_reply_to_equal_conversations_is_computed_once() -> None:
    policy, plain = counted()
    engine = TransformersEngine(policy)
    prompt, reply = words(8, 1), words(20, 2)
    first = [ask(key, prompt, max_tokens=2) for key in range(4)]
    said = engine.sample(first)
    # three say the same, as most members of a group do at first
    ids = [prompt + said[0].ids + reply] * 3 + [prompt + words(2, 3) + reply]
    engine.release(3)
    requests = [ask(key, one, 1) for key, one in enumerate(ids)]
    for key in (1, 2):
        engine._parked[key] = engine._parked[0]
    policy.shapes.clear()
    again = engine.sample(requests)
    fed = [shape for shape in policy.shapes if shape[1] > 1]
    assert fed == [(1, len(ids[3]) - 1), (1, len(reply))], "a new conversation, and one reply"
    check(plain, requests, again)
    assert len({tuple(one.ids) for one in again[:3]}) > 1, "members of a group are drawn apart"


@pytest.mark.parametrize(("length", "alone", "prefixes"), [(20, 0, 1), (20, 2, 2), (5, 2, 1)])
def test_a_prefix_is_copied_only_where_that_saves_reading(
    length: int, alone: int, prefixes: int
) -> None:
    """Four members of a group hear the same reply, long or short; others hear another one."""
    policy, _ = tiny_policy("qwen3", TEMPERATURE)
    engine = TransformersEngine(policy)
    prompt, reply = words(30, 1), words(length, 2)
    engine.sample([ask(key, prompt, max_tokens=1) for key in range(4 + alone)])
    ids = [[*prompt, 7, *reply]] * 4 + [[*prompt, 8 + n, *reply] for n in range(alone)]
    engine.sample([ask(key, one) for key, one in enumerate(ids)])
    assert len({id(one.shared) for one in engine._parked.values()}) == prefixes


def test_finished_conversations_leave_the_batch() -> None:
    policy, _ = counted()
    requests = [ask(key, words(5, key), max_tokens=80) for key in range(24)]
    said = TransformersEngine(policy).sample(requests)
    rows = [rows for rows, _ in policy.shapes[1:]]
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] < rows[0] == 24
    # few ride along: never much more than the tokens that are wanted
    assert sum(rows) < sum(len(one.ids) for one in said) / 0.7


def test_the_seed_decides() -> None:
    policy, _ = tiny_policy("qwen3")

    def said(seed: int) -> list[Completion]:
        requests = [ask(key, words(7, key), seed) for key in range(3)]
        return TransformersEngine(policy).sample(requests)

    torch.manual_seed(1)
    first = said(3)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    assert said(3) == first
    assert said(4) != first
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state), "the global generator was used"


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2**-53])
def test_a_token_of_probability_zero_is_never_drawn(number: float) -> None:
    never = -torch.inf
    logprobs = torch.tensor([[never, -1.0, never, -1.0, never]])  # also where they sum up to less
    (token,) = draw(logprobs, torch.tensor([number], dtype=torch.float64)).tolist()
    assert token == (1 if number < 0.5 else 3)


def test_a_conversation_does_not_depend_on_its_batch() -> None:
    policy, plain = tiny_policy("qwen3")
    requests = [ask(key, words(5 + key, key)) for key in range(6)]
    # limits and temperatures are each one's own, too
    requests[2] = ask(2, words(7, 2), max_tokens=3, stop=-1)
    requests[4] = ask(4, words(9, 4), temperature=0.3)
    together = TransformersEngine(policy).sample(requests)
    check(plain, requests, together)
    for request, wanted in zip(requests, together, strict=True):
        (alone,) = TransformersEngine(policy).sample([request])
        assert alone.ids == wanted.ids
        torch.testing.assert_close(alone.logprobs, wanted.logprobs, atol=1e-5, rtol=0)
    assert len(together[2].ids) == 3
    assert max(len(one.ids) for one in together) > 3


def test_a_turn_ends_at_any_end_token() -> None:
    policy, _ = tiny_policy("qwen3")
    (whole,) = TransformersEngine(policy).sample([ask(1, words(6, 1), stop=-1)])
    others = [token for token in range(VOCABULARY) if token not in whole.ids]
    request = ask(1, words(6, 1))._replace(
        sampling=Sampling(TEMPERATURE, 12, {*others, whole.ids[5]}, (0, 1))
    )
    (cut,) = TransformersEngine(policy).sample([request])
    assert cut.ids == whole.ids[: whole.ids.index(whole.ids[5]) + 1]


def test_samples_follow_the_distribution() -> None:
    policy, plain = tiny_policy("llama", TEMPERATURE)
    prompt = words(5, 0)
    requests = [ask(key, prompt, max_tokens=1) for key in range(4000)]
    said = TransformersEngine(policy).sample(requests)
    drawn = torch.bincount(torch.tensor([one.ids[0] for one in said]), minlength=VOCABULARY)
    wanted = plain_logprobs(plain, prompt, TEMPERATURE)[-1].exp().detach()
    assert (drawn / 4000 - wanted).abs().max() < 0.03


def test_a_conversation_only_grows() -> None:
    policy, _ = tiny_policy("qwen3")
    engine = TransformersEngine(policy)
    ids = words(6, 0)
    (said,) = engine.sample([ask(7, ids, stop=-1, max_tokens=4)])
    whole = ids + said.ids
    for wrong in ([(whole[0] + 1) % VOCABULARY, *whole[1:], 1], ids, whole[:-1]):
        with pytest.raises(ValueError, match="conversation 7 does not extend its previous tokens"):
            engine.sample([ask(7, wrong)])
    assert engine.sample([ask(7, whole)])  # nothing is lost by the refusal
    engine.release(7)
    assert engine.sample([ask(7, ids)])


@pytest.mark.parametrize("copied", [False, True])
def test_new_weights_are_used_once_they_are_loaded(copied: bool) -> None:
    policy, plain = tiny_policy("qwen3", TEMPERATURE)
    engine = TransformersEngine(policy, copied)
    ids = words(6, 0)
    (said,) = engine.sample([ask(0, ids, stop=-1)])
    with torch.no_grad():
        for one in (plain,) if copied else (policy.model, plain):
            for parameter in one.parameters():
                parameter.mul_(1.1)
    engine.load_weights(3, plain.named_parameters)
    request = ask(0, [*ids, *said.ids, 1])
    (later,) = engine.sample([request])
    check(plain, [request], [later])
    assert set(said.versions) == {0}
    assert set(later.versions) == {3}


def test_concurrent_requests_are_one_batch() -> None:
    policy, _ = counted()
    engine = TransformersEngine(policy)
    requests = [ask(key, words(5, key), 4) for key in range(6)]

    async def together() -> list[Completion]:
        return list(await asyncio.gather(*(engine.generate(*one) for one in requests)))

    said = asyncio.run(together())
    assert said == TransformersEngine(policy).sample(requests)
    assert policy.shapes[1][0] == len(requests)


def test_all_waiting_requests_receive_a_failure() -> None:
    engine = TransformersEngine(tiny_policy("qwen3")[0])

    async def together() -> list[object]:
        asked = [engine.generate(*ask(key, [VOCABULARY + key] * 2)) for key in range(3)]
        return list(await asyncio.gather(*asked, return_exceptions=True))

    assert [type(one) for one in asyncio.run(together())] == [IndexError] * 3


def test_a_forward_pass_reads_nothing_from_the_device() -> None:
    """A GPU would finish all its work first, once a layer; the meta device has no values at all."""
    policy = Policy(tiny_model("qwen3").to("meta"), 1.0, "float32")
    with torch.inference_mode(), torch.device("meta"):
        cache = _Ragged([torch.zeros(2, 2, 2, 0, 16)] * 2)
        assert cache.feed(policy, [[1, 2, 3], [4]]).shape == (2, 32)
        assert cache.feed(policy, [[5], [6]]).shape == (2, 32)
        cache.keep([1])
        assert cache.feed(policy, [[7]]).shape == (1, 32)
        assert cache.park(0).shape == (2, 2, 2, 3, 16)
