"""Compare the training speed with prefix trees, shared prompts, separate rollouts and TRL.

    pip install trl==1.16.0 datasets
    python benchmarks/trainer.py [--quick]
    python benchmarks/trainer.py --record NAME FILE GROUPS   # add recorded episodes of a run

The samples are recorded multi-turn episodes of the bundled policy before training (early) and after
training (late), in groups of 8 on mini tasks and of 16 on full-size tasks. A timed step is a
forward and backward pass, without the optimizer. `tree` is this project's trainer, `prompt` is the
same trainer with rollouts that share only the prompt, and `separate` is this trainer with rollouts
that share nothing. `trl` is TRL's `GRPOTrainer._compute_loss` (DAPO, no KL term). All trainers have
the same random Qwen3, tokens, precision and checkpointing, and take turns in one process. A batch
of `separate` or `trl` has at most as many tokens as the largest tree. The log-probabilities of the
sampler are those of the model with added noise. The advantage of each turn is random.

On a CPU, where Triton is missing, TRL also computes the logits of the prompts and drops them: `trl
as installed` includes this work, and `trl` skips it, as TRL does on a GPU. Ratios of wall times are
medians over rounds.
"""

import argparse
import json
import lzma
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby, islice
from pathlib import Path
from statistics import median
from typing import Any

import torch
from record import Figure, finish, parser
from torch import Tensor
from trl_loss import TRL, Race, make_model

from learners.aipo import aipo_loss
from learners.losses import LossInput, Totals
from learners.training.cpu import prepare_cpu
from learners.training.flops import Sizes, train_flops
from learners.training.policy import Policy
from learners.training.rows import PackedRow, Sample, pack, unshare

EPISODES = Path(__file__).parent / "episodes.json.xz"
TRAINERS = ("tree", "prompt", "separate", "trl", "trl as installed")
LEAST = 0.9
"""Target: minimum of (time ratio) / (operation ratio), each ratio of `separate` to `tree`."""
RACES = (
    Race("mini early", "float32", False, 3),
    Race("mini late", "float32", False, 3),
    Race("full early", "float32", False, 2),
    Race("full late", "float32", False, 2),
)
QUICK = (Race("mini early", "float32", False, 2),)


def record(name: str, file: Path, groups: int) -> None:
    """Add the first `groups` groups of a run's trajectory file to the recorded episodes."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines.sort(key=lambda one: (one["group"], one["member"]))
    found = []
    for _, members in islice(groupby(lines, lambda one: one["group"]), groups):
        tokens = [one["tokens"] for one in members]
        turns = [[len(list(run)) for _, run in groupby(one["sampled"])] for one in tokens]
        responses = [one["response"] for one in tokens]
        found.append([tokens[0]["prompt"], list(zip(responses, turns, strict=True))])
    known = recorded() if EPISODES.is_file() else {}
    EPISODES.write_bytes(lzma.compress(json.dumps({**known, name: found}).encode(), preset=9))


def recorded() -> dict[str, list[Any]]:
    """Return groups by name; a group is [prompt, rollouts], a rollout is [response, run lengths].

    A response alternates between runs of sampled tokens, which come first, and observation tokens.
    """
    return json.loads(lzma.decompress(EPISODES.read_bytes()))  # type: ignore[no-any-return]


def make_samples(race: Race) -> list[Sample]:
    """Return the rollouts of a comparison, with random advantages and noisy log-probabilities."""
    generator = torch.Generator().manual_seed(1)
    samples = []
    for number, (prompt, members) in enumerate(recorded()[race.episodes]):
        for response, runs in sorted(members):
            sampled = [n % 2 == 0 for n, run in enumerate(runs) for _ in range(run)]
            blank = [0.0] * len(response)
            sample = Sample(number, prompt, response, sampled, blank, blank)
            turns = torch.randn(len(sample.turns), generator=generator)
            samples.append(sample.credited(turns.tolist()))
    policy = Policy(make_model(), 1.0, "float32")
    known = []
    for sample in samples:
        with torch.no_grad():
            (row,) = pack([sample], sys.maxsize)
            noise = torch.randn(len(row.targets), generator=generator)
            found = iter((policy(row)[0] + 0.02 * noise).tolist())
        logprobs = [next(found) if own else 0.0 for own in sample.sampled]
        known.append(replace(sample, logprobs=logprobs))
    return known


def rows_of(name: str, samples: Sequence[Sample]) -> list[PackedRow]:
    """Pack rollouts as the trainer `name` does: "tree", "prompt" or "separate"."""
    groups = [list(members) for _, members in groupby(samples, lambda one: one.group)]
    if name == "tree":
        return [row for group in groups for row in pack(group, sys.maxsize)]
    if name == "prompt":
        return [sharing_prompts(group) for group in groups]
    limit = max(len(row.tokens) for row in rows_of("tree", samples))
    return pack(unshare(samples), limit)


def sharing_prompts(group: Sequence[Sample]) -> PackedRow:
    """Return a packed row in which the rollouts of a group share only the prompt."""
    # pack with distinct first tokens, so that responses share no prefix; restore the tokens below
    marked = [
        replace(one, response=[number, *one.response[1:]]) for number, one in enumerate(group)
    ]
    (row,) = pack(marked, sys.maxsize)
    first = torch.tensor([one.response[0] for one in group])
    starts = torch.tensor([node.start for node in row.nodes[1:]])
    places = torch.tensor([int((row.sequences == n).nonzero()[0]) for n in range(len(group))])
    tokens, targets = row.tokens.clone(), row.targets.clone()
    tokens[starts], targets[places] = first, first
    return replace(row, tokens=tokens, targets=targets)


class Ours:
    """Forward and backward passes of this project's trainer, one per packed row."""

    def __init__(self, name: str, race: Race, samples: list[Sample]) -> None:
        self.rows = rows_of(name, samples)
        self.model = make_model()
        self.policy = Policy(self.model, 1.0, race.precision, race.checkpointing).train()
        self.total = Totals(sum(len(row.targets) for row in self.rows), len(samples))

    def step(self) -> None:
        """Compute the gradients of all samples."""
        for row in self.rows:
            logprobs, _ = self.policy(row)
            known = row.logprobs, row.advantages, row.sequences, row.rollouts
            aipo_loss(LossInput(logprobs, *known, self.total))[0].backward()

    def logprobs(self) -> Tensor:
        """Return the log-probabilities of all loss tokens as one vector, row after row."""
        with torch.no_grad():
            return torch.cat([self.policy(row)[0] for row in self.rows])


