"""Train a small network to choose edits from a menu, with Stable-Baselines3's PPO on a CPU.

    pip install torch==2.13.0 stable-baselines3==2.9.2 && pip install -e .
    python examples/sb3_menu.py

The menu holds `review`, `submit`, the edits that the scripted agent `careful` plans and, if the
resume is too long, deletions. In 8,192 turns (half a minute), PPO learns when to choose which entry
of the menu. Rewards are means over the 40 held-out tasks of ResumeEditMini-v0, on which `careful`
gets +5.79. The first two policies choose at random: the first among all places of the menu, the
second only among the places that hold an action.

    any place of the menu      +0.68
    any text of the menu       +3.89
    untrained policy           +1.19
    trained policy             +5.58
    trained, likeliest choice  +5.87
"""

from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from resume_gym import load_tasks
from resume_gym.integrations.sb3 import MenuEnv
from resume_gym.support.command_line import parse_nothing


class Chance:
    """Uniform random policy over all places of the menu or, if `masked`, the non-empty places."""

    def __init__(self, env: VecEnv, masked: bool) -> None:
        self.env, self.masked, self.rng = env, masked, np.random.default_rng(0)

    def predict(self, features: Any, **_: Any) -> tuple[Any, None]:
        """Return a random choice for each environment."""
        masks = np.stack(self.env.env_method("action_masks")) | (not self.masked)
        return np.array([self.rng.choice(np.flatnonzero(mask)) for mask in masks]), None


def main(turns: int = 8192) -> dict[str, float]:
    """Train with PPO, and return the mean reward of each policy."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tasks = load_tasks("mini", "eval")
    mini = {"env_id": "ResumeEditMini-v0"}
    held_out = make_vec_env(MenuEnv, len(tasks), env_kwargs={**mini, "split": "eval"})

    def play(chooser: Any, greedy: bool = False) -> float:
        held_out.set_options([{"task_id": task.task_id} for task in tasks])
        mean, _ = evaluate_policy(chooser, held_out, len(tasks), deterministic=greedy)
        return float(mean)

    env = make_vec_env(MenuEnv, n_envs=8, seed=0, env_kwargs=mini)
    settings = {"n_steps": 64, "batch_size": 128, "gamma": 1.0, "ent_coef": 0.01}
    model = PPO("MlpPolicy", env, learning_rate=1e-3, **settings, seed=0, device="cpu")
    rewards = {
        "any place of the menu": play(Chance(held_out, masked=False)),
        "any text of the menu": play(Chance(held_out, masked=True)),
        "untrained policy": play(model),
    }
    model.learn(turns)
    rewards["trained policy"] = play(model)
    rewards["trained, likeliest choice"] = play(model, greedy=True)
    return rewards


if __name__ == "__main__":
    parse_nothing(__doc__)
    for name, reward in main().items():
        print(f"{name:26} {reward:+.2f}")
