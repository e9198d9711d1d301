"""Documents about a candidate: notes on projects, reviews by a manager, a portfolio.

They tell the deeds behind the bullets with their true figures, among lines that tell nothing.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from resume_gym.synthesis.candidates import Candidate, Job
from resume_gym.tasks import EVIDENCE_KINDS, Evidence

_BANK = Path(__file__).parent / "bank" / "evidence.toml"
_ASIDES = 2


class Deed(NamedTuple):
    """What a candidate did in a job, in full.

    Attributes:
        job: where.
        text: the good form of the bullet.
        weak: whether the resume tells it badly.
    """

    job: Job
    text: str
    weak: bool


def write_evidence(
    candidate: Candidate, deeds: Sequence[Deed], rng: Random
) -> tuple[Evidence, ...]:
    """The documents: at most three, with all deeds that the resume tells badly.

    And with half of the others, so that what is in them does not say what is to be mended.
    """
    good = [deed for deed in deeds if not deed.weak]
    told = [deed for deed in deeds if deed.weak] + rng.sample(good, (len(good) + 1) // 2)
    shares: dict[str, list[Deed]] = {kind: [] for kind in EVIDENCE_KINDS}
    for number, deed in enumerate(rng.sample(told, len(told))):
        shares[EVIDENCE_KINDS[number % len(EVIDENCE_KINDS)]].append(deed)
    return tuple(_write(kind, candidate, share, rng) for kind, share in shares.items() if share)


def _write(kind: str, candidate: Candidate, deeds: Sequence[Deed], rng: Random) -> Evidence:
    first = candidate.first_name
    own = {"project_notes": "", "performance_review": f"{first} ", "portfolio": "I "}[kind]
    asides = [line.format(first=first) for line in rng.sample(_asides()[kind], _ASIDES)]
    blocks = []
    for job in candidate.jobs:
        lines = [_sentence(own, deed.text) for deed in deeds if deed.job is job]
        if lines:
            lines += [asides.pop()] if asides else []
            body = " ".join(lines) if own else "\n".join(f"- {line}" for line in lines)
            blocks.append(f"## {job.company}\n\n{body}")
    title = f"{kind.replace('_', ' ').capitalize()}, {first} {candidate.last_name}"
    return Evidence(kind, title, "\n\n".join([f"# {title}", *blocks]) + "\n")


def _sentence(subject: str, deed: str) -> str:
    text = subject + (deed[0].lower() + deed[1:] if subject else deed)
    return text.rstrip(".") + "."


@lru_cache(maxsize=1)
def _asides() -> Mapping[str, list[str]]:
    return tomllib.loads(_BANK.read_text(encoding="utf-8"))
