"""Through Stable-Baselines3: a scripted policy in `evaluate_policy`, on a monitored DummyVecEnv."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from resume_gym.integrations.sb3 import MenuEnv
from resume_gym.testing import Played, Script


class Scripted(BasePolicy):
    """Chooses the first place of the menu, then the second, and so on to the last."""

    def __init__(self, env: VecEnv, turns: int) -> None:
        super().__init__(env.observation_space, env.action_space)
        self.said, self.turns = 0, turns

    def _predict(self, observation: Any, deterministic: bool = False) -> Any:
        assert self.said < self.turns, "asked once more after the end of the script"
        self.said += 1
        return observation.new_full((len(observation),), self.said - 1).long()


def scripted_env(vec_env_cls: type[Any], script: Script, judge: str) -> VecEnv:
    """Whose menu is the script's actions."""
    menu = {"menu": lambda session: script.actions, "places": len(script.actions)}
    return make_vec_env(
        MenuEnv,
        env_kwargs={"env_id": script.env_id, "judge": judge, **script.options, **menu},
        monitor_kwargs={"info_keywords": ("ledger", "task_id", "resume")},
        vec_env_cls=vec_env_cls,
    )


def play(vec_env_cls: type[Any], script: Script, judge: str) -> Played:
    env = scripted_env(vec_env_cls, script, judge)
    env.set_options({"task_id": script.task_id})
    rewards: list[float] = []
    terms: Counter[str] = Counter()
    infos: list[dict[str, Any]] = []

    def collect(seen: dict[str, Any], _: Any) -> None:
        rewards.append(float(seen["reward"]))
        infos.append(seen["info"])
        terms.update({k: v for k, v in seen["info"].items() if k.startswith("reward_")})

    policy = Scripted(env, len(script.actions))
    totals, turns = evaluate_policy(policy, env, 1, callback=collect, return_episode_rewards=True)
    env.close()
    assert turns == [len(rewards)]
    episode = infos[-1]["episode"]
    # what the last observation was, though the environment has been reset by now
    assert infos[-1]["terminal_observation"].shape == env.observation_space.shape
    assert {f"reward_{name}": value for name, value in episode["ledger"].items()} == terms
    assert np.isclose(episode["r"], sum(rewards))
    return Played(episode["task_id"], rewards, totals[0], episode["resume"], episode["ledger"])


PLAYERS: dict[str, Callable[[Script, str], Played]] = {
    "dummy": lambda script, judge: play(DummyVecEnv, script, judge),
}
