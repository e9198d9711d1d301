"""Estimate memory, operations and time of a training step of Qwen3-14B on N GPUs.

    python benchmarks/plan_14b.py --gpus 3 --gpu "NVIDIA H200"
    python benchmarks/plan_14b.py --check    # compare the formulas with a small model

The trainer's own code packs and distributes the rollouts, with shared and with separate prompts.
Times are computed, not measured: all GPUs are assumed to do equal work, at the share
`--utilisation` of the peak speed for dense bf16 products in the data sheet.

`--check` counts the operations of a small model's forward and backward pass and the bytes of its
weights, gradients and optimizer state. Both counts and the plan are written to
benchmarks/results/plan_14b-MACHINE.json.
"""

import argparse
import sys
from typing import Any, NamedTuple

import torch
from record import Figure, finish, parser
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3Config, Qwen3ForCausalLM

from learners.build import backend_settings
from learners.config import Config
from learners.planning.plan import UTILISATION
from learners.training import models, packed_attention
from learners.training.backends.settings import make_optimizer
from learners.training.flops import Sizes, find_gpu, pairs, train_flops, training_bytes
from learners.training.packed_attention import Node
from learners.training.policy import Policy
from learners.training.rows import PackedRow, Sample, distribute, pack, unshare

SMALL = Qwen3Config(
    hidden_size=96,
    intermediate_size=256,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    vocab_size=1000,
    tie_word_embeddings=False,
)


class Step(NamedTuple):
    """Costs of one optimizer step.

    Attributes:
        tokens: number of tokens that pass through the layers, on all GPUs.
        operations: FLOPs on all GPUs, without recomputation.
        busiest: FLOPs of the GPU with the most work, divided by the mean over all GPUs.
    """

    tokens: int
    operations: float
    busiest: float


def group_of(prompt: int, response: int, members: int, group: int = 0) -> list[Sample]:
    """Return rollouts that share only a prompt, with all response tokens sampled."""
    columns = [True] * response, [0.0] * response, [1.0] * response
    # the first response tokens differ, since packing would merge responses that begin alike
    return [
        Sample(group, [0] * prompt, [member, *[0] * (response - 1)], *columns)
        for member in range(members)
    ]


def step(sizes: Sizes, samples: list[Sample], gpus: int, row: int) -> Step:
    """Pack and distribute samples as the trainer does; return the costs."""
    batches = pack(samples, row, gpus)

    def cost(batch: PackedRow) -> float:
        return train_flops(sizes, batch)

    loads = [sum(map(cost, share)) for share in distribute(batches, gpus, cost)]
    tokens = sum(len(batch.tokens) for batch in batches)
    return Step(tokens, sum(map(cost, batches)), max(loads) * gpus / sum(loads))


def plan(args: argparse.Namespace) -> list[Figure]:
    """Return figures of a training step's memory and costs, with shared and separate prompts."""
    sizes = Sizes(models.read_config("Qwen/Qwen3-14B"))
    gpu = find_gpu(args.gpu)
    if gpu is None:
        raise SystemExit(f"--gpu: expected a GPU whose peak is known, got {args.gpu!r}")
    samples = [
        sample
        for group in range(args.groups)
        for sample in group_of(args.prompt, args.response, args.group_size, group)
    ]
    row = args.row_tokens or args.prompt + args.group_size * args.response
    memory = training_bytes(sizes, args.gpus, row)
    figures = [
        Figure("parameters, billions", sizes.parameters / 1e9),
        *(Figure(f"GB a GPU, {name}", value / 1e9) for name, value in memory._asdict().items()),
        Figure("GB a GPU, sharded state", sum(memory[:3]) / 1e9),
        Figure(f"GB a GPU in all, rows of {row:,} tokens", memory.total / 1e9),
    ]
    steps = {
        "shared prompts": step(sizes, samples, args.gpus, row),
        "separate prompts": step(sizes, unshare(samples), args.gpus, row),
    }
    for name, one in steps.items():
        seconds = one.operations / (args.gpus * gpu.flops * args.utilisation)
        figures += [
            Figure(f"thousand tokens a step, {name}", one.tokens / 1e3),
            Figure(f"PFLOP a step, {name}", one.operations / 1e15),
            Figure(f"seconds a step at {args.utilisation:.0%} of the peak, {name}", seconds),
            # forward and backward pass together cost as much as three forward passes, and
            # recomputation as one
            Figure(f"likewise, recomputation counted as work, {name}", seconds * 4 / 3),
            Figure(f"work of the busiest GPU / mean, {name}", one.busiest),
        ]
    shared, separate = steps.values()
    figures.append(Figure("separate / shared, PFLOP", separate.operations / shared.operations))
    return figures


