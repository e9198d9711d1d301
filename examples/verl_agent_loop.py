"""Play two groups of episodes with the nano policy in verl's agent loop; compute advantages.

    pip install torch==2.13.0 verl==0.9.1 cachetools fastapi uvicorn && pip install -e .

The agent loop manager, its worker, and the client and load balancer of the model server are classes
of verl, set up as in verl's trainer, in a small Ray cluster on a CPU. Only the vLLM server is
replaced, by a Ray actor that samples with transformers.
Among logs of Ray and other libraries, the example prints (the figures vary from run to run):

    mini-train-0-000000: reward +1.75 = +1.00 +0.25 +0.25 -0.25 -0.25 +0.75
        872 tokens, 188 of them sampled; advantage +0.71
    mini-train-0-000000: reward +1.25 = +1.00 -0.25 -0.25 -0.25 -0.25 +1.25
        732 tokens, 156 of them sampled; advantage -0.71
    mini-train-0-000001: reward +2.75 = +1.00 +0.25 +0.25 +1.25
        620 tokens, 87 of them sampled; advantage +0.71
    mini-train-0-000001: reward +2.25 = +1.00 +0.25 -0.25 +0.25 -0.25 +1.25
        782 tokens, 147 of them sampled; advantage -0.71
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
import torch
from hydra import compose, initialize_config_module
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl import DataProto
from verl.experimental.agent_loop.agent_loop import AgentLoopManager
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn
from verl.workers.rollout.llm_server import GlobalRequestLoadBalancer, LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from resume_gym.integrations.verl import write_dataset
from resume_gym.support.command_line import parse_nothing

NANO = str(Path(__file__).parents[1] / "learners" / "nano" / "policy")
TASKS, GROUP = 2, 2


@ray.remote
class Server:
    """Actor that samples a turn, as verl's vLLM server does."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32)

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Return the tokens of a turn, at most 128."""
        settings = {"do_sample": True, "temperature": sampling_params["temperature"], "top_k": 0}
        prompt = torch.tensor([prompt_ids])
        out = self.model.generate(
            prompt, max_new_tokens=128, output_logits=True, return_dict_in_generate=True, **settings
        )
        ids = out.sequences[0, prompt.shape[1] :]
        logprobs = torch.cat(out.logits).log_softmax(-1)[range(len(ids)), ids]
        return TokenOutput(token_ids=ids.tolist(), log_probs=logprobs.tolist())


def main() -> None:
    overrides = (
        f"actor_rollout_ref.model.path={NANO}",
        "actor_rollout_ref.model.external_lib=resume_gym.integrations.verl",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "data.max_prompt_length=2048",
        "data.max_response_length=2048",
    )
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=list(overrides))
    with TemporaryDirectory() as folder:
        path = f"{folder}/train.parquet"
        write_dataset(path, "ResumeEditMini-v0", split="train")
        tokenizer = AutoTokenizer.from_pretrained(NANO)
        dataset = RLHFDataset(path, tokenizer, config.data)
        rows = [dataset[index] for index in range(TASKS)]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    servers = {"nano": Server.remote()}
    balancer = ray.remote(GlobalRequestLoadBalancer).remote(servers=servers)
    manager = AgentLoopManager.create(config, LLMServerClient(config, balancer))
    batch = DataProto.from_single_dict(collate_fn(rows)).repeat(GROUP, interleave=True)
    out = manager.generate_sequences(batch)
    ray.shutdown()

    told, mask = out.non_tensor_batch, out.batch["response_mask"]
    groups = [info["task_id"] for info in told["extra_info"]]
    advantages, _ = compute_grpo_outcome_advantage(out.batch["rm_scores"], mask, groups)
    lengths = out.batch["attention_mask"][:, -mask.shape[1] :].sum(1).tolist()
    for i, group in enumerate(groups):
        steps = " ".join(f"{reward:+.2f}" for reward in told["turn_scores"][i])
        total = out.batch["rm_scores"][i].sum()
        print(f"{group}: reward {total:+.2f} = {steps}")
        tokens = f"{lengths[i]} tokens, {mask[i].sum()} of them sampled"
        print(f"    {tokens}; advantage {advantages[i].sum() / mask[i].sum():+.2f}")


if __name__ == "__main__":
    parse_nothing(__doc__)
    main()
