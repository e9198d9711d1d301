"""Stable-Baselines3: what else must hold of the menu."""

import warnings
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_menu
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from players_sb3 import play
from scripts import OTHER, SCRIPTS, TASK
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

import resume_gym
from resume_gym.agents import careful
from resume_gym.integrations.sb3 import MenuEnv, careful_menu
from resume_gym.testing import ENV, UNAVAILABLE

MINI = {"env_id": ENV}


def sessions(env: Any) -> Any:
    """A new session on each of the environment's tasks."""
    return (env.new_session(task.task_id) for task in env.tasks)


def test_both_checkers_accept_it_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # the other check of rendering wants an environment that is registered
        gymnasium_check_env(MenuEnv(**MINI), skip_render_check=True)
        check_env(MenuEnv(**MINI))


@pytest.mark.parametrize("env_id", [ENV, "ResumeEdit-v0"])
def test_every_edit_on_the_menu_works_and_the_careful_agents_choice_is_there(env_id: str) -> None:
    for session in sessions(gym.make(env_id, split="eval").unwrapped):
        while not session.done:
            menu = careful_menu(session)
            for text in menu:
                assert session.fork().step(text).error == "none"
            assert len(set(menu)) == len(menu)
            choice = careful(session)
            assert choice[choice.index("<tool_call>") :] in menu
            session.step(choice)


def test_the_menu_knows_nothing_of_the_planted_truth() -> None:
    for session in sessions(gym.make(ENV, split=None).unwrapped):
        blind = replace(session.task, fixes=(), evidence=(), weakness="weak_verbs")
        assert careful_menu(resume_gym.Session(blind, session.rules)) == careful_menu(session)


def test_a_place_without_a_text_is_masked_and_costs_what_no_call_costs() -> None:
    env = MenuEnv(**MINI, places=64)
    env.reset(options={"task_id": TASK.task_id})
    count = len(careful_menu(env.text_env.session))
    assert list(env.action_masks()) == [True] * count + [False] * (64 - count)
    _, reward, done, _, info = env.step(np.int64(63))
    assert (reward, done, info["error"]) == (-0.25, False, "no_call")


@pytest.mark.parametrize("env_id", ["ResumeEditEvidenceMini-v0", "ResumeEditFeedbackMini-v0"])
def test_other_tools_need_a_menu_of_yours(env_id: str) -> None:
    with pytest.raises(ValueError, match="expected a menu for the tools str_replace"):
        MenuEnv(env_id)


def test_a_group_shares_its_task_and_not_its_session() -> None:
    env = make_vec_env(MenuEnv, 3, env_kwargs={**MINI, "places": 40})
    env.set_options({"task_id": OTHER.task_id})
    features = env.reset()
    assert (features == features[0]).all()
    _, rewards, dones, infos = env.step(np.array([0, 1, 39]))
    assert [info["task_id"] for info in infos] == [OTHER.task_id] * 3
    assert list(dones) == [False, True, False]
    assert rewards[0] == 1
    assert rewards[2] == -0.25
    assert "ledger" in infos[1]
    assert env.get_attr("text_env")[1].session.state.turns == 0  # the next episode


def test_in_processes_a_judge_that_fails_ends_the_run() -> None:
    with pytest.raises((EOFError, ConnectionError)):
        play(SubprocVecEnv, SCRIPTS[0], UNAVAILABLE)


def test_the_example_learns_the_menu() -> None:
    rewards = sb3_menu.main()
    for name in rewards:
        assert f"{name:26} +" in (sb3_menu.__doc__ or "")
    trained = rewards["trained policy"]
    assert trained > 5
    assert trained > rewards["any text of the menu"] + 1
    assert trained > rewards["untrained policy"] + 4
