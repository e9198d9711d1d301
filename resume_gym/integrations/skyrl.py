"""Adapter for SkyRL: a SkyRL-Gym environment for its generator and trainers.

    Dataset.from_list(rows("ResumeEdit-v0")).to_parquet("train.parquet")
    # run this line before BasePPOExp(cfg).run(), in the same Ray task:
    cfg.generator.chat_template_kwargs = {"tools": register("ResumeEdit-v0", split=None)}

Set `environment.env_class=ResumeEdit-v0`, `generator.max_turns` above 1, and
`generator.max_input_length` to the maximum number of tokens of a whole chat. Columns of the dataset
are prompt, env_class, task_id and data_source. The options `generator.batched`,
`generator.step_wise_trajectories` and `generator.chat_template` are not supported; with the last
two, SkyRL keeps only the reward of the last turn. Tested with skyrl-gym 0.4.0 and skyrl 0.3.0.
"""

from typing import Any, ClassVar

import gymnasium as gym
import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv

from resume_gym.llm.loop import submit


class SkyRLEnv(BaseTextEnv):  # type: ignore[misc]
    """One episode; `register` creates a subclass whose attribute `env` is the environment."""

    env: ClassVar[Any]

    def __init__(self, env_config: object, extras: dict[str, object]) -> None:
        super().__init__()
        self.session = self.env.new_session(extras["task_id"])
        self.task_id = extras["task_id"]

    def init(self, prompt: object) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Return the session's first messages and info; ignore `prompt`, which may be outdated."""
        return self.session.messages, self.session.info()

    def step(self, action: str) -> dict[str, Any]:
        """Take one action; after the last action, ask the judge, which may raise JudgeError."""
        observation, reward, done, _, _ = self.session.step(action)
        if done:  # waiting for the judge blocks only one of the generator's environment threads
            reward += sum(submit(self.env.agrade(self.session)).result().values())
        result = {"reward": reward, "done": done, "metadata": self.session.info()}
        return {"observations": [{"role": "tool", "content": observation}][done:], **result}

    def get_metrics(self) -> dict[str, Any]:
        """Return the episode's text, reward and reward terms, for the generator's `env_metrics`."""
        terms = {f"reward_{name}": value for name, value in self.session.ledger.items()}
        about = {"task_id": self.task_id, "text": self.session.text}
        return {**about, "done": self.session.done, "episode_reward": self.session.reward, **terms}

    @staticmethod
    def aggregate_metrics(metrics: list[dict[str, object]]) -> dict[str, float]:
        """Average the metrics, and name them "mean_*": SkyRL sums metrics with other names."""
        return {f"mean_{k}": v for k, v in BaseTextEnv.aggregate_metrics(metrics).items()}


def register(env_id: str = "ResumeEdit-v0", **kwargs: Any) -> list[dict[str, Any]]:
    """Register `gymnasium.make(env_id, **kwargs)` with SkyRL-Gym; return its tool schemas.

    An earlier registration of `env_id` is replaced.
    """
    env: Any = gym.make(env_id, **kwargs).unwrapped
    tools = [dict(tool) for tool in env.new_session().tools]
    skyrl_gym.registry.pop(env_id, None)
    skyrl_gym.register(env_id, type("Episode", (SkyRLEnv,), {"env": env}))
    return tools


def rows(env_id: str = "ResumeEdit-v0", **kwargs: Any) -> list[dict[str, Any]]:
    """Return SkyRL's dataset, one row per task of `gymnasium.make(env_id, **kwargs)`."""
    env: Any = gym.make(env_id, **kwargs).unwrapped
    prompts = {task.task_id: env.new_session(task.task_id).messages for task in env.tasks}
    about = {"env_class": env_id, "data_source": env_id}
    return [{"prompt": prompt, "task_id": name, **about} for name, prompt in prompts.items()]
