"""A training step with shared prompts, beside separate prompts and beside TRL's GRPOTrainer.

    pip install trl==1.16.0 datasets
    python benchmarks/trainer.py [--quick]

One group of rollouts of one prompt, forward and backward, without the optimizer: `shared` is the
trainer as it is, `separate` the same trainer with each rollout a group of its own, `trl` the loss
of `GRPOTrainer._compute_loss` (DAPO, no KL term). All have the same random Qwen3, tokens,
precision and checkpointing, take turns in one process, and hold no more tokens at a time than the
shared row has. The models have layers and head in about the proportion of Qwen3-1.7B. Attention
weighs more in models this narrow, most of all in the long case; see plan_14b.py for a wide one.

Without Triton, TRL also computes the logits of the prompts, and drops them. A GPU does not, so
`trl` here is TRL with that switched off; `trl as installed` is what a CPU gets. All responses are
of one length, which spares TRL its padding.

Ratios are medians over rounds of wall times. Peak memory is that of a process of its own for each
trainer: the greatest resident size while it takes two steps, less the size before them.
"""

import argparse
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import torch
from record import Figure, finish, parser
from torch import Tensor
from trl_loss import TRL, Case, Race, make_model

from learners.losses import LossInput, Totals, aipo
from learners.planning.flops import Sizes, train_flops
from learners.training.batching import Sample, pack, unshare
from learners.training.cpu import prepare_cpu
from learners.training.policy import Policy

TRAINERS = ("shared", "separate", "trl", "trl as installed")


MIDDLE = Case(1024, 256, 8, layers=12, vocabulary=10_240)
LONG = Case(3000, 1500, 16, layers=2, vocabulary=2_048)
SHORT = Case(256, 64, 8, layers=4, vocabulary=4_096)
WANTED = (("separate", 2.3), ("trl", 2.5), ("trl as installed", 2.5))
RACES = (
    Race(MIDDLE, "bfloat16", False, 5, WANTED),
    Race(MIDDLE, "float32", False, 3),
    Race(MIDDLE, "bfloat16", True, 3),
    Race(LONG, "bfloat16", False, 2),
)
QUICK = (Race(SHORT, "bfloat16", False, 3),)


def make_samples(case: Case) -> list[Sample]:
    """A group of random tokens; the sampler's log-probabilities are the model's, give or take."""
    generator = torch.Generator().manual_seed(1)

    def ids(count: int) -> list[int]:
        return torch.randint(0, case.vocabulary, (count,), generator=generator).tolist()

    prompt, n = ids(case.prompt), case.response
    samples = [
        Sample(0, prompt, ids(n), [True] * n, [0.0] * n, [advantage] * n)
        for advantage in torch.linspace(-1, 1, case.rollouts).tolist()
    ]
    (row,) = pack(samples, sys.maxsize)
    with torch.no_grad():
        logprobs, _ = Policy(make_model(case), 1.0, "float32")(row)
    noisy = logprobs + 0.02 * torch.randn(len(logprobs), generator=generator)
    known = noisy.view(case.rollouts, n).tolist()
    return [replace(one, logprobs=own) for one, own in zip(samples, known, strict=True)]


class Ours:
    """The trainer's forward and backward pass, prompts shared or not."""

    def __init__(self, race: Race, samples: list[Sample], shared: bool) -> None:
        case = race.case
        limit = case.together * (case.prompt + case.response)
        self.rows = pack(samples, sys.maxsize) if shared else pack(unshare(samples), limit)
        self.model = make_model(case)
        self.policy = Policy(self.model, 1.0, race.precision, race.checkpointing).train()
        self.total = Totals(case.rollouts * case.response, case.rollouts)

    def step(self) -> None:
        """Leaves gradients behind."""
        for row in self.rows:
            logprobs, _ = self.policy(row)
            known = row.logprobs, row.advantages, row.sequences, row.rollouts
            aipo(LossInput(logprobs, *known, self.total))[0].backward()

    def logprobs(self) -> Tensor:
        """Of all loss tokens, by rollout."""
        with torch.no_grad():
            return torch.cat([self.policy(row)[0] for row in self.rows])


