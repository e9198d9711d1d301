"""A teacher model beside the policy or on a server: the losses, the metric, and bad settings."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import BEST
from fake_vllm import FakeVLLM
from hypothesis import HealthCheck, given, settings
from scripted import CHAT, EDIT, SUBMIT, FixedJudge
from test_attention import TEMPERATURE, gradients, near, policies
from test_backend import folder, make
from test_orchestrator import batch, says
from test_orchestrator import make as make_orchestrator
from test_textual_feedback import WEIGHT
from tiny import plain_logprobs, tiny_group
from torch import Tensor
from transformers import PreTrainedModel
from trees import rollouts

from learners.aipo import aipo_loss, feedback_loss
from learners.build import make_workloads
from learners.config import Config
from learners.engines import EngineError
from learners.errors import ConfigError
from learners.losses import Feedback, LossInput, Totals
from learners.planning.machine import Machine
from learners.planning.plan import RunPlan
from learners.rollouts import teacher
from learners.rollouts.rollout import Rollout
from learners.training import models
from learners.training.rows import Sample, pack
from learners.training.teacher import Teacher


def plain_loss(
    plain: PreTrainedModel, taught: PreTrainedModel, one: Sample, form: str, total: Totals
) -> tuple[Tensor, Tensor]:
    """Loss of a rollout, and the teacher's log-probabilities, from whole sequences."""
    ids, own = one.prompt + one.response, torch.tensor(one.sampled, dtype=torch.bool)
    places = len(one.prompt) - 1 + torch.where(own)[0]
    with torch.no_grad():
        after = plain_logprobs(taught, ids, TEMPERATURE)[places]
    before = plain_logprobs(plain, ids, TEMPERATURE)[places]
    targets = torch.tensor(one.response, dtype=torch.long)[own]
    logprobs, known = (
        table[torch.arange(len(targets)), targets] for table in (before, after)
    )  # fmt: skip
    advantages = torch.tensor(one.advantages, dtype=torch.float64)[own]
    loss = torch.zeros((), dtype=torch.float64)
    if form == "full":
        loss = WEIGHT * (after.exp() * (after - before)).sum() / total.tokens
    else:
        advantages = advantages + WEIGHT * (known - logprobs.detach()).clamp(-2, 2)
    sampler = torch.tensor(one.logprobs)[own].double()  # rounded, as in a row
    sequence = torch.zeros(len(targets), dtype=torch.long)
    row = LossInput(logprobs, sampler, advantages, sequence, 1, total)
    return loss + aipo_loss(row)[0], known


@pytest.mark.parametrize("form", ["full", "sampled"])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples=rollouts(1))
def test_packed_losses_are_those_of_whole_sequences_of_both_models(
    form: str, samples: list[Sample]
) -> None:
    policy, plain = policies("qwen3", torch.float64, "plain")
    other, taught = policies("llama", torch.float64, "plain")
    teaching = Teacher.__new__(Teacher)
    teaching._policy = other
    samples = [replace(one, hinted=()) for one in near(samples, plain)]
    tokens = sum(sum(one.sampled) for one in samples)
    if not tokens:
        return
    total = Totals(tokens, len(samples))
    loss, known = torch.zeros((), dtype=torch.float64), []
    for row in pack(samples, 12):
        n, columns = len(row.targets), (row.logprobs.double(), row.advantages.double())
        told = teaching.states(row) if form == "full" else ()
        scores, _, *compared = policy(row, *told)
        logprobs = compared[0] if compared else teaching.logprobs(row)
        theirs = teaching.logprobs(row)  # of a row without loss tokens in another dtype
        torch.testing.assert_close(logprobs, theirs, atol=1e-10, rtol=0, check_dtype=False)
        feedback = Feedback(torch.arange(n), logprobs, scores[n:])
        given = LossInput(scores[:n], *columns, row.sequences, row.rollouts, total, feedback)
        loss = loss + feedback_loss(given, WEIGHT, form)[0]
        known += logprobs.tolist()
    pairs = [plain_loss(plain, taught, one, form, total) for one in samples]
    wanted = torch.stack([loss for loss, _ in pairs]).sum()
    assert sorted(known) == pytest.approx(sorted(x for _, one in pairs for x in one.tolist()))
    torch.testing.assert_close(loss, wanted, atol=1e-10, rtol=0)
    ours, theirs = gradients(policy.model, loss), gradients(plain, wanted)
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


