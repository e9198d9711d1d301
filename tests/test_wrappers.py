"""Gymnasium's wrappers and vector environments around the environment."""

import gc
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from conftest import RESUME
from gymnasium import wrappers
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from resume_gym import tool_call
from resume_gym.env import ResumeEditEnv

ID, FULL_ID = "ResumeEdit-v0", "resume_gym:ResumeEdit-v0"
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
BUILT = tool_call("str_replace", old="Helped build", new="Built")
# every warning but that of forking beside other libraries' threads
pytestmark = pytest.mark.filterwarnings("error", "ignore:This process .* is multi-threaded")


@pytest.fixture(autouse=True, scope="module")
def no_garbage() -> None:
    """What other files' tests have left is collected here, or its warnings would be errors."""
    with warnings.catch_warnings(action="ignore"):
        gc.collect()


def test_time_limit_truncates(options: dict[str, Any]) -> None:
    env = gym.make(ID, max_episode_steps=2, **options)
    env.reset()
    assert env.step(REVIEW)[2:4] == (False, False)
    assert env.step(REVIEW)[2:4] == (False, True)


def test_wrappers_that_pad_begin_with_empty_texts(env: gym.Env[str, str]) -> None:
    delayed = wrappers.DelayObservation(env, delay=1)
    assert delayed.reset()[0] == "" in delayed.observation_space
    assert delayed.step(REVIEW)[0].startswith("# Job")
    for padding in ("zero", "reset"):
        stacked = wrappers.FrameStackObservation(env, 3, padding_type=padding)
        first, _ = stacked.reset()
        assert first in stacked.observation_space
        assert first[:2] == (("", "") if padding == "zero" else (first[2], first[2]))
        assert stacked.step(REVIEW)[0][:2] == first[1:]


def test_record_episode_statistics(env: gym.Env[str, str]) -> None:
    wrapped = wrappers.RecordEpisodeStatistics(env)
    wrapped.reset()
    total = sum(wrapped.step(action)[1] for action in (REVIEW, BUILT))
    _, reward, _, _, info = wrapped.step(SUBMIT)
    assert info["episode"]["r"] == total + reward == info["episode_reward"]
    assert info["episode"]["l"] == 3


def test_record_video_writes_a_file(options: dict[str, Any], tmp_path: Path) -> None:
    page = {"page_lines": 12, "page_width": 60}
    env = gym.make(ID, render_mode="rgb_array", **page, **options)
    env = wrappers.RecordVideo(env, str(tmp_path / "videos"), lambda _: True, disable_logger=True)
    env.reset()
    env.step(BUILT)
    env.step(SUBMIT)
    env.close()
    (video,) = (tmp_path / "videos").glob("*.mp4")
    assert video.stat().st_size > 1000


# Vector environments


def play_two(vec: gym.vector.VectorEnv[Any, Any, Any]) -> list[Any]:
    """Two environments whose texts differ at every step."""
    observations = [vec.reset(seed=[1, 2])[0]]
    for pair in ((REVIEW, "hello"), (BUILT, REVIEW), ("語🙂", BUILT), (SUBMIT, "hello")):
        observations.append(vec.step(pair)[0])
    vec.close()
    return observations


def test_make_vec_delivers_every_observation(options: dict[str, Any]) -> None:
    """Neither zeros nor the first observation for ever."""
    found = play_two(gym.make_vec(ID, num_envs=2, vectorization_mode="async", **options))
    assert all(type(batch) is tuple and len(set(batch)) == 2 for batch in found)
    prompt, _, edited, error, submitted = (batch[0] for batch in found)
    assert prompt.startswith("# Job\n")
    assert edited.startswith("@@ -6 +6 @@\n")
    assert error.startswith("error (no_call)")
    assert submitted.startswith("submitted\n")
    left = [batch[1].split("turns left: ")[1].split("/")[0] for batch in found]
    assert left == ["10", "9", "8", "7", "6"]


def test_async_with_default_shared_memory_equals_sync(options: dict[str, Any]) -> None:
    makers = [lambda: gym.make(ID, **options)] * 2
    assert play_two(AsyncVectorEnv(makers)) == play_two(SyncVectorEnv(makers))


def test_spawned_workers_find_the_id_by_its_module(options: dict[str, Any]) -> None:
    vec = AsyncVectorEnv([lambda: gym.make(FULL_ID, **options)], context="spawn")
    assert vec.reset()[0][0].startswith("# Job\n")
    assert vec.step((BUILT,))[0][0].startswith("@@ -6 +6 @@")
    vec.close()


def test_vector_info_keeps_fractions(options: dict[str, Any]) -> None:
    with closing(gym.make_vec(ID, num_envs=2, vectorization_mode="sync", **options)) as vec:
        vec.reset()
        _, reward, _, _, info = vec.step((REVIEW, BUILT))
        assert list(reward) == [1.0, 0.25]
        assert list(info["reward_edit"]) == [0.0, 0.25]
        assert list(info["episode_reward"]) == [1.0, 0.25]
        assert list(info["resume"]) == [RESUME, RESUME.replace("Helped build", "Built")]
        kinds = {name: info[name].dtype for name in ("reward_edit", "score", "edits", "submitted")}
        assert list(kinds.values()) == [np.float64, np.float64, np.int64, np.bool_]


def test_next_step_autoreset_swallows_an_action(options: dict[str, Any]) -> None:
    with closing(gym.make_vec(ID, num_envs=2, vectorization_mode="async", **options)) as vec:
        next_step = gym.vector.AutoresetMode.NEXT_STEP
        assert (
            vec.metadata["autoreset_mode"] == next_step == ResumeEditEnv.metadata["autoreset_mode"]
        )
        vec.reset()
        vec.step((SUBMIT, REVIEW))
        observations, reward, _, _, info = vec.step((BUILT, BUILT))
        assert observations[0].startswith("# Job\n")
        assert list(reward) == [0.0, 0.25]
        assert list(info["edits"]) == [0, 1]
