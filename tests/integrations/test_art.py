"""What else holds of ART: prompts, tokens, rewards, failures, and its example."""

import asyncio
import json
from typing import Any

import art
import art_tokenise
import pytest
from art_tokenise import TOKENIZER, Request, careful, served, tokenised
from scripts import OTHER, TASK, as_calls, as_text

from resume_gym.integrations.art import Episodes
from resume_gym.judges import JudgeUnavailable
from resume_gym.testing import ENV, UNAVAILABLE

_TASKS = [TASK.task_id, OTHER.task_id]


def _gather(
    size: int, judge: str = "rubric", parser: Any = as_text, **options: Any
) -> tuple[list[art.TrajectoryGroup], list[Request]]:
    """Groups on two tasks by the example's agent, and the requests that it got."""
    requests: list[Request] = []

    async def gathered() -> list[art.TrajectoryGroup]:
        episodes = Episodes(ENV, judge=judge)
        agent = careful(episodes)

        def say(request: Request) -> str:
            requests.append(request)
            return agent(request)

        async with served(say, parser) as model:
            return await episodes.gather(model, _TASKS, size, **options)

    return asyncio.run(gathered()), requests


@pytest.mark.parametrize("parser", [as_text, as_calls])
def test_the_tokens_trained_on_are_those_sampled_behind_the_prompts_sampled_from(
    parser: Any,
) -> None:
    groups, requests = _gather(4, parser=parser)
    prompts = {
        tuple(
            TOKENIZER.apply_chat_template(
                asked["messages"], tools=asked["tools"], add_generation_prompt=True
            )["input_ids"]
        )
        for asked in requests
    }
    results = tokenised(groups)
    assert len(results) == 8
    for one in results:
        actions = json.loads(one.trajectory.logs[0])["actions"]
        assert len(one.choice_offsets) == len(actions)
        mask = [0] * len(one.token_ids)
        for start, action in zip(one.choice_offsets, actions, strict=True):
            assert tuple(one.token_ids[:start]) in prompts
            sampled = [*TOKENIZER.encode(action), TOKENIZER.eos_token_id]
            assert one.token_ids[start : start + len(sampled)] == sampled
            mask[start : start + len(sampled)] = [1] * len(sampled)
        assert one.assistant_mask == mask


def test_a_failed_judge_ends_the_gathering_unless_failures_are_allowed() -> None:
    # in each group the first two submit what they have not changed, which needs no judge
    with pytest.raises(JudgeUnavailable):
        _gather(4, UNAVAILABLE)
    with pytest.raises(JudgeUnavailable):
        _gather(4, UNAVAILABLE, max_exceptions=3)
    for allowed in (4, 0.5):
        groups, _ = _gather(4, UNAVAILABLE, max_exceptions=allowed)
        for group in groups:
            assert [error.message for error in group.exceptions] == ["the judge is down"] * 2
            assert len(group) == 2
        # two of a group's are left, and their mean is of two
        advantages = [one.advantage for one in tokenised(groups)]
        assert advantages == pytest.approx([-1, 1, -1, 1], abs=1e-3)


def test_the_settings_of_requests_and_environment_arrive() -> None:
    groups, requests = _gather(1, max_tokens=77, temperature=0.3)
    assert {(one["max_tokens"], one["temperature"]) for one in requests} == {(77, 0.3)}
    assert {(one["tool_choice"], one["logprobs"]) for one in requests} == {("none", True)}
    assert all(len(one["tools"]) == 3 for one in requests)
    assert len(groups) == 2
    assert Episodes(ENV, max_turns=4).env.rules.max_turns == 4


def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(art_tokenise.main())
    shown = capsys.readouterr().out
    lines = (art_tokenise.__doc__ or "").splitlines()
    assert shown.count("\n") > 10
    assert shown.strip() in "\n".join(line.removeprefix("    ") for line in lines)
