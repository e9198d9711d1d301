"""TRL's GRPOTrainer, its loss alone, as benchmarks/trainer.py compares it; and what is compared."""

import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from learners.training.batching import Sample
from learners.training.models import NANO


class Case(NamedTuple):
    """A group of rollouts and a model for it; lengths in tokens."""

    prompt: int
    response: int
    rollouts: int
    layers: int
    vocabulary: int

    def __str__(self) -> str:
        return f"{self.prompt}/{self.response}/{self.rollouts}"

    @property
    def together(self) -> int:
        """Rollouts a pass without sharing: as many as have no more tokens than the shared row."""
        row, one = self.prompt + self.rollouts * self.response, self.prompt + self.response
        fits = range(1, row // one + 1)
        return max(count for count in fits if self.rollouts % count == 0)


class Race(NamedTuple):
    """One comparison; `wanted` are least ratios of times, by trainer."""

    case: Case
    precision: str
    checkpointing: bool
    rounds: int
    wanted: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        return f"{self.case} {self.precision}" + (", checkpointing" if self.checkpointing else "")


def make_model(case: Case) -> PreTrainedModel:
    """A random Qwen3, the same each time."""
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=case.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        vocab_size=case.vocabulary,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


class TRL:
    """The same of TRL's trainer: its loss of each micro-batch, and backward."""

    def __init__(self, race: Race, samples: list[Sample], as_installed: bool) -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        case = race.case
        passes = case.rollouts // case.together
        self.as_installed = as_installed
        self.model = make_model(case)
        settings = GRPOConfig(
            output_dir=tempfile.gettempdir(),
            use_cpu=True,
            bf16=race.precision == "bfloat16",
            per_device_train_batch_size=case.together,
            gradient_accumulation_steps=passes,
            num_generations=case.rollouts,
            max_completion_length=case.response,
            temperature=1.0,
            beta=0.0,
            loss_type="dapo",
            gradient_checkpointing=race.checkpointing,
            report_to=[],
        )
        self.trainer = GRPOTrainer(
            self.model,
            lambda completions, **_: [0.0] * len(completions),
            args=settings,
            train_dataset=Dataset.from_list([{"prompt": ""}]),
            processing_class=AutoTokenizer.from_pretrained(NANO),
        )
        # what `train` would do before its first step
        self.trainer.current_gradient_accumulation_steps = passes
        if race.checkpointing:
            self.model.activation_checkpointing_enable({"use_reentrant": False})
        self.model.train()
        self.batches = [
            self._inputs(samples[start : start + case.together], case)
            for start in range(0, case.rollouts, case.together)
        ]

    @staticmethod
    def _inputs(samples: list[Sample], case: Case) -> dict[str, Tensor]:
        prompts = torch.tensor([one.prompt for one in samples])
        responses = torch.tensor([one.response for one in samples])
        return {
            "prompt_ids": prompts,
            "prompt_mask": torch.ones_like(prompts),
            "completion_ids": responses,
            "completion_mask": torch.ones_like(responses),
            "old_per_token_logps": torch.tensor([one.logprobs for one in samples]),
            "advantages": torch.tensor([one.advantages[0] for one in samples]),
            "num_items_in_batch": torch.tensor(case.rollouts * case.response),
        }

    def step(self) -> None:
        """Leaves gradients behind."""
        self._run(lambda inputs: self.trainer._compute_loss(self.model, inputs).backward())

    def logprobs(self) -> Tensor:
        """Of all loss tokens, by rollout."""

        def logprobs(inputs: dict[str, Tensor]) -> Tensor:
            ids, masks = (
                torch.cat([inputs[f"prompt_{name}"], inputs[f"completion_{name}"]], dim=1)
                for name in ("ids", "mask")
            )
            length = inputs["completion_ids"].shape[1]
            score = self.trainer._get_per_token_logps_and_entropies
            return score(self.model, ids, masks, length)[0].flatten()

        with torch.no_grad():
            return torch.cat(self._run(logprobs))

    def _run(self, one_pass: Callable[[dict[str, Tensor]], Any]) -> list[Any]:
        from trl.trainer import utils

        # only what picks the positions asks here; kernels have their own reference
        original = utils._use_triton
        if not self.as_installed:
            utils._use_triton = lambda device: True
        try:
            return [one_pass(inputs) for inputs in self.batches]
        finally:
            utils._use_triton = original