def make_trainer(name: str, race: Race, samples: list[Sample]) -> Ours | TRL:
    """One of `TRAINERS`."""
    if name.startswith("trl"):
        return TRL(race, samples, as_installed=name == "trl as installed")
    return Ours(race, samples, shared=name == "shared")


def timed(trainer: Ours | TRL) -> float:
    """Seconds of a step."""
    trainer.model.zero_grad()
    began = time.perf_counter()
    trainer.step()
    return time.perf_counter() - began


def compare(race: Race) -> tuple[list[Figure], dict[str, list[float]]]:
    """Ratios of times and how well results agree; seconds of each round."""
    samples = make_samples(race.case)
    trainers = {name: make_trainer(name, race, samples) for name in TRAINERS}
    for one in trainers.values():
        timed(one)  # the first is slower: memory is new
    seconds: dict[str, list[float]] = {name: [] for name in TRAINERS}
    for _ in range(race.rounds):
        for name, one in trainers.items():
            seconds[name].append(timed(one))
    bounds = dict(race.wanted)
    shared, separate = trainers["shared"], trainers["separate"]
    assert isinstance(shared, Ours)
    assert isinstance(separate, Ours)
    sizes = Sizes.of(shared.model.config)
    operations = [sum(train_flops(sizes, row) for row in one.rows) for one in (shared, separate)]
    figures = [Figure(f"{race}: seconds a step, shared", median(seconds["shared"]))]
    for name in TRAINERS[1:]:
        ratios = [other / own for own, other in zip(seconds["shared"], seconds[name], strict=True)]
        figures.append(Figure(f"{race}: time, {name} / shared", median(ratios), bounds.get(name)))
    figures.append(Figure(f"{race}: operations, separate / shared", operations[1] / operations[0]))
    logprobs, slopes = shared.logprobs(), gradient(shared)
    for name in TRAINERS[1:3]:
        gap = float((trainers[name].logprobs() - logprobs).abs().max())
        turn = float((gradient(trainers[name]) - slopes).norm() / slopes.norm())
        figures += [
            Figure(f"{race}: log-probabilities, {name} from shared, 1e-6", gap * 1e6),
            Figure(f"{race}: gradient, {name} from shared, relative, 1e-6", turn * 1e6),
        ]
    return figures, seconds


def gradient(trainer: Ours | TRL) -> Tensor:
    """All gradients of the last step in one vector."""
    return torch.cat([one.grad.flatten() for one in trainer.model.parameters()])


def peaks(race: Race, quick: bool) -> list[Figure]:
    """Peak memory of each trainer, or of the first two."""
    figures = []
    for name in TRAINERS[:2] if quick else TRAINERS:
        command = [sys.executable, __file__, f"--peak={name}", *(["--quick"] if quick else [])]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        mebibytes = float(done.stdout.split()[-1])
        figures.append(Figure(f"{race}: peak MiB, {name}", mebibytes))
    return figures


def peak(name: str, race: Race) -> float:
    """Growth of this process's greatest resident size over two steps, MiB."""
    trainer = make_trainer(name, race, make_samples(race.case))
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    for _ in range(2):
        timed(trainer)
    greatest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return greatest / 2**10 - before / 2**20


def main() -> int:
    """Measure, print, record; 1 if a figure is not as wanted."""
    options = parser(__doc__ or "")
    options.add_argument("--peak", choices=TRAINERS, help=argparse.SUPPRESS)
    args = options.parse_args()
    warnings.simplefilter("ignore", FutureWarning)  # of how checkpointing is switched on
    races = QUICK if args.quick else RACES
    threads = 1 if args.quick else 0  # on a busy machine threads mostly wait for each other
    if args.peak:
        torch.set_num_threads(threads or torch.get_num_threads())
        print(peak(args.peak, races[0]))
        return 0
    if find_spec("trl") is None or find_spec("datasets") is None:
        raise SystemExit("expected TRL to compare with: pip install trl==1.16.0 datasets")
    prepare_cpu(threads)
    figures: list[Figure] = []
    seconds = {}
    for race in races:
        found, seconds[str(race)] = compare(race)
        figures += found
    figures += peaks(races[0], args.quick)
    packages = ("torch", "transformers", "trl", "accelerate")
    return finish("trainer", args, figures, {"seconds": seconds}, packages)


if __name__ == "__main__":
    sys.exit(main())
