"""Policy module: a transformers causal LM that returns log-probabilities of loss tokens."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import MethodType

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from learners.training.attention import NAME
from learners.training.head import ChunkedHead
from learners.training.rows import PackedRow


class Policy(nn.Module):
    """Causal LM for sampling and training; backends may shard the weights.

    Args:
        model: any transformers causal LM that uses `AttentionInterface`. Its head is replaced by
            a `ChunkedHead` with the same weight.
        temperature: divisor of the logits in training, equal to the sampler's.
        precision: "float32", or "bfloat16" for autocast; the weights are fp32 in both cases.
        checkpointing: in training mode, store only the input of each layer and recompute the
            layer in the backward pass.
        compiled: compile MLPs, norms and rotary embeddings; see `compile_parts`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        temperature: float,
        precision: str,
        checkpointing: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        model.config._attn_implementation = NAME
        model.set_output_embeddings(ChunkedHead(model.get_output_embeddings()))
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if compiled:
            compile_parts(model)
        self.model = model
        self.temperature = temperature
        self.precision = precision

    def autocast(self) -> AbstractContextManager[None]:
        """Return the autocast context for all forward passes, in sampling and in training."""
        device = self.model.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.precision == "bfloat16")

    def hidden(self, tokens: Tensor, positions: Tensor, **attention: object) -> Tensor:
        """Return the last hidden states [batch, t, width], without applying the head."""
        decoder = self.model.get_decoder()
        return decoder(input_ids=tokens, position_ids=positions, **attention).last_hidden_state  # type: ignore[no-any-return]

    def logprobs(self, hidden: Tensor, temperatures: Tensor) -> Tensor:
        """Return log-probabilities [n, vocabulary] at the rows' temperatures [n, 1], in fp32."""
        head = self.model.get_output_embeddings()
        return torch.log_softmax(head(hidden) / temperatures, dim=-1)

    def forward(
        self, batch: PackedRow, taught: Tensor | None = None, head: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the loss tokens' log-probabilities [n], and entropies [n] without gradient.

        For a row with marked tokens, the first tensor [n + m] ends with the divergences from the
        predictions after hints, and a third one has the log-probabilities [m] after the hints; see
        `ChunkedHead`. With `taught`, a teacher replaces the hints, and all n tokens are marked.

        Args:
            batch: the row.
            taught: the teacher's hidden states [n, teacher's width] that predict the loss tokens.
            head: the teacher's head [vocabulary, teacher's width].
        """
        with self.autocast():
            hidden = self.predicting(batch)
            given = batch.targets, self.temperature
            output = self.model.get_output_embeddings()
            n = len(batch.targets)
            if taught is not None:
                every = torch.arange(n, device=hidden.device)
                return output(hidden, *given, every, taught, head)  # type: ignore[no-any-return]
            if len(batch.marked):
                # detached here: DeepSpeed counts a module's inputs with gradients
                return output(hidden[:n], *given, batch.marked, hidden[n:].detach())  # type: ignore[no-any-return]
            return output(hidden, *given)  # type: ignore[no-any-return]

    def predicting(self, batch: PackedRow) -> Tensor:
        """Return hidden states [n + m, width] that predict n loss tokens, then m after hints."""
        tokens, positions = batch.tokens[None], batch.positions[None]
        hidden = self.hidden(tokens, positions, nodes=batch.nodes, use_cache=False)[0]
        return hidden[torch.cat([batch.predicts, batch.hinted])]


def compile_parts(model: PreTrainedModel) -> None:
    """Compile the MLPs, norms and rotary embeddings of a model in place, for rows of any length.

    Attention and whole layers are not compiled: their arguments contain a row's prefix trees, so
    each new row would trigger a compilation. The function that applies rotary embeddings is
    replaced in the Python module of the model's class, and thus for all models of that module.
    """
    compiled: dict[type, Callable[..., Tensor]] = {}
    for module in model.get_decoder().modules():
        kind = type(module)
        if kind.__name__.endswith(("MLP", "RMSNorm")):
            # one compiled function per class: `module.compile()` would compile for each module
            if kind not in compiled:
                compiled[kind] = torch.compile(kind.forward, dynamic=True)
            module.forward = MethodType(compiled[kind], module)
    source = vars(sys.modules[type(model).__module__])
    source["apply_rotary_pos_emb"] = torch.compile(source["apply_rotary_pos_emb"], dynamic=True)
