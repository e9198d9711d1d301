"""Which job a resume is revised for."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from resume_gym.judges.lines import parse

PAIRINGS = ("best", "all", "random")


def overlaps(resumes: Sequence[str], jobs: Sequence[str]) -> list[list[float]]:
    """How much of each job each resume tells, in [0, 1]: [resumes][jobs].

    Shared stems, weighted by how few of the texts have them.
    """
    told = [_stems(text) for text in resumes]
    wanted = [_stems(text) for text in jobs]
    counts = Counter(stem for stems in (*told, *wanted) for stem in stems)
    weights = {stem: math.log(1 + counts.total() / n) for stem, n in counts.items()}
    return [[_share(own, job, weights) for job in wanted] for own in told]


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem for line in parse(text) for stem in line.content.stems)


def _share(own: frozenset[str], job: frozenset[str], weights: Mapping[str, float]) -> float:
    total = math.fsum(weights[stem] for stem in job)
    return math.fsum(weights[stem] for stem in own & job) / total if total else 0.0


def choose(fits: Sequence[float], pairing: str, seed: str) -> list[int]:
    """The jobs for one resume, by their numbers; the first of equals is the best.

    Args:
        fits: its overlap with each job.
        pairing: one of `PAIRINGS`.
        seed: of a random choice; name the resume in it, so that others do not change it.
    """
    if pairing == "all":
        return list(range(len(fits)))
    if pairing == "random":
        return [Random(seed).randrange(len(fits))]
    return [max(range(len(fits)), key=lambda number: fits[number])]
