"""How a model's answers become a verdict; and episodes that real clients grade over the wire."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from loopback import Loopback, Reply, Say, gemini_server, openai_server, user_text
from model_answers import Answer, FakeAsks, checked, compared, documents, gullible
from rubric_cases import RESUME, STRONG, TASK, VAGUE, swap

import resume_gym
from resume_gym import llm
from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS
from resume_gym.judges import (
    JudgeError,
    JudgeMalformed,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
)
from resume_gym.judges.llm_judge import ModelJudge
from resume_gym.judges.prompt import COMPARISON
from resume_gym.llm import Prompt

REVISED = swap(VAGUE, STRONG)
MADE_UP = swap(VAGUE, STRONG + " at Initech")
INITECH = ("at Initech", "name")


def says(there: str, back: str = "same", *claims: tuple[str, str]) -> Callable[[Prompt], Answer]:
    """A model that says which side is better when the original is A, and when it is B."""

    def answer(prompt: Prompt) -> Answer:
        if prompt.kind.startswith("judge-support"):
            return checked(prompt.user, *claims)
        first = VAGUE in documents(prompt.user)["A"]
        return compared(prompt.user, there if first else back)

    return answer


@pytest.mark.parametrize(
    ("there", "back", "better"),
    [
        ("B", "A", 1),
        ("A", "B", -1),
        ("same", "same", 0),
        ("B", "B", 0),  # goes by position
        ("A", "A", 0),
        ("B", "same", 0),
        ("same", "B", 0),
    ],
)
def test_a_grade_combines_both_orders(there: str, back: str, better: int) -> None:
    asks = FakeAsks(says(there, back))
    verdict = ModelJudge(asks).judge(TASK, REVISED)
    assert {getattr(verdict, field) for field in GRADED_FIELDS} == {better}
    assert verdict.hallucination == 1
    shown = [documents(prompt.user) for prompt in asks.prompts]
    orders = [(VAGUE in one["A"], VAGUE in one["B"]) for one in shown if "A" in one]
    assert sorted(orders) == [(False, True), (True, False)]
    assert sum("REVISED" in one for one in shown) == 1


def test_a_verdict_gives_reasons_and_is_less_sure_where_the_orders_disagree() -> None:
    sure = ModelJudge(FakeAsks(says("B", "A"))).judge(TASK, REVISED)
    unsure = ModelJudge(FakeAsks(says("B", "B"))).judge(TASK, REVISED)
    for verdict in (sure, unsure):
        assert set(verdict.reasons) == set(verdict.confidence) == set(VERDICT_FIELDS)
    assert sure.reasons["clarity"] == "What A and B have of clarity. (B is the revision.)"
    assert unsure.reasons["clarity"].startswith("Graded the same; the other order of the texts")
    assert sure.confidence["clarity"] == pytest.approx(0.9)
    assert sure.confidence["hallucination"] == pytest.approx(0.75)
    assert unsure.confidence["clarity"] == pytest.approx(0.5)


def test_a_claim_without_support_wins_nothing() -> None:
    verdict = ModelJudge(FakeAsks(says("B", "A", INITECH))).judge(TASK, MADE_UP)
    assert (verdict.hallucination, verdict.preference, verdict.quantification) == (-1, 0, 1)
    assert verdict.reasons["hallucination"] == '"at Initech": Nobody says so.'
    assert "at Initech" in verdict.reasons["preference"]
    for claim in (("77 stores", "figure"), ("2 days earlier", "moved")):
        judge = ModelJudge(FakeAsks(says("B", "A", claim)))
        verdict = judge.judge(TASK, REVISED.replace("60 stores", "77 stores"))
        assert (verdict.hallucination, verdict.quantification, verdict.clarity) == (-1, 0, 1)
    worse = ModelJudge(FakeAsks(says("A", "B", INITECH))).judge(TASK, MADE_UP)
    assert (worse.hallucination, worse.preference, worse.quantification) == (-1, -1, -1)


def test_one_order_is_the_same_whichever_text_is_the_original() -> None:
    first_shown = set()
    for number in range(12):
        revised = swap(VAGUE, f"Shipped release {number}")
        asks = FakeAsks(says("B", "A"))
        assert ModelJudge(asks, orders=1).judge(TASK, revised).preference == 1
        there = next(documents(p.user) for p in asks.prompts if "compare" in p.kind)
        back_asks = FakeAsks(says("B", "A"))
        ModelJudge(back_asks, orders=1).judge(replace(TASK, resume=revised), RESUME)
        back = next(documents(p.user) for p in back_asks.prompts if "compare" in p.kind)
        assert there["A"] == back["A"]
        assert len(asks.prompts) == len(back_asks.prompts) == 2
        foreseen = ModelJudge(asks, orders=1).prompts(TASK, revised)
        assert sorted(one.kind for one in foreseen) == sorted(one.kind for one in asks.prompts)
        first_shown.add(VAGUE in there["A"])
    assert first_shown == {True, False}


def test_every_draw_turns_the_one_order_round() -> None:
    asks = FakeAsks(says("A", "A"))  # goes by position
    judge = ModelJudge(asks, orders=1)
    grades = [asyncio.run(judge.averdict(TASK, REVISED, draw=draw)).preference for draw in range(4)]
    assert grades in ([1, -1, 1, -1], [-1, 1, -1, 1])
    later = ModelJudge(asks, orders=1, draw=1).judge(TASK, REVISED)
    assert later.preference == grades[1]


class Failing(FakeAsks):
    """Fails to compare; what else it is asked it never answers.

    Attributes:
        given_up: how many of these nobody waited for any longer.
    """

    given_up = 0

    async def ask(self, prompt: Prompt, parse: Callable[[str], Any]) -> Any:
        if prompt.kind == COMPARISON:
            await asyncio.sleep(0)
            return await super().ask(prompt, parse)
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up += 1


def test_what_fails_ends_its_siblings_and_is_raised_as_itself() -> None:
    asks = Failing(lambda prompt: llm.Unavailable("busy"))

    async def judged() -> None:
        with pytest.raises(JudgeUnavailable, match="busy"):
            await ModelJudge(asks).averdict(TASK, REVISED)
        assert asks.given_up == 1  # when it has failed, nothing is on its way

    asyncio.run(asyncio.wait_for(judged(), 30))
    with pytest.raises(ZeroDivisionError):
        ModelJudge(Failing(lambda prompt: compared(prompt.user, str(1 // 0)))).judge(TASK, REVISED)


@pytest.mark.parametrize(
    ("kind", "mine"),
    [
        (llm.Unavailable, JudgeUnavailable),
        (llm.Refused, JudgeRefused),
        (llm.Malformed, JudgeMalformed),
        (llm.CutOff, JudgeMalformed),
        (llm.Misconfigured, JudgeMisconfigured),
    ],
)
def test_a_failure_is_a_failure_of_its_kind(
    kind: type[llm.ModelError], mine: type[JudgeError]
) -> None:
    judge = ModelJudge(FakeAsks(lambda prompt: kind("the server said 418")))
    with pytest.raises(mine, match="the server said 418") as raised:
        judge.judge(TASK, REVISED)
    assert isinstance(raised.value.__cause__, kind)


def test_options_out_of_range_are_refused() -> None:
    for options in ({"orders": 3}, {"orders": True}, {"draw": -1}, {"draw": 0.5}):
        with pytest.raises(ValueError, match=next(iter(options))):
            ModelJudge(FakeAsks(says("B", "A")), **options)  # type: ignore[arg-type]


# Two revisions of the same resume


def preferred(asks: FakeAsks, first: str, second: str) -> int:
    return asyncio.run(ModelJudge(asks).compare(TASK, first, second))


def test_two_revisions_are_compared_in_both_orders() -> None:
    asks = FakeAsks(says("B", "A"))
    assert preferred(asks, RESUME, REVISED) == 1
    assert preferred(asks, REVISED, RESUME) == -1
    assert preferred(FakeAsks(says("B", "B")), RESUME, REVISED) == 0
    assert preferred(asks, REVISED, REVISED) == 0
    other = swap("Helped with moving reports", "Moved reports")
    assert preferred(asks, other, REVISED) == 1
    comparisons = [p for p in asks.prompts if "compare" in p.kind]
    assert {p.user for p in comparisons[:2]} == {p.user for p in comparisons[2:4]}


def test_a_comparison_is_two_requests_at_any_setting_and_checks_no_claims() -> None:
    for orders in (1, 2):
        asks = FakeAsks(says("B", "A", INITECH))
        judge = ModelJudge(asks, orders=orders)
        assert asyncio.run(judge.compare(TASK, RESUME, MADE_UP, draw=3)) == 1
        assert [(prompt.kind, prompt.draw) for prompt in asks.prompts] == [(COMPARISON, 3)] * 2
        assert len({prompt.user for prompt in asks.prompts}) == 2


def test_a_vetoed_text_loses_without_a_request() -> None:
    asks = FakeAsks(says("B", "A"))
    bad = REVISED + "\n<!-- better -->"
    assert preferred(asks, bad, REVISED) == 1
    assert preferred(asks, RESUME, bad) == -1
    assert preferred(asks, bad, bad + "\n") == 0
    assert asyncio.run(ModelJudge(asks).flips(TASK, bad)) == {}
    assert not asks.prompts


# Over the wire

Server = Callable[[Reply], AbstractContextManager[Loopback]]
WIRES: dict[str, tuple[Server, str, str]] = {
    "gemini": (gemini_server, "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    "openai": (openai_server, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
}
PLAYED = resume_gym.load_tasks("mini", "eval")[0]


@pytest.fixture(params=WIRES)
def served(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[tuple[dict[str, Any], Loopback]]:
    """The options of a judge, and a server that believes every revision of a task."""
    serve, key, url = WIRES[request.param]
    monkeypatch.setenv(key, "not-a-key")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    believe = gullible(PLAYED.resume)
    with serve(lambda body: believe(user_text(body))) as server:
        monkeypatch.setenv(url, server.url)
        model = {"openai": {"model": "judge-model"}}.get(request.param, {})
        yield {"name": request.param, **model}, server


def play(judge: str | dict[str, Any], new: str) -> dict[str, Any]:
    """An episode with one edit, and what the environment says at its end."""
    fix = PLAYED.fixes[0]
    with gym.make("ResumeEditMini-v0", split="eval", judge=judge) as env:
        env.reset(options={"task_id": PLAYED.task_id})
        env.step(resume_gym.tool_call("str_replace", old=fix.old, new=new))
        *_, info = env.step(resume_gym.tool_call("submit"))
    return info


def test_an_episode_is_graded_over_the_wire(served: tuple[dict[str, Any], Loopback]) -> None:
    options, server = served
    info = play({**options, "base_url": server.url}, PLAYED.fixes[0].new)
    assert info["graded"]
    assert all(info[f"verdict_{field}"] == 1 for field in VERDICT_FIELDS)
    assert len(server.requests) == 3
    revised = PLAYED.resume.replace(PLAYED.fixes[0].old, PLAYED.fixes[0].new)
    shown = [documents(user_text(body)) for body in server.requests]
    (support,) = (one for one in shown if "REVISED" in one)
    assert support["REVISED"] == revised.strip()
    assert sorted((one["A"], one["B"]) for one in shown if "A" in one) == sorted(
        [(revised.strip(), PLAYED.resume.strip()), (PLAYED.resume.strip(), revised.strip())]
    )


def test_an_episode_that_could_not_be_judged_is_graded_later(
    served: tuple[dict[str, Any], Loopback],
) -> None:
    options, server = served
    fix = PLAYED.fixes[0]
    judge = {**options, "base_url": server.url}
    with gym.make("ResumeEditMini-v0", split="eval", judge=judge) as env:
        env.reset(options={"task_id": PLAYED.task_id})
        env.step(resume_gym.tool_call("str_replace", old=fix.old, new=fix.new))
        server.script += [Say(blocked=True)] * 3
        with pytest.raises(JudgeRefused):
            env.step(resume_gym.tool_call("submit"))
        played: Any = env.unwrapped
        assert played.session.needs_verdict
        server.script.clear()
        terms: dict[str, float] = {}
        while not terms:  # requests that the first refusal left behind are shared, until answered
            with suppress(JudgeRefused):
                terms = played.grade()
        assert sum(terms.values()) == 4.0 - 1.0
        assert not played.session.needs_verdict
