"""Hints for bad turns: which turns, the contexts with hints, and the losses that compare."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import BEST, WORST
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import CHAT, CUT, REVIEW, SUBMIT, FixedJudge
from test_attention import TEMPERATURE, apart, gradients, near, policies
from test_drafts import BACK, FIXES, NET, ORDER, TASK, earned, played, script
from test_orchestrator import batch, make, says
from tiny import plain_logprobs
from torch import Tensor
from transformers import PreTrainedModel
from trees import rollouts, turn

from learners.aipo import (
    FEEDBACK_SPAN,
    aipo_loss,
    credit,
    feedback_loss,
    feedback_weight,
    with_gap,
)
from learners.build import make_workloads
from learners.config import Config
from learners.errors import ConfigError
from learners.losses import Feedback, LossInput, Totals
from learners.rollouts.drafts import changes, drafts
from learners.rollouts.feedback import Mark, marks
from learners.training.rows import Sample, pack
from resume_gym import tool_call
from resume_gym.episode.hints import KINDS

WEIGHT = 0.3


def session_of(actions: list[str]) -> Any:
    """A graded session of these actions, with turns left."""
    session = NET.session_type(TASK, replace(NET.rules, max_turns=12))
    for action in actions:
        session.step(action)
    if session.needs_verdict:
        session.grade(NET.judge.judge(TASK, session.text))
    return session


def marked(*actions: str) -> dict[int, Mark]:
    """The marks of these actions and a submit, by turn."""
    session = session_of([*actions, SUBMIT])
    (turns,) = earned(session, judge=NET.judge)
    return {one.turn: one for one in marks(session, turns, 99)}


# Which turns


@settings(max_examples=40)
@given(st.data())
def test_bad_turns_get_hints_that_quote_only_the_page(data: st.DataObject) -> None:
    task = NET.tasks[data.draw(st.integers(0, len(NET.tasks) - 1))]
    session = played(NET, task, script(NET, task, data))
    (turns,) = earned(session, judge=NET.judge)
    found = {one.turn: one for one in marks(session, turns, 99)}
    pages = [one.text for one in drafts(session)]
    for number, (_, step) in enumerate(session.state.transcript):
        if step.error != "none":
            assert found[number].kind == "failed_call"
            assert step.error in found[number].hint
    for number, one in found.items():
        step = session.state.transcript[number][1]
        worse = sum(changes([turns[number]])) < 0
        early = "submit" in turns[number] and session.rules.max_turns > len(turns)
        assert (step.error != "none") + worse + early == 1
        quotes = [quote.removesuffix("...") for quote in re.findall('"([^"]*)"', one.hint)]
        assert all(quote in pages[number] for quote in quotes)
        # a fix that the agent has made is on the page
        hidden = [fix.new for fix in task.fixes if fix.new and fix.new not in pages[number]]
        assert not any(new in one.hint for new in hidden)
        assert one.hint.startswith("Hint: ")
        assert "\n" not in one.hint
    worst = sorted(found, key=lambda number: (sum(turns[number].values()), number))
    assert [one.turn for one in marks(session, turns, 2)] == worst[:2]
    for kind in KINDS:
        of_kind = [turn for turn in worst if found[turn].kind == kind]
        assert [one.turn for one in marks(session, turns, 99, [kind])] == of_kind


GOOD = next(
    line
    for line in TASK.resume.split("\n")
    if line.startswith("- ") and not any(part in line for fix in TASK.fixes for part in [fix.old])
)
WEAK = next(line for line in TASK.resume.split("\n") if TASK.fixes[0].old in line)
CLAIM = tool_call("str_replace", old=GOOD, new=f"{GOOD.rstrip('.')}, saving 40 hours a week")
AGAIN = tool_call("str_replace", old=" 40 hours a week", new=" 45 hours a week")


@pytest.mark.parametrize(
    ("actions", "kind", "told"),
    [
        ([tool_call("str_replace", old=f"\n{GOOD}", new="")], "good_line", GOOD[2:40]),
        ([CLAIM], "good_line", GOOD[2:40]),
        ([tool_call("str_replace", old=f"\n{WEAK}", new="")], "weak_line", WEAK[2:40]),
        ([tool_call("str_replace", old="Helpd", new="Built")], "failed_call", "not_found"),
        (["Hello"], "failed_call", "no_call"),
        ([], "faults_left", ""),
        (FIXES[:1], "faults_left", ""),
    ],
)
def test_each_bad_turn_gets_its_kind_of_hint(actions: list[str], kind: str, told: str) -> None:
    found = marked(*actions)
    one = found[len(actions) if kind == "faults_left" else 0]
    assert one.kind == kind
    assert told in one.hint


def test_a_claim_that_an_edit_keeps_is_told() -> None:
    session = session_of([CLAIM, AGAIN, SUBMIT])
    (one,) = marks(session, [{}, {"edit": 0.0, "worse": -1.0}, {}])
    assert (one.turn, one.kind) == (1, "unsupported")
    assert "40" in one.hint


def test_good_turns_and_a_submit_of_a_repaired_page_get_none() -> None:
    repairs = [tool_call("str_replace", old=one.old, new=one.new) for one in TASK.fixes]
    assert marked(REVIEW, *repairs) == {}
    # ORDER may be marked as a bad edit, but BACK, which undoes it, may not
    assert marked(FIXES[0], ORDER, BACK, *repairs[1:]).keys() <= {1}


# The contexts with hints


def test_only_the_last_observation_is_encoded_again() -> None:
    changes = {"credit": "edit", "feedback_weight": 1.0, "feedback_turns": 3}
    scripts = says(CUT, tool_call("str_replace", old="nowhere", new="x"), SUBMIT)
    one = batch(make(scripts, FixedJudge((BEST,)), **changes))
    assert one.metrics["marked_turns"] == 2 * len(one.rollouts)
    for rollout in one.rollouts:
        session: Any = rollout.session
        first, second = sorted(rollout.hinted)
        marked = {mark.turn: mark.hint for mark in marks(session, rollout.earned or (), 3)}
        prompt = f"{session.prompt}\n{marked[0]}"
        assert first == (0, CHAT.prompt(session.system_prompt, prompt))
        heard = session.state.transcript[0][1].observation
        cut = CHAT.write(CUT)  # the end token was not sampled
        assert second.context == [
            *rollout.prompt,
            *cut,
            *CHAT.reply(f"{heard}\n{marked[1]}"),
        ]
        assert (
            rollout.response[second.start :][:3] == CHAT.write(session.state.transcript[1][0])[:3]
        )
        assert rollout.sampled[second.start]
        assert not rollout.sampled[second.start - 1]


def test_without_a_weight_there_are_no_hints() -> None:
    one = batch(make(says("Hello", SUBMIT), FixedJudge((WORST,)), credit="edit"))
    assert "marked_turns" not in one.metrics
    zeros = [[0.0] * turns for turns in one.turns]
    assert all(sample.hinted == () for sample in one.samples(zeros, hinted=True))
    on = batch(
        make(says("Hello", SUBMIT), FixedJudge((WORST,)), credit="edit", feedback_weight=1.0)
    )
    assert all(sample.hinted for sample in on.samples(zeros, hinted=True))
    assert on.samples(zeros) == one.samples(zeros)


def test_without_credit_only_the_feedback_trains() -> None:
    changes: dict[str, Any] = {"credit": "none", "feedback_weight": 1.0}
    one = batch(make(says("Hello", SUBMIT), FixedJudge((WORST,)), **changes))
    advantages = credit(Config(**changes), one)
    assert not torch.tensor(advantages).any()
    samples = one.samples(advantages, hinted=True)
    assert all(sample.hinted for sample in samples)
    with pytest.raises(ConfigError, match=r"^credit: none needs feedback_weight above 0, got 0$"):
        Config(credit="none")


# The losses


def plain_loss(
    plain: PreTrainedModel, samples: list[Sample], form: str, total: Totals
) -> tuple[Tensor, float]:
    """Loss and summed gap, with two whole sequences for each turn with a hint."""
    loss, gaps = torch.zeros((), dtype=torch.float64), 0.0
    for one in samples:
        every = plain_logprobs(plain, one.prompt + one.response, TEMPERATURE)
        own = torch.tensor(one.sampled, dtype=torch.bool)
        advantages = torch.tensor(one.advantages, dtype=torch.float64)
        for hint in one.hinted:
            tokens = turn(one, hint.start)
            places = torch.arange(len(tokens))
            with torch.no_grad():
                both = plain_logprobs(plain, hint.context + tokens, TEMPERATURE)
                after = both[len(hint.context) - 1 : -1]
            before = every[len(one.prompt) + hint.start - 1 + places]
            gap = (after - before.detach())[places, tokens]
            gaps += float(gap.abs().sum())
            if form == "full":
                loss = loss + WEIGHT * (after.exp() * (after - before)).sum() / total.tokens
            else:
                advantages[hint.start + places] += WEIGHT * gap.clamp(-2, 2)
        known = torch.tensor(one.logprobs)[own].double()  # rounded, as in a row
        sequence = torch.zeros(len(known), dtype=torch.long)
        row = LossInput(apart(plain, one), known, advantages[own], sequence, 1, total)
        loss = loss + aipo_loss(row)[0]
    return loss, gaps


@pytest.mark.parametrize("form", ["full", "sampled"])
@pytest.mark.parametrize(("architecture", "variant"), [("qwen3", "plain"), ("llama", "adapters")])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(samples=rollouts(1))
def test_the_packed_losses_are_those_of_two_sequences(
    architecture: str, variant: str, form: str, samples: list[Sample]
) -> None:
    policy, plain = policies(architecture, torch.float64, variant)
    samples = near(samples, plain)
    tokens = sum(sum(one.sampled) for one in samples)
    if not tokens:
        return
    total = Totals(tokens, len(samples))
    loss, figures = torch.zeros((), dtype=torch.float64), Counter[str]()
    for row in pack(samples, 12):  # parts of groups
        scores, _, *hinted = policy(row)
        n, columns = len(row.targets), (row.logprobs.double(), row.advantages.double())
        feedback = Feedback(row.marked, *hinted, scores[n:]) if hinted else None
        given = LossInput(scores[:n], *columns, row.sequences, row.rollouts, total, feedback)
        part, seen = feedback_loss(given, WEIGHT, form)
        loss = loss + part
        figures.update(seen)  # type: ignore[arg-type]
    wanted, gaps = plain_loss(plain, samples, form, total)
    assert figures["feedback_gap"] == pytest.approx(gaps, abs=1e-9)
    assert figures["masked"] == 0
    torch.testing.assert_close(loss, wanted, atol=1e-10, rtol=0)
    ours, theirs = gradients(policy.model, loss), gradients(plain, wanted)
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=0)


def by_hand(form: str, ratios: list[float]) -> tuple[float, list[float], Mapping[str, float]]:
    """Loss, gradients of divergences, and metrics of a rollout whose second token is marked."""
    logprobs = torch.full((2,), -1.0, dtype=torch.float64, requires_grad=True)
    known = -1.0 - torch.tensor(ratios, dtype=torch.float64).log()
    divergences = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    feedback = Feedback(torch.tensor([1]), torch.tensor([-9.0]).double(), divergences)
    ones, sequences = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.long)
    row = LossInput(logprobs, known, ones, sequences, 1, Totals(4, 1), feedback)
    loss, seen = feedback_loss(row, WEIGHT, form)
    loss.backward()
    slopes = logprobs.grad.tolist() if logprobs.grad is not None else []
    pull = divergences.grad.tolist() if divergences.grad is not None else []
    return loss.item(), [*slopes, *pull], seen


def test_the_losses_by_hand() -> None:
    alone, slopes, _ = by_hand("full", [1.0, 9.0])  # the marked token is masked
    assert alone == 1 / 4
    assert slopes == [-1 / 4, 0.0, 0.0]
    both, slopes, seen = by_hand("full", [1.0, 2.0])
    assert both == pytest.approx(3 / 4 + WEIGHT * 0.5 / 4)
    assert slopes == pytest.approx([-1 / 4, -2 / 4, WEIGHT / 4])
    assert (seen["feedback_gap"], seen["feedback_tokens"]) == (8.0, 1.0)
    _, slopes, _ = by_hand("sampled", [1.0, 2.0])
    assert slopes == pytest.approx([-1 / 4, -2 * (1 - 2 * WEIGHT) / 4]), "the gap is clipped to -2"


def test_the_weight_is_0_once_the_mean_gap_no_longer_falls() -> None:
    state: Mapping[str, Any] = {}
    for step in range(2 * FEEDBACK_SPAN + 5):
        assert feedback_weight(WEIGHT, state) == WEIGHT
        state = with_gap(state, {"feedback_gap": 1 / (1 + step)})
        assert with_gap(state, {"loss": 1.0}) == state
    for _ in range(2 * FEEDBACK_SPAN):
        state = with_gap(state, {"feedback_gap": 0.5})
    assert feedback_weight(WEIGHT, state) == 0
    assert len(state["feedback_gaps"]) == 2 * FEEDBACK_SPAN


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"credit": "episode"}, "expected loss aipo and credit edit or none, got aipo and episode"),
        ({"loss": "raft"}, "expected loss aipo and credit edit or none, got raft and edit"),
    ],
)
def test_feedback_needs_aipo_and_credit_by_edit(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^feedback_weight: {told}$"):
        Config(**{"feedback_weight": 0.1, "credit": "edit", **changes})


def test_feedback_needs_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(feedback_weight=0.1, credit="edit")
    (work,) = make_workloads(config)
    other = replace(work, session_type=object)  # type: ignore[arg-type]
    monkeypatch.setattr("learners.build.Workload.of", lambda *given: other)
    with pytest.raises(ConfigError, match=r"^feedback_weight: hints are about resumes"):
        make_workloads(config)
