"""The benchmark of whether a policy reads hints: its cases, contexts and calls."""

import asyncio
from pathlib import Path
from types import ModuleType

import pytest
from conftest import WORST, make_task
from scripted import CHAT, EDIT, SUBMIT, FixedJudge
from test_orchestrator import CONFIG, TASKS, batch, make, says

from learners.rollouts.workload import Workload
from resume_gym import Rules

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
WORK = Workload(Rules(max_turns=3), TASKS, [make_task(9)], FixedJudge((WORST,)), CHAT)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return __import__("hints_read")


def test_each_bad_turn_is_sampled_again_in_three_contexts(script: ModuleType) -> None:
    played = batch(make(says("Hello", EDIT, SUBMIT), FixedJudge((WORST,)), credit="edit"))
    cases = script.cases_of(played.rollouts, 2)
    assert {case.mark.turn for case in cases} == {0, 1}
    for case in cases:
        contexts = script.contexts_of(case, WORK)
        rollout = case.rollout
        reply = CHAT.reply(rollout.session.state.transcript[0][1].observation)
        plain = [*rollout.prompt, *CHAT.write("Hello"), *reply]
        assert contexts["none"] == (plain if case.mark.turn else rollout.prompt)
        for name, hint in (("hint", case.mark.hint), ("other", case.other)):
            assert hint in CHAT.read(contexts[name])
            assert hint not in CHAT.read(contexts["none"])
    said = says(EDIT, "Hello")
    found = asyncio.run(script.calls_of(cases, WORK, said, CONFIG, 2))
    for case, calls in zip(cases, found, strict=True):
        for name in script.CONTEXTS:
            one, other = calls[name]
            assert one == other
            assert one.valid == (case.mark.turn == 0)
            assert (one.change is None) == (case.mark.turn == 1)
    figures = script.figures_of("all", found[:1], [(-0.5, 0.25)])
    named = {figure.name: figure.value for figure in figures}
    assert named["all, none: valid calls, %"] == (100 if cases[0].mark.turn == 0 else 0)
    assert named["all, hint: change of log-probability"] == -0.5
