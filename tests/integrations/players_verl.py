"""verl's agent loop manager, workers, client and load balancer; only the model's server is ours."""

import atexit
import json
import math
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import datasets
import ray
from hydra import compose, initialize_config_module
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopManager
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.rollout.llm_server import GlobalRequestLoadBalancer, LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from resume_gym.integrations.verl import write_dataset
from resume_gym.testing import Played, Script

NANO = str(Path(__file__).parents[2] / "learners" / "nano" / "policy")
ROOM = 8192
SCRATCH = TemporaryDirectory()
datasets.config.HF_DATASETS_CACHE = Path(SCRATCH.name, "cache")
OVERRIDES = (
    f"actor_rollout_ref.model.path={NANO}",
    "actor_rollout_ref.model.external_lib=resume_gym.integrations.verl",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "data.max_prompt_length=3072",
    f"data.max_response_length={ROOM}",
)


@ray.remote
class Scripted:
    """A server that says what scripts say, a character a token, as no tokenizer would write it."""

    def __init__(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(NANO)
        self.scripts: dict[str, tuple[str, ...]] = {}
        self.calls: list[tuple[list[int], list[int]]] = []

    def play(self, *scripts: tuple[str, tuple[str, ...]]) -> None:
        """Say these actions in conversations that hold these texts."""
        self.scripts, self.calls = dict(scripts), []

    def heard(self) -> list[tuple[list[int], list[int]]]:
        """What was asked and said."""
        return self.calls

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        asked = self.tokenizer.decode(prompt_ids)
        turn = asked.count("<|im_start|>assistant\n") - 1
        [actions] = [actions for text, actions in self.scripts.items() if text in asked]
        assert turn < len(actions), "the agent was asked after the end"
        ids = [i for character in actions[turn] for i in self.tokenizer.encode(character)]
        ids.append(self.tokenizer.eos_token_id)
        self.calls.append((prompt_ids, ids))
        versions = dict.fromkeys(("min_global_steps", "max_global_steps"), len(self.calls))
        logprobs = [-math.log(i + 2) for i in ids]
        return TokenOutput(token_ids=ids, log_probs=logprobs, extra_fields=versions)


@cache
def config(*overrides: str) -> Any:
    """verl's own, of its trainer."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=[*OVERRIDES, *overrides])


@cache
def server() -> Any:
    """The one server, in a small Ray cluster of this process."""
    here = {"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}}  # for its modules
    ray.init(num_cpus=6, include_dashboard=False, log_to_driver=False, runtime_env=here)
    atexit.register(ray.shutdown)
    return Scripted.remote()


@cache
def client() -> LLMServerClient:
    balancer = ray.remote(GlobalRequestLoadBalancer).remote(servers={"scripted": server()})
    return LLMServerClient(config(), balancer)


@cache
def manager() -> AgentLoopManager:
    return AgentLoopManager.create(config(), client())


@cache
def dataset(env_id: str, options: str) -> RLHFDataset:
    path = f"{SCRATCH.name}/{uuid4().hex}.parquet"
    write_dataset(path, env_id, **json.loads(options))
    return RLHFDataset(path, AutoTokenizer.from_pretrained(NANO), config().data)


def rows(*scripts: Script, judge: str = "rubric") -> list[dict[str, Any]]:
    """The dataset's rows of these scripts' tasks; the server will say the scripts there."""
    options = json.dumps({"judge": judge, **scripts[0].options})
    made = dataset(scripts[0].env_id, options)
    index = {row["extra_info"]["task_id"]: i for i, row in enumerate(made)}
    chosen = [made[index[script.task_id]] for script in scripts]
    texts = [row["raw_prompt"][1]["content"] for row in chosen]
    said = [script.actions for script in scripts]
    ray.get(server().play.remote(*zip(texts, said, strict=True)))
    return chosen


def batch(chosen: list[dict[str, Any]], count: int = 1) -> DataProto:
    """What verl's trainer hands to the manager: each row `count` times."""
    return DataProto.from_single_dict(collate_fn(chosen)).repeat(count, interleave=True)


def played(out: DataProto, i: int = 0) -> Played:
    """What the trainer is given of an episode."""
    told = out.non_tensor_batch
    terms = [key for key in out.meta_info["reward_extra_keys"] if key.startswith("reward_")]
    return Played(
        told["extra_info"][i]["task_id"],
        told["turn_scores"][i],
        out.batch["rm_scores"][i].sum().item(),
        str(told["text"][i]),
        {key.removeprefix("reward_"): float(told[key][i]) for key in terms},
    )


def play(script: Script, judge: str) -> Played:
    return played(manager().generate_sequences(batch(rows(script, judge=judge))))


PLAYERS = {"agent_loop": play}
