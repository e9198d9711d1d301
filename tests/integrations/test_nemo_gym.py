"""NeMo Gym: what its agent hides from the environment, failures, grading again, its commands."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import nemo_gym_eval
import players_nemo_gym
import pytest
import requests
from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
from nemo_gym.testing.session_conformance import check_resources_session_contract
from players_nemo_gym import play, played, post, row_of, running, say
from scripts import MALFORMED, REVIEW, SCRIPTS, SUBMIT
from verifiers_eval import served

from resume_gym.agents import make_agent
from resume_gym.integrations.nemo_gym import _LOST, _OVER, ResumeGymConfig, ResumeGymServer
from resume_gym.testing import ENV, UNAVAILABLE, Played, play_bare

REPAIRS, OTHER = SCRIPTS[:2]


def wanted(*actions: str) -> Any:
    """The result of these actions, on the task of REPAIRS, in the bare environment."""
    return play_bare(REPAIRS._replace(actions=(*actions, *[""] * 6)))


def test_a_message_without_a_call_ends_the_episode_and_the_other_turns_are_empty() -> None:
    script = next(one for one in MALFORMED if one.name == "no call")
    assert played(play(script, "rubric")) == wanted(script.actions[0])


def test_each_of_several_calls_takes_a_turn() -> None:
    script = REPAIRS._replace(actions=(REVIEW + REPAIRS.actions[1], SUBMIT))
    assert played(play(script, "rubric")) == wanted(REVIEW, REPAIRS.actions[1], SUBMIT)


def test_a_call_that_is_no_json_has_its_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(messages: Any) -> Any:
        said = say(messages)
        if len(messages) == 4:  # the second turn
            said["tool_calls"][0]["function"]["arguments"] = '{"old": '
        return said

    monkeypatch.setattr(players_nemo_gym, "say", broken)
    review, _, *rest = REPAIRS.actions
    assert played(play(REPAIRS, "rubric")) == wanted(review, "<tool_call>{", *rest)


def test_calls_after_the_last_turn_do_not_count() -> None:
    result = play(REPAIRS._replace(actions=(REVIEW,) * 9), "rubric")
    assert played(result) == wanted(*[REVIEW] * 6)
    told = [one["output"].endswith(_OVER) for one in outputs(result)]
    assert told == [False] * 5 + [True] * 4


def outputs(result: Any) -> list[Any]:
    return [one for one in result["response"]["output"] if one["type"] == "function_call_output"]


def verify(result: Any) -> Any:
    """The answer of `/verify` of a new server to a stored response."""
    body = {**row_of(REPAIRS), "response": result["response"]}
    status, text = post(running(ENV, "rubric", "{}"), "resume_edit", "/verify", body)
    assert status == 200, text
    return json.loads(text)


def test_a_failed_judge_gives_a_masked_row_that_can_be_graded_again() -> None:
    failed = play(REPAIRS, UNAVAILABLE)
    assert (failed["mask_sample"], failed["failure_kind"]) == (True, "judge_failed")
    assert failed["failure_reason"] == "JudgeUnavailable: the judge is down"
    assert "reward_components" not in failed
    again = verify(failed)
    assert played(again) == play_bare(REPAIRS)
    assert {"clarity", "hallucination"} <= again["reasons"].keys()


def test_a_lost_session_gives_a_masked_row() -> None:
    assert post(running(ENV, "rubric", "{}"), "resume_edit", "/review", {}) == (409, _LOST)
    result = play(REPAIRS, "rubric")
    outputs(result)[1]["output"] = _LOST
    lost = verify(result)
    assert (lost["mask_sample"], lost["failure_kind"], lost["reward"]) == (True, "session_lost", 0)


def test_an_agent_may_seed_the_session_with_the_row() -> None:
    base = running(ENV, "rubric", "{}")._resolve_base_url("resume_edit")
    with requests.Session() as agent:
        assert agent.post(f"{base}/seed_session", json=row_of(OTHER)).ok
        assert "turns left: 5/6" in agent.post(f"{base}/review", json={}).text


def test_sessions_keep_the_contract_of_the_library() -> None:
    client = running(ENV, "rubric", "{}")
    settings = {"name": "a", "entrypoint": "app.py", "host": "127.0.0.1", "port": 1}
    config = ResumeGymConfig(**settings, domain="agent", env_id=ENV)
    app = ResumeGymServer(config=config, server_client=client).setup_webserver()
    seed = ResourcesSeedSessionRequest(
        resources_session_id="one",
        episode_id={"rollout_id": "0-0"},
        task_id={"taskset": "a", "task_id": OTHER.task_id},
        task_data={"task_id": OTHER.task_id},
    )
    check_resources_session_contract(app, seed, keeps_state=True)
    with pytest.raises(ValueError, match="less than or equal to 1"):
        ResumeGymConfig(**settings, domain="agent", num_workers=2)


def test_its_commands_start_the_servers_and_play_the_example(tmp_path: Path) -> None:
    with served(nemo_gym_eval.careful) as url:
        rows = nemo_gym_eval.collect(url, tmp_path, tasks=5, repeats=2)
    assert nemo_gym_eval.report(rows) in (nemo_gym_eval.__doc__ or "").replace("\n    ", "\n")
    env: Any = gym.make(ENV).unwrapped
    bare = [play_careful(env, task.task_id) for task in env.tasks[:5]]
    episodes = [played(row) for row in rows]
    assert len(episodes) == 10
    assert all(episodes.count(one) == 2 for one in bare)
    assert "mean/reward_layout" in (tmp_path / "results_aggregate_metrics.json").read_text()


def play_careful(env: Any, task_id: str) -> Any:
    env.reset(options={"task_id": task_id})
    rewards, agent = [], make_agent("careful")
    while not env.session.done:
        rewards.append(env.step(agent(env.session))[1])
    return Played.of(env.session, rewards, sum(rewards))