def make_trainer(name: str, race: Race, samples: list[Sample]) -> Ours | TRL:
    """Return the trainer with the given name, which is one of `TRAINERS`."""
    if name.startswith("trl"):
        largest = max(len(row.tokens) for row in rows_of("tree", samples))
        return TRL(race, samples, largest, as_installed=name == "trl as installed")
    return Ours(name, race, samples)


def timed(trainer: Ours | TRL) -> float:
    """Return the seconds that a step of a trainer takes."""
    trainer.model.zero_grad()
    began = time.perf_counter()
    trainer.step()
    return time.perf_counter() - began


def compare(race: Race, names: Sequence[str]) -> tuple[list[Figure], dict[str, list[float]]]:
    """Run one comparison; return its figures, and the seconds of each trainer in each round."""
    samples = make_samples(race)
    trainers = {name: make_trainer(name, race, samples) for name in names}
    for one in trainers.values():
        timed(one)  # the first step is slower, since it allocates memory
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(race.rounds):
        for name, one in trainers.items():
            seconds[name].append(timed(one))
    sizes = Sizes(make_model().config)
    ours = {name: one for name, one in trainers.items() if isinstance(one, Ours)}
    tokens = {name: sum(len(row.tokens) for row in one.rows) for name, one in ours.items()}
    work = {name: sum(train_flops(sizes, row) for row in one.rows) for name, one in ours.items()}
    figures = [
        Figure(f"{race}: tokens, tree", tokens["tree"]),
        Figure(f"{race}: seconds a step, tree", median(seconds["tree"])),
    ]
    for name in names[1:]:
        pairs = zip(seconds["tree"], seconds[name], strict=True)
        ratio = median(other / own for own, other in pairs)
        figures.append(Figure(f"{race}: time, {name} / tree", ratio))
        if name in ours:
            operations = work[name] / work["tree"]
            figures += [
                Figure(f"{race}: operations, {name} / tree", operations),
                Figure(f"{race}: tokens, {name} / tree", tokens[name] / tokens["tree"]),
            ]
        if name == "separate":
            kept = ratio / operations
            figures.append(Figure(f"{race}: time saved / operations saved", kept, LEAST))
    logprobs, slopes = trainers["tree"].logprobs(), gradient(trainers["tree"])
    for name in names[1:4]:
        # compare sorted values, since the trainers order the rollouts differently
        found = trainers[name].logprobs().sort().values
        gap = float((found - logprobs.sort().values).abs().max())
        turn = float((gradient(trainers[name]) - slopes).norm() / slopes.norm())
        figures += [
            Figure(f"{race}: log-probabilities, {name} from tree, 1e-6", gap * 1e6),
            Figure(f"{race}: gradient, {name} from tree, relative, 1e-6", turn * 1e6),
        ]
    return figures, seconds


def gradient(trainer: Ours | TRL) -> Tensor:
    """Return all gradients of the last step in one vector."""
    return torch.cat([one.grad.flatten() for one in trainer.model.parameters()])


def main() -> int:
    """Measure, print and record the figures; return 1 if one misses its target."""
    options = parser(__doc__ or "")
    options.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.record:
        name, file, groups = args.record
        record(name, Path(file), int(groups))
        return 0
    # TRL's activation checkpointing prints a warning
    warnings.simplefilter("ignore", FutureWarning)
    races = QUICK if args.quick else RACES
    names = TRAINERS
    if find_spec("trl") is None or find_spec("datasets") is None:
        if not args.quick:
            raise SystemExit("expected TRL to compare with: pip install trl==1.16.0 datasets")
        names = TRAINERS[:3]
    # --quick uses one thread, since threads that wait for each other are slow on a busy machine
    prepare_cpu(1 if args.quick else 0)
    figures: list[Figure] = []
    seconds = {}
    for race in races:
        found, seconds[str(race)] = compare(race, names)
        print(f"{race}: done", file=sys.stderr, flush=True)
        figures += found
    packages = ("torch", "transformers", "trl", "accelerate")
    return finish("trainer", args, figures, {"seconds": seconds}, packages)


if __name__ == "__main__":
    sys.exit(main())
