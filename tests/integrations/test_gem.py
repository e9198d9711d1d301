"""GEM: what else must hold of the environments."""

import gem
import gem_episode
import gymnasium as gym
import pytest
from players_gem import NAME
from scripts import OTHER, REVIEW, SUBMIT, TASK

import resume_gym
from resume_gym.integrations.gem import GemEnv
from resume_gym.testing import edits


def test_every_environment_of_the_package_is_registered_and_takes_its_arguments() -> None:
    for gym_id in [name for name in gym.registry if name.startswith("ResumeEdit")]:
        observation, info = gem.make(f"resume_gym:{gym_id}", max_turns=4, split="eval").reset()
        assert observation.endswith("turns left: 4/4 | edits: 0")
        assert "-eval-" in info["task_id"]


def test_the_first_observation_tells_all_that_an_agent_needs() -> None:
    env = GemEnv("ResumeEditMini-v0", task_id=TASK.task_id)
    observation, _ = env.reset()
    session = gym.make("ResumeEditMini-v0").unwrapped.new_session(TASK.task_id)  # type: ignore[attr-defined]
    assert observation.startswith(session.system_prompt)
    assert observation.endswith(session.prompt)
    for tool in resume_gym.TOOLS:
        assert f'"name": "{tool["function"]["name"]}"' in observation


@pytest.mark.parametrize("threads", [False, True])
def test_members_of_a_group_get_the_same_tasks_one_after_the_other(threads: bool) -> None:
    one = [{"seed": 7} for _ in range(3)]
    envs = gem.make_vec([NAME] * 3, vec_kwargs=one, async_mode=threads)
    _, infos = envs.reset()
    seen = [[info["task_id"] for info in infos]]
    for _ in range(5):
        infos = envs.step([SUBMIT] * 3)[4]
        assert [info["final_info"]["task_id"] for info in infos] == seen[-1]
        seen.append([info["task_id"] for info in infos])
    assert all(len(set(group)) == 1 for group in seen)
    assert len({group[0] for group in seen}) > 1
    again = gem.make(NAME)
    assert again.reset(seed=7)[1]["task_id"] == seen[0][0]


def test_without_a_seed_of_its_own_each_member_gets_another_task() -> None:
    envs = gem.make_vec([NAME] * 8)
    _, infos = envs.reset()
    assert len({info["task_id"] for info in infos}) > 1
    _, infos = envs.reset(seed=[3] * 8)
    assert len({info["task_id"] for info in infos}) == 1


def test_the_final_words_are_told_once_by_the_reset_after_them() -> None:
    env = gem.make(NAME, task_id=TASK.task_id)
    assert "final_info" not in env.reset()[1]
    for text in (REVIEW, SUBMIT):
        last = env.step(text)
        assert "final_info" not in last[4]
    _, info = env.reset()
    assert (info["final_obs"], info["final_info"]) == (last[0], last[4])
    assert sum(info["final_info"]["ledger"].values()) == info["final_info"]["episode_reward"]
    assert (info["submitted"], info["edits"]) == (False, 0)
    assert "final_info" not in env.step(REVIEW)[4]
    assert "final_info" not in env.reset()[1]


def test_a_spawned_twin_goes_on_by_itself() -> None:
    env = gem.make(NAME, task_id=TASK.task_id, max_turns=4)
    env.reset()
    env.step(REVIEW)
    twin = env.spawn(same_state=True)
    assert twin.step(SUBMIT)[4]["turns_left"] == 2
    _, reward, ended, _, info = env.step(edits(TASK, 1)[0])
    assert (reward, ended, info["edits"], info["turns_left"]) == (0.25, False, 1, 2)
    fresh = env.spawn(task_id=OTHER.task_id)
    assert fresh.reset()[1]["task_id"] == OTHER.task_id
    assert isinstance(fresh.sample_random_action(), str)


def test_the_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    gem_episode.main()
    printed = capsys.readouterr().out.splitlines()
    shown = [line[4:] for line in (gem_episode.__doc__ or "").splitlines() if line[:4] == "    "]
    assert shown[-len(printed) :] == printed
