"""What shared prefixes save of the default run's training step: rollouts of the bundled policy.

    python benchmarks/nano_step.py [--quick]

The first step of `python learners/aipo.py` is played; its optimizer step is then taken in turns:
with prefixes shared; likewise, but with attention in a loop over the nodes of the prefix trees, a
masked call each; and with each rollout apart. The learning rate is so small that all train the
same weights.
"""

import asyncio
import sys
import time
from dataclasses import replace
from statistics import median

import torch
from record import Figure, finish, options

from learners.advantages import by_turn
from learners.config import Config
from learners.engines.transformers import TransformersEngine
from learners.losses import aipo
from learners.rollouts.orchestrator import Orchestrator
from learners.rollouts.workload import Workload
from learners.training import packed_attention
from learners.training.backends.local import LocalBackend
from learners.training.batching import Sample, pack, unshare
from learners.training.cpu import prepare_cpu
from learners.training.policy import Policy


def record_step(config: Config, policy: Policy) -> list[Sample]:
    """The samples of one step, with their advantages."""
    work = Workload.of(config)
    few = replace(work, tasks=work.tasks[: config.groups])
    orchestrator = Orchestrator(config, few, TransformersEngine(policy), None, print)
    rollouts = asyncio.run(orchestrator.batch(1)).rollouts
    samples = [one.sample() for one in rollouts]
    ledgers = [one.session.ledgers for one in rollouts]
    groups = torch.tensor([one.group for one in rollouts])
    advantages, _ = by_turn(ledgers, groups, [one.turns for one in samples], {})
    return [one.credited(turns) for one, turns in zip(samples, advantages, strict=True)]


def main() -> int:
    """Measure, print, record."""
    args = options(__doc__ or "")
    prepare_cpu()
    torch.manual_seed(1)
    config = replace(Config(), learning_rate=1e-15)
    if args.quick:
        config = replace(config, groups=2, group_size=4)
    backend = LocalBackend()
    policy = backend.prepare(config)
    samples = record_step(config, policy)
    shared, separate = (pack(one, config.row_tokens) for one in (samples, unshare(samples)))
    rows = {"shared": shared, "loop": shared, "separate": separate}
    ways = {"loop": lambda value: packed_attention._in_a_loop}
    usual = packed_attention._implementation
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    norms = {}
    for turn in range(2 if args.quick else 4):
        for name, one in rows.items():
            packed_attention._implementation = ways.get(name, usual)
            began = time.perf_counter()
            norms[name] = backend.train_step(one, aipo)["gradient_norm"]
            if turn:  # the first is slower: memory is new
                seconds[name].append(time.perf_counter() - began)
    tokens = {name: sum(len(row.tokens) for row in one) for name, one in rows.items()}

    def ratio(name: str) -> float:
        each = zip(seconds["shared"], seconds[name], strict=True)
        return median(other / own for own, other in each)

    figures = [
        Figure("seconds a training step, shared", median(seconds["shared"])),
        Figure("time, loop / shared", ratio("loop"), at_least=1.0),
        Figure("time, separate / shared", ratio("separate"), at_least=1.0),
        Figure("tokens, shared", tokens["shared"]),
        Figure("tokens, separate / shared", tokens["separate"] / tokens["shared"]),
        Figure(
            "gradient norm, separate from shared, relative, 1e-6",
            abs(norms["separate"] / norms["shared"] - 1) * 1e6,
            at_most=100,
        ),
    ]
    return finish("nano_step", args, figures, {"seconds": seconds}, ("torch", "transformers"))


if __name__ == "__main__":
    sys.exit(main())
