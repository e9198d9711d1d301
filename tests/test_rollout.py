import asyncio
from collections.abc import Sequence
from itertools import groupby

import pytest
from conftest import make_task
from scripted import CHAT, CUT, EDIT, REVIEW, SUBMIT, Scripted
from tiny import tiny_tokenizer

from learners.engines import Completion, Sampling
from learners.rollouts.rollout import NOT_SAMPLED, Rollout, play
from learners.rollouts.tokens import ChatTokens
from resume_gym import TOOLS, Rules, Session

RULES = Rules(max_turns=3)


def fresh(number: int = 0) -> Rollout:
    session = Session(make_task(number), RULES)
    return Rollout(4, 2, session, CHAT.prompt(session.system_prompt, session.prompt))


def run(*script: str | Exception) -> tuple[Rollout, Scripted]:
    rollout, engine = fresh(), Scripted(lambda key: script, version=7)
    sampling = Sampling(1.0, 64, CHAT.ends, (100, 5))
    asyncio.run(play(rollout, 5, engine.generate, CHAT, sampling))
    return rollout, engine


def test_an_episode_as_tokens() -> None:
    one, engine = run(REVIEW, EDIT, SUBMIT)
    session = one.session
    first, second, _ = (step.observation for _, step in session.state.transcript)
    assert one.prompt == CHAT.prompt(session.system_prompt, session.prompt)
    parts = [
        (CHAT.write(REVIEW), True),
        (CHAT.reply(first), False),
        (CHAT.write(EDIT), True),
        (CHAT.reply(second), False),
        (CHAT.write(SUBMIT), True),  # nothing is heard after the last turn
    ]
    assert one.response == [token for ids, _ in parts for token in ids]
    assert one.sampled == [sampled for ids, sampled in parts for _ in ids]
    known = {True: iter((-0.25, -0.5, -0.75)), False: iter((0.0, 0.0))}
    turns = [(next(known[sampled]), len(ids)) for ids, sampled in parts]
    assert one.logprobs == [logprob for logprob, n in turns for _ in range(n)]
    assert one.versions == [7 if sampled else NOT_SAMPLED for sampled in one.sampled]
    assert "- Built a booking" in session.resume
    assert session.needs_verdict, "nobody has graded it"
    assert engine.seeds == [(100, 5, 0), (100, 5, 1), (100, 5, 2)], "no two turns draw the same"


@pytest.mark.parametrize("script", [(REVIEW, EDIT, SUBMIT), (CUT, EDIT, CUT)])
def test_each_turns_tokens_have_its_advantage(script: tuple[str, ...]) -> None:
    """Not the replies, nor the end of a turn that was cut off."""
    one, _ = run(*script)
    sample = one.sample()
    assert (sample.group, sample.prompt, sample.response) == (4, one.prompt, one.response)
    assert len(sample.turns) == len(one.session.ledgers), "a turn's tokens earn its rewards"
    credited = sample.credited([1.5, -2.0, 0.25])
    runs = [(value, len(list(same))) for value, same in groupby(credited.advantages) if value]
    assert runs == list(zip([1.5, -2.0, 0.25], sample.turns, strict=True))
    assert [bool(value) for value in credited.advantages] == sample.sampled


def test_a_turn_that_ends_with_another_end_token_gets_the_templates() -> None:
    other = 0
    chat = ChatTokens(tiny_tokenizer(), TOOLS, {other})
    said = [*chat.write(SUBMIT)[:-1], other]

    async def generate(key: int, ids: Sequence[int], sampling: Sampling) -> Completion:
        return Completion(*([each] * len(said) for each in (0, 0.0, 0)))._replace(ids=said)

    one = fresh()
    one.session.step(REVIEW)
    asyncio.run(play(one, 0, generate, chat, Sampling(1.0, 64, chat.ends, (1,))))
    assert one.response == said
    assert one.session.state.submitted, "the end token is no part of the action"  # type: ignore[attr-defined]
    said = [*chat.write(REVIEW)[:-1], other]
    one = fresh()
    asyncio.run(play(one, 0, generate, chat, Sampling(1.0, 64, chat.ends, (1,))))
    n = len(said)
    assert one.response[: n + 1] == [*said, chat.end]
    assert one.sampled[: n + 1] == [True] * n + [False]


def test_a_turn_that_is_cut_off_gets_an_end_that_was_not_sampled() -> None:
    one, _ = run(CUT, EDIT, CUT)
    (said, step), *_ = one.session.state.transcript
    assert (said, step.error) == (CUT, "no_call")
    cut = CHAT.write(CUT)
    n = len(cut)
    assert one.response[:n] == cut
    assert one.sampled[:n] == [True] * (n - 1) + [False]
    assert one.logprobs[:n] == [-0.25] * (n - 1) + [0.0]
    # the last turn ends the episode: nobody needs its end
    assert one.response[1 - n :] == cut[:-1]
    assert one.sampled[1 - n :] == [True] * (n - 1)
