"""Parts of benchmarks/trainer.py: the loss of TRL's GRPOTrainer, and settings of a comparison."""

import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from learners.training.models import NANO
from learners.training.rows import Sample


class Race(NamedTuple):
    """Settings of one speed comparison between trainers, on recorded episodes."""

    episodes: str
    precision: str
    checkpointing: bool
    rounds: int

    def __str__(self) -> str:
        return f"{self.episodes}, {self.precision}" + (", checkpointing" * self.checkpointing)


def make_model() -> PreTrainedModel:
    """Return a Qwen3 of about the nano policy's size, with the same random weights each time."""
    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        vocab_size=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


class TRL:
    """Forward and backward passes of TRL's trainer, one per micro-batch."""

    def __init__(self, race: Race, samples: list[Sample], largest: int, as_installed: bool) -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        # a padded micro-batch has at most `largest` tokens, as many as the largest prefix tree
        longest = max(len(one.prompt) + len(one.response) for one in samples)
        fits = range(1, max(1, largest // longest) + 1)
        together = max(count for count in fits if len(samples) % count == 0)
        passes = len(samples) // together
        self.as_installed = as_installed
        self.model = make_model()
        settings = GRPOConfig(
            output_dir=tempfile.gettempdir(),
            use_cpu=True,
            bf16=race.precision == "bfloat16",
            per_device_train_batch_size=together,
            gradient_accumulation_steps=passes,
            num_generations=len(samples),
            max_completion_length=longest,
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
        # set what TRL's `train` would set before its first step
        self.trainer.current_gradient_accumulation_steps = passes
        if race.checkpointing:
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        self.model.train()
        total = sum(sum(one.sampled) for one in samples)
        self.batches = [
            self._inputs(samples[start : start + together], total)
            for start in range(0, len(samples), together)
        ]

    @staticmethod
    def _inputs(samples: list[Sample], total: int) -> dict[str, Tensor]:
        def padded(name: str, left: bool = False) -> Tensor:
            columns = [torch.tensor(getattr(one, name)) for one in samples]
            side = "left" if left else "right"
            return pad_sequence(columns, batch_first=True, padding_side=side)

        def mask(name: str, left: bool = False) -> Tensor:
            ones = [torch.ones(len(getattr(one, name)), dtype=torch.long) for one in samples]
            side = "left" if left else "right"
            return pad_sequence(ones, batch_first=True, padding_side=side)

        return {
            "prompt_ids": padded("prompt", left=True),
            "prompt_mask": mask("prompt", left=True),
            "completion_ids": padded("response"),
            "completion_mask": mask("response"),
            "tool_mask": padded("sampled").long(),
            "old_per_token_logps": padded("logprobs"),
            "advantages": padded("advantages"),
            "num_items_in_batch": torch.tensor(total),
        }

    def step(self) -> None:
        """Compute the gradients of all micro-batches."""
        self._run(lambda inputs: self.trainer._compute_loss(self.model, inputs).backward())

    def logprobs(self) -> Tensor:
        """Return the log-probabilities of all loss tokens as one vector, batch after batch."""

        def logprobs(inputs: dict[str, Tensor]) -> Tensor:
            ids, masks = (
                torch.cat([inputs[f"prompt_{name}"], inputs[f"completion_{name}"]], dim=1)
                for name in ("ids", "mask")
            )
            length = inputs["completion_ids"].shape[1]
            score = self.trainer._get_per_token_logps_and_entropies
            return score(self.model, ids, masks, length)[0][inputs["tool_mask"] > 0]

        with torch.no_grad():
            return torch.cat(self._run(logprobs))

    def _run(self, one_pass: Callable[[dict[str, Tensor]], Any]) -> list[Any]:
        from trl.trainer import utils

        # with `_use_triton`, TRL skips the logits of the prompts; it has no other effect, and
        # starts no kernel
        original = utils._use_triton
        if not self.as_installed:
            utils._use_triton = lambda device: True
        try:
            return [one_pass(inputs) for inputs in self.batches]
        finally:
            utils._use_triton = original
