"""The policy module: a transformers causal LM that returns log-probabilities of loss tokens."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from learners.attention import NAME
from learners.batching import Batch

_CHUNK = 1024


class Policy(nn.Module):
    """A causal LM at a sampling temperature.

    Args:
        model: any transformers causal LM whose attention goes through `AttentionInterface`.
        temperature: divides the logits, as the sampler's does.
        precision: "float32", or "bfloat16" for autocast with fp32 weights.
    """

    def __init__(self, model: PreTrainedModel, temperature: float, precision: str) -> None:
        super().__init__()
        model.config._attn_implementation = NAME
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
        logits = self.model.get_output_embeddings()(hidden)
        return torch.log_softmax(logits.float() / self.temperature, dim=-1)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Log-probabilities [n] of the row's loss tokens, and entropies [n] (no gradient)."""
        with self.autocast():
            tokens, positions = batch.tokens[None], batch.positions[None]
            hidden = self.hidden(tokens, positions, spans=batch.spans, use_cache=False)[0]
            # logits of [n, vocabulary] are the largest tensor by far: recompute them in chunks
            pieces = [
                checkpoint(self._selected, part, targets, use_reentrant=False)
                for part, targets in zip(
                    hidden[batch.predicts].split(_CHUNK), batch.targets.split(_CHUNK), strict=True
                )
            ]
        logprobs, entropy = zip(*pieces, strict=True)
        return torch.cat(logprobs), torch.cat(entropy).detach()

    def _selected(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logprobs = self.logprobs(hidden)
        selected = logprobs.gather(1, targets[:, None])[:, 0]
        with torch.no_grad():
            entropy = -(logprobs.exp() * logprobs).sum(-1)
        return selected, entropy
