"""Let three scripted agents play two tasks in SkyRL's generator.

Configuration, dataset and generator are classes of SkyRL; the tokenizer is that of the nano policy.
The class `Engine`, which returns the turns of the scripted agents, replaces SkyRL's inference
engine (vLLM on a GPU). The reward of a turn is on its last token.

    pip install torch==2.13.0
    pip install -e . skyrl==0.3.0 skyrl-gym==0.4.0 ray==2.56.0 aiohttp==3.14.5
    pip install jaxtyping==0.3.11 loguru==0.7.3 tensordict==0.15.3 torchdata==0.11.0
    python examples/skyrl_generator.py

The example prints

    mini-train-0-000000 careful  6.50 stop +1.00 +0.25 +0.25 +0.25 +0.25 +4.50
    mini-train-0-000000 random  -1.75 stop +0.25 -0.25 +0.25 -0.25 +0.25 -2.00
    mini-train-0-000000 noop     0.75 stop +0.75
    mini-train-0-000001 careful  4.50 stop +1.00 +0.25 +0.25 +0.25 +0.25 +2.50
    mini-train-0-000001 random  -3.75 stop -0.25 -0.25 +1.00 -0.25 -0.25 -3.75
    mini-train-0-000001 noop    -1.25 stop -1.25
    environment/mean_done: 1.000
    environment/mean_episode_reward: 0.833
    environment/mean_reward_malformed: -0.125
    environment/mean_reward_edit: 0.542
    environment/mean_reward_preference: 0.000
"""

import asyncio
import sys
import tempfile
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import typing_extensions
from datasets import Dataset
from transformers import AutoTokenizer

from resume_gym.agents import make_agent
from resume_gym.integrations.skyrl import register, rows
from resume_gym.support.command_line import parse_nothing

if sys.version_info < (3, 12):  # otherwise, pydantic rejects a class of skyrl
    typing.TypedDict = typing_extensions.TypedDict

from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.dataset import PromptDataset
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator
from skyrl.train.generators.utils import prepare_generator_input

ENV, AGENTS = "ResumeEditMini-v0", ("careful", "random", "noop")
NANO = Path(__file__).parents[1] / "learners" / "nano" / "policy"


class Engine:
    """Inference engine that answers with `speak(name)`, where `name` is the rollout's name."""

    def __init__(self, tokenizer: Any, speak: Callable[[str], str]) -> None:
        self.tokenizer, self.speak = tokenizer, speak

    async def generate(self, request: dict[str, Any], model: str | None = None) -> dict[str, Any]:
        """Return a turn per session ID in the request; SkyRL's generator sends one ID at a time."""
        texts = [self.speak(name) for name in request["session_ids"]]
        ids = [self.tokenizer.encode(text + self.tokenizer.eos_token) for text in texts]
        certain = [[0.0] * len(turn) for turn in ids]  # log-probabilities: all tokens are certain
        said = {"responses": texts, "response_ids": ids, "response_logprobs": certain}
        return {**said, "stop_reasons": ["stop"] * len(ids)}

    async def finish_session(self, session_id: str) -> None:
        """Do nothing, since this engine keeps no sessions."""


def by_turn(rewards: list[float], mask: list[int]) -> list[float]:
    """Return the reward at the last token of each of the agent's turns."""
    steps = zip(rewards, mask, [*mask[1:], 0], strict=True)
    return [reward for reward, here, after in steps if here > after]


def main() -> None:
    cfg = SkyRLTrainConfig.from_cli_overrides(["generator.max_input_length=8192"])
    cfg.generator.chat_template_kwargs = {"tools": register(ENV)}
    tokenizer = AutoTokenizer.from_pretrained(NANO)
    with tempfile.TemporaryDirectory() as folder:
        Dataset.from_list(rows(ENV)[:2]).to_parquet(f"{folder}/train.parquet")
        dataset = PromptDataset(f"{folder}/train.parquet", tokenizer, 4096, num_workers=1)
    prompts = dataset.collate_fn([dataset[0], dataset[1]])
    batch, _ = prepare_generator_input(prompts, len(AGENTS), None, ENV, "train", 0)

    # rollout "1_2" is the third agent on the second task; each agent plays a copy of the session
    env: Any = gym.make(ENV).unwrapped
    tasks = [env.new_session(prompt["env_extras"]["task_id"]) for prompt in prompts]
    cast = {
        f"{row}_{member}": (make_agent(agent, row), task.fork())
        for row, task in enumerate(tasks)
        for member, agent in enumerate(AGENTS)
    }

    def speak(name: str) -> str:
        agent, session = cast[name]
        text = agent(session)
        session.step(text)
        return text

    engine = Engine(tokenizer, speak)
    generator = SkyRLGymGenerator(cfg.generator, cfg.environment.skyrl_gym, engine, tokenizer)
    output = asyncio.run(generator.generate(batch, disable_tqdm=True))
    for i, about in enumerate(output["env_metrics"]):
        turns = by_turn(output["rewards"][i], output["loss_masks"][i])
        end = f"{sum(turns):5.2f} {output['stop_reasons'][i]}"
        print(about["task_id"], f"{AGENTS[i % 3]:8}{end}", *(f"{reward:+.2f}" for reward in turns))
    for name in ("done", "episode_reward", "reward_malformed", "reward_edit", "reward_preference"):
        print(
            f"environment/mean_{name}: {output['rollout_metrics'][f'environment/mean_{name}']:.3f}"
        )


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
