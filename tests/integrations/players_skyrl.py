"""Through SkyRL's generator, with its environments in threads and in the event loop."""

import asyncio
import json
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

from datasets import Dataset
from scripts import OTHER, TASK
from skyrl_generator import NANO, Engine, by_turn
from transformers import AutoTokenizer

from resume_gym.integrations.skyrl import register, rows
from resume_gym.testing import ENV, Played, Script

from skyrl.train.config import SkyRLTrainConfig  # isort: skip  # after the example, see there
from skyrl.train.dataset import PromptDataset  # isort: skip
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator  # isort: skip
from skyrl.train.generators.utils import prepare_generator_input  # isort: skip

TASKS = [TASK.task_id, OTHER.task_id]
TOKENIZER: Any = AutoTokenizer.from_pretrained(NANO, padding_side="left")


@cache
def dataset(env_id: str = ENV, options: str = "{}", *task_ids: str) -> PromptDataset:
    """The two tasks of the scripts, or tasks of another environment, as SkyRL reads them."""
    made = rows(env_id, **json.loads(options))
    kept = [row for row in made if row["task_id"] in (task_ids or TASKS)]
    with tempfile.TemporaryDirectory() as folder:
        Dataset.from_list(kept).to_parquet(f"{folder}/train.parquet")
        return PromptDataset(f"{folder}/train.parquet", TOKENIZER, 4096, num_workers=1)


def config(*settings: str, env_id: str = ENV, **kwargs: Any) -> Any:
    """SkyRL's, with an environment made with `kwargs`."""
    cfg = SkyRLTrainConfig.from_cli_overrides(["generator.max_input_length=8192", *settings])
    cfg.generator.chat_template_kwargs = {"tools": register(env_id, **kwargs)}
    return cfg


def make_generator(cfg: Any, speak: Callable[[str], str]) -> SkyRLGymGenerator:
    engine = Engine(TOKENIZER, speak)
    return SkyRLGymGenerator(cfg.generator, cfg.environment.skyrl_gym, engine, TOKENIZER)


def batch(task_ids: list[str], members: int) -> tuple[Any, list[str]]:
    """What SkyRL's trainer makes of rows; rollout `0_1` is the second on the first task."""
    return collated([dataset()[TASKS.index(task_id)] for task_id in task_ids], members)


def collated(chosen: list[Any], members: int) -> tuple[Any, list[str]]:
    numbered = [(*row[:3], str(i)) for i, row in enumerate(chosen)]
    return prepare_generator_input(dataset().collate_fn(numbered), members, None, ENV, "train", 0)


def generate(
    task_ids: list[str], members: int, speak: Callable[[str], str], *settings: str, **kwargs: Any
) -> Any:
    return generated(batch(task_ids, members)[0], config(*settings, **kwargs), speak)


def generated(asked: Any, cfg: Any, speak: Callable[[str], str]) -> Any:
    return asyncio.run(make_generator(cfg, speak).generate(asked, disable_tqdm=True))


def played(output: Any, i: int) -> Played:
    """A rollout, by what the generator hands to the trainer."""
    about, given = output["env_metrics"][i], output["rewards"][i]
    rewards = by_turn(given, output["loss_masks"][i])
    names = [name for name in about if name.startswith("reward_")]
    ledger = {name.removeprefix("reward_"): about[name] for name in names}
    return Played(about["task_id"], rewards, sum(given), about["text"], ledger)


def _player(*settings: str) -> Callable[[Script, str], Played]:
    def play(script: Script, judge: str) -> Played:
        actions = iter(script.actions)
        rows = dataset(script.env_id, json.dumps(dict(script.options)), script.task_id)
        cfg = config(*settings, env_id=script.env_id, judge=judge, **script.options)
        return played(generated(collated([rows[0]], 1)[0], cfg, lambda _: next(actions)), 0)

    return play


PLAYERS = {
    "threads": _player(),
    "event loop": _player("environment.skyrl_gym.max_env_workers=0"),
}
