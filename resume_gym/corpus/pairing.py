"""Pair resumes with jobs."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from resume_gym.text.lines import parse

PAIRINGS = ("best", "all", "random")


def overlaps(resumes: Sequence[str], jobs: Sequence[str]) -> list[list[float]]:
    """Return how much of each job each resume covers, in [0, 1]; [resumes, jobs].

    The measure is the share of the job's word stems in the resume, weighted by rarity.
    """
    told = [_stems(text) for text in resumes]
    wanted = [_stems(text) for text in jobs]
    counts = Counter(stem for stems in (*told, *wanted) for stem in stems)
    weights = {stem: math.log(1 + counts.total() / n) for stem, n in counts.items()}
    return [[_share(own, job, weights) for job in wanted] for own in told]


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem for line in parse(text) for stem in line.content.stems)


def _share(own: frozenset[str], job: frozenset[str], weights: Mapping[str, float]) -> float:
    # The order of a set varies between processes, which affects a plain sum of floats.
    total = math.fsum(weights[stem] for stem in job)
    return math.fsum(weights[stem] for stem in own & job) / total if total else 0.0


def choose(fits: Sequence[float], pairing: str, seed: str) -> list[int]:
    """Choose jobs for one resume; return their indices.

    Args:
        fits: overlap of the resume with each job.
        pairing: one of `PAIRINGS`; "best" takes the first job on a tie.
        seed: seed of a random choice; include the resume, so that others do not affect it.
    """
    if pairing == "all":
        return list(range(len(fits)))
    if pairing == "random":
        return [Random(seed).randrange(len(fits))]
    return [max(range(len(fits)), key=lambda number: fits[number])]