def stepped(form: str, weight: float, steps: int = 12) -> list[dict[str, float]]:
    """Steps without any reward towards a model with other weights."""
    taught = str(folder("qwen3", 1))
    made = make(teacher=taught, feedback_weight=weight, feedback_form=form, learning_rate=3e-3)
    group = tiny_group(made._policy)
    samples = [replace(one, advantages=[0.0] * len(one.response)) for one in group]

    def loss(row: LossInput) -> Any:
        on_policy = row._replace(sampler_logprobs=row.logprobs.detach())
        return feedback_loss(on_policy, weight, form) if weight else aipo_loss(on_policy)

    return [dict(made.train_step(pack(samples, 1000), loss)) for _ in range(steps)]


@pytest.mark.parametrize("form", ["full", "sampled"])
def test_a_teacher_draws_the_policy_also_without_rewards(form: str) -> None:
    gaps = [row["feedback_gap"] for row in stepped(form, 1.0)]
    assert gaps[-1] < 0.7 * gaps[0]


def test_without_a_weight_a_teacher_only_measures() -> None:
    rows = stepped("full", 0.0, 2)
    assert [row["skipped"] for row in rows] == [1.0, 1.0]
    assert rows[0]["ref_kl"] == rows[1]["ref_kl"] != 0


def test_the_divergence_from_the_own_start_is_0_before_training() -> None:
    made = make(teacher=str(folder("qwen3", 0)))
    rows = pack(tiny_group(made._policy), 1000)
    first, second = (made.train_step(rows, aipo_loss)["ref_kl"] for _ in range(2))
    assert first == 0
    assert second != 0
    assert "ref_kl" not in make().train_step(rows, aipo_loss)


def test_a_step_is_the_same_with_a_teacher_on_a_server() -> None:
    settings = {"feedback_weight": 1.0, "feedback_form": "sampled"}
    beside = make(teacher=str(folder("qwen3", 1)), **settings)
    served = make(teacher="http://127.0.0.1:9", **settings)
    samples = tiny_group(beside._policy)
    (whole,) = pack(samples, 1000)
    known = iter(Teacher(str(folder("qwen3", 1)), 1.0, "float32").logprobs(whole).tolist())
    order = sorted(samples, key=lambda one: (one.group, one.prompt + one.response))
    taught = {id(one): [next(known) for _ in one.response] for one in order}
    told = [replace(one, teacher=taught[id(one)]) for one in samples]
    loss = partial(feedback_loss, weight=1.0, form="sampled")
    ours, theirs = (
        dict(made.train_step(pack(given, 1000), loss))
        for made, given in ((served, told), (beside, samples))
    )
    for name in ("loss", "ref_kl", "feedback_gap", "gradient_norm"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-5), name


# On a server


@pytest.fixture
def server() -> Iterator[FakeVLLM]:
    with FakeVLLM(lambda ids: []) as served:
        served.tokenize = lambda text: CHAT.write(text)[:-1]
        yield served


def scored(url: str, timeout_s: float = 30.0) -> list[Rollout]:
    one = batch(make_orchestrator(says(EDIT, SUBMIT), FixedJudge((BEST,))))
    asyncio.run(teacher.ask(one.rollouts, url, CHAT, timeout_s))
    return one.rollouts


def test_a_server_scores_each_token_of_a_response(server: FakeVLLM) -> None:
    for status in (503, 429):  # once: the request is repeated
        server.status = status
        rollouts = scored(server.url)
    for one in rollouts:
        assert one.teacher == [-float(token) for token in one.response]
    samples = [one.sample() for one in rollouts]
    (row,) = pack(samples, 100_000)
    assert torch.equal(row.teacher, -row.targets.float())
    with pytest.raises(AssertionError, match="differ in length"):
        replace(samples[0], teacher=[0.0])


def test_the_orchestrator_asks_the_server_that_the_settings_name(server: FakeVLLM) -> None:
    named = {"teacher": server.url, "feedback_form": "sampled", "temperature": 1.0}
    one = batch(make_orchestrator(says(SUBMIT), FixedJudge((BEST,)), **named))
    assert all(len(rollout.teacher) == len(rollout.response) for rollout in one.rollouts)


