"""The policy module: a transformers causal LM that returns log-probabilities of loss tokens."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from learners.attention import NAME
from learners.batching import Batch
from learners.head import Head


class Policy(nn.Module):
    """A causal LM at a sampling temperature; what samples, what trains, and what is sharded.

    Args:
        model: any transformers causal LM whose attention goes through `AttentionInterface`. Its
            head is replaced by one that shares its weight.
        temperature: divides the logits, as the sampler's does.
        precision: "float32", or "bfloat16" for autocast with fp32 weights.
        checkpointing: keep only what enters each layer, and compute the rest again in the
            backward pass; in training mode.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        temperature: float,
        precision: str,
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        model.config._attn_implementation = NAME
        model.set_output_embeddings(Head(model.get_output_embeddings()))
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        self.model = model
        self.temperature = temperature
        self.precision = precision

    def autocast(self) -> AbstractContextManager[None]:
        """The context in which both sampling and training run the model."""
        device = self.model.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.precision == "bfloat16")

    def hidden(self, tokens: Tensor, positions: Tensor, **attention: object) -> Tensor:
        """The last hidden states [batch, t, width]; the head is left to the caller."""
        decoder = self.model.get_decoder()
        return decoder(input_ids=tokens, position_ids=positions, **attention).last_hidden_state  # type: ignore[no-any-return]

    def logprobs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities [n, vocabulary] at the temperature, in fp32."""
        head = self.model.get_output_embeddings()
        return torch.log_softmax(head(hidden, temperature=self.temperature), dim=-1)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probabilities [n] of the row's loss tokens, and entropies [n] (no gradient)."""
        with self.autocast():
            tokens, positions = batch.tokens[None], batch.positions[None]
            hidden = self.hidden(tokens, positions, spans=batch.spans, use_cache=False)[0]
            head = self.model.get_output_embeddings()
            return head(hidden[batch.predicts], batch.targets, self.temperature)  # type: ignore[no-any-return]