def check() -> list[Figure]:
    """Count a small model's FLOPs and bytes; return their ratios to the formulas' predictions."""
    torch.manual_seed(0)
    policy = Policy(Qwen3ForCausalLM(SMALL), 1.0, "float32")
    sizes = Sizes(SMALL)
    (batch,) = pack(group_of(96, 40, 6) + group_of(64, 24, 3, group=1), 1000)
    # attend with plain matrix products, all of whose FLOPs the counter sees, even those of masked
    # pairs
    packed_attention._implementation = lambda value: packed_attention._in_a_loop
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        policy(batch)[0].sum().backward()
    needed = train_flops(sizes, batch)
    again = 2 * sizes.vocabulary * sizes.width * len(batch.targets)  # recomputed logits
    masked = rectangles(batch.nodes) - pairs(batch.nodes)
    attention = 12 * sizes.heads * sizes.head_size * sizes.layers * masked
    optimizer = make_optimizer(policy.parameters(), backend_settings(Config()))
    optimizer.step()
    memory = training_bytes(sizes, 1, len(batch.tokens))
    weights = list(policy.parameters())
    moments = [one[name] for one in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    measured = [
        (
            "operations counted / formula, all",
            counter.get_total_flops(),
            needed + again + attention,
        ),
        ("bytes / formula, weights", size(weights), memory.weights),
        ("bytes / formula, gradients", size([one.grad for one in weights]), memory.gradients),
        ("bytes / formula, optimizer", size(moments), memory.optimizer),
    ]
    return [
        *(Figure(name, one / other, 0.999, 1.001) for name, one, other in measured),
        Figure("of the operations counted, needed once", needed / counter.get_total_flops()),
    ]


def rectangles(nodes: tuple[Node, ...]) -> int:
    """Count the pairs of a query with a key of its node or an ancestor, including masked pairs."""
    total = 0
    for number, node in enumerate(nodes):
        above = [one for one in nodes[:number] if one.end > node.start]
        keys = sum(one.stop - one.start for one in (*above, node))
        total += (node.stop - node.start) * keys
    return total


def size(tensors: list[Any]) -> int:
    """Return the total size of tensors in bytes."""
    return sum(one.numel() * one.element_size() for one in tensors)


def main() -> int:
    """Print the plan. With --check, test its formulas and record all; return 1 if a test fails."""
    options = parser(__doc__ or "")
    options.add_argument("--gpus", type=int, default=3)
    options.add_argument("--gpu", default="NVIDIA H200", help="the device's name in PyTorch")
    options.add_argument("--groups", type=int, default=3, help="groups per step")
    options.add_argument("--group-size", type=int, default=16, help="rollouts per group")
    options.add_argument("--prompt", type=int, default=3000, help="tokens per prompt")
    options.add_argument("--response", type=int, default=1500, help="tokens per response")
    options.add_argument("--row-tokens", type=int, help="tokens per row (default: one group)")
    options.add_argument("--utilisation", type=float, default=UTILISATION, help="share of the peak")
    options.add_argument("--check", action="store_true", help="measure a small model, record")
    args = options.parse_args()
    figures = plan(args) + (check() if args.check else [])
    args.quick |= not args.check
    settings = {name: value for name, value in vars(args).items() if name not in ("quick", "check")}
    return finish("plan_14b", args, figures, {"options": settings}, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