def test_a_server_of_another_tokenizer_is_refused(server: FakeVLLM) -> None:
    server.tokenize = lambda text: [1, 2]
    with pytest.raises(ConfigError, match=r"^teacher: expected the policy's tokenizer, http"):
        scored(server.url)


def test_a_server_that_refuses_or_does_not_answer_ends_the_step(server: FakeVLLM) -> None:
    server.status = 400
    with pytest.raises(EngineError, match="refused a request; status 400: not now"):
        scored(server.url)
    with pytest.raises(EngineError, match=r"no answer of http://127.0.0.1:9 within 1 s; Cannot"):
        scored("http://127.0.0.1:9", 1.0)


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("/v1/models", '{"data": []}', "the name of a model from http"),
        ("/v1/models", "[1]", "the name of a model from http"),
        ("/v1/models", "{", "JSON from http"),
        ("/tokenize", '{"count": 3}', "token ids from http"),
        ("/v1/completions", '{"choices": []}', "a log-probability of each token from http"),
        ("/v1/completions", '{"choices": [{"prompt_logprobs": [null]}]}', "a log-probability of"),
    ],
)
def test_a_wrong_answer_of_a_server_ends_the_step(
    path: str, text: str, told: str, server: FakeVLLM
) -> None:
    server.answers[path] = text
    with pytest.raises(EngineError, match=f"^teacher: expected {told}"):
        scored(server.url)


@pytest.mark.parametrize("place", [None, {"8": {"logprob": -1}}, {}, -1])
def test_a_token_without_a_log_probability_is_an_error(place: object) -> None:
    answer = {"choices": [{"prompt_logprobs": [None, {"7": {"logprob": -0.5}}, place]}]}
    with pytest.raises((LookupError, TypeError)):
        teacher._logprobs(answer, [5, 7, 9])


@pytest.mark.parametrize("value", ["-0.5", None, 0.5, 1e30, -1e30, math.nan, True])
def test_a_log_probability_is_a_number_up_to_0(value: object) -> None:
    def answer(last: object) -> object:
        places = [None, {"7": {"logprob": -0.5}}, {"9": {"logprob": last}}]
        return {"choices": [{"prompt_logprobs": places}]}

    assert teacher._logprobs(answer(1e-6), [5, 7, 9]) == [-0.5, 0.0]
    with pytest.raises(ValueError, match=r"expected a number from -1e\+06 to 0, got"):
        teacher._logprobs(answer(value), [5, 7, 9])


# Settings


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"loss": "raft", "feedback_weight": 0.1}, "feedback_weight: expected loss aipo, got raft"),
        ({"teacher": "http://h:1"}, "teacher: expected feedback_form sampled and temperature 1 "
         "for a teacher on a server, got full and 0.7"),
        ({"teacher": "http://"}, "teacher: expected http://HOST:PORT, got 'http://'"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config(**{"teacher": "nano", **changes})
    assert str(refused.value) == told


def test_a_teacher_needs_no_credit_by_edit_and_the_policy_s_tokenizer(tmp_path: Path) -> None:
    make_workloads(Config(teacher="nano", feedback_weight=0.1))
    (tmp_path / "other").mkdir()
    models.export("nano", models.load("nano").named_parameters(), tmp_path / "other")
    tokenizer = models.load_tokenizer("nano")
    tokenizer.add_tokens(["<new>"])
    tokenizer.save_pretrained(tmp_path / "other")
    with pytest.raises(ConfigError, match=r"^teacher: expected the tokenizer of 'nano', got anoth"):
        make_workloads(Config(teacher=str(tmp_path / "other")))


def test_a_plan_counts_the_teacher() -> None:
    machine = Machine.named("1 x H200")
    config = Config(model="Qwen/Qwen3-0.6B", precision="bfloat16")
    alone = RunPlan(config, machine)
    both = RunPlan(replace(config, teacher="Qwen/Qwen3-4B"), machine)
    assert alone.teacher == 0
    assert both.teacher == pytest.approx(2 * 4.02e9, rel=0.01)
    assert both.step.operations > 2 * alone.step.operations
    with pytest.raises(ConfigError, match="a trainer's memory"):
        RunPlan(replace(config, teacher="Qwen/Qwen3-14B"), Machine.named("1 x RTX 4090"))
