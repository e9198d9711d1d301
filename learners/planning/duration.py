"""Time of a run with turns of maximum length, for `--dry-run`."""

from typing import NamedTuple

from learners.planning.machine import Machine
from learners.training.flops import peak_bandwidth

BANDWIDTH = 0.7
"""Assumed share of a GPU's memory bandwidth that decoding reaches."""
_TOKEN_S = 0.005  # scheduling and kernel launches of one token, however small the model


class Serving(NamedTuple):
    """Memory of a vLLM server that the run starts, on each of its devices.

    Attributes:
        device: bytes available to the server.
        weights: bytes of the weights.
        cache: bytes per token in the KV cache.
    """

    device: int
    weights: int
    cache: int

    @property
    def tokens(self) -> int:
        """Capacity of the KV cache in tokens."""
        return max(0, self.device - self.weights) // self.cache


class Batches(NamedTuple):
    """A number of batches with so many episodes each."""

    number: int
    episodes: int


class Duration(NamedTuple):
    """Time of a run on GPUs, in seconds, without waiting for a judge.

    Attributes:
        sampling: time to sample a step.
        step: time of a step.
        evaluation: time of an evaluation.
        total: time of all steps and evaluations.
    """

    sampling: float
    step: float
    evaluation: float
    total: float


def duration(
    machine: Machine,
    served: Serving | None,
    servers: int,
    lengths: tuple[int, int],
    training: float | None,
    together: bool,
    steps: Batches,
    evaluations: Batches,
) -> Duration | None:
    """Estimate the time of a run; None without servers on known GPUs.

    Args:
        machine: hardware of the run.
        served: memory of a server.
        servers: number of servers on all machines.
        lengths: tokens of a prompt, and of an episode's replies.
        training: time to train on a step, in seconds.
        together: whether a step is sampled while another is trained on.
        steps: number of steps, and episodes of each.
        evaluations: number of evaluations, and episodes of each.
    """
    bandwidth = peak_bandwidth(machine.gpus[0][0]) if machine.gpus else None
    if served is None or bandwidth is None or training is None:
        return None
    prompt, response = lengths

    def sampling(episodes: int) -> float:
        share = -(-episodes // servers)
        rounds = -(-share // max(1, served.tokens // (prompt + response)))
        # a token of a batch reads the weights once, and the cache of each episode
        read = served.weights + share / rounds * (prompt + response / 2) * served.cache
        return rounds * response * max(_TOKEN_S, read / (BANDWIDTH * bandwidth))

    sample, evaluation = sampling(steps.episodes), sampling(evaluations.episodes)
    step = max(sample, training) if together else sample + training
    total = steps.number * step + evaluations.number * evaluation
    return Duration(sampling=sample, step=step, evaluation=evaluation, total=total)
