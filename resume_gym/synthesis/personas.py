"""Who the tasks of a language model are about, and what the model is to write of them.

A persona comes from the pools of the content bank, so that no name or company is in both splits;
whatever can be counted is drawn here, not left to the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeVar

from resume_gym.synthesis.candidates import Candidate, make_candidate
from resume_gym.synthesis.content import LEVELS, load_roles, load_verticals
from resume_gym.tasks import SPLITS, WEAKNESSES

JOBS = (2, 3)
BULLETS = (11, 13)
MEASURED = (10, 11)  # bullets of a resume that also has a section of results
KEPT = (8, 9)  # good bullets of a resume that has to be cut
SECTIONS = (2, 3)  # superfluous sections of such a resume
WEAK_SHARE = 0.6
EVAL_EVERY = 5

# Which weaknesses spoil single bullets; of the others code makes one, and padding is the other.
SPOILING = ("vague_bullets", "no_metrics", "wrong_emphasis", "weak_verbs")

T = TypeVar("T")


class Place(NamedTuple):
    """Where a task stands: number `number`, from 0, of its split."""

    split: str
    number: int


@dataclass(frozen=True)
class Persona:
    """Who a task is about, and the size and the weakness of the resume.

    Attributes:
        task_id: "model-SPLIT-SEED-NUMBER".
        split: train or eval.
        weakness: one of `WEAKNESSES`.
        candidate: name, career and the wanted job; the bullets are not written yet.
        shares: bullets for each job of the career, the present one first.
        weak: numbers of the bullets, counted through all jobs, that the resume tells badly.
        padding: superfluous bullets.
        sections: superfluous sections.
    """

    task_id: str
    split: str
    weakness: str
    candidate: Candidate
    shares: tuple[int, ...]
    weak: frozenset[int]
    padding: int
    sections: int


def place(index: int, split: str | None = None) -> Place:
    """The place of task number `index` of a corpus: every fifth is held out.

    Args:
        index: from 0.
        split: puts all tasks into one split.
    """
    if split is not None:
        return Place(split, index)
    held_out, rest = divmod(index, EVAL_EVERY)
    if rest == EVAL_EVERY - 1:
        return Place("eval", held_out)
    return Place("train", index - held_out)


def make_persona(seed: int, number: int, split: str) -> Persona:
    """Persona number `number` of the endless sequence that `seed` gives; a pure function.

    Weaknesses, roles, levels and verticals are balanced: each comes up once in every block of
    6, 19, 6 and 39 numbers.

    Raises:
        ValueError: an unknown split, or a negative number.
    """
    if split not in SPLITS or number < 0:
        raise ValueError(f"expected a split of {SPLITS} and a number from 0, got {split}, {number}")
    key = f"model-{split}-{seed}"
    rng = Random(f"{key}-{number}")
    candidate = make_candidate(
        stratum(load_roles(), f"{key}-role", number),
        stratum(range(len(LEVELS)), f"{key}-level", number),
        stratum(load_verticals(), f"{key}-vertical", number),
        split,
        JOBS,
        rng,
    )
    weakness = WEAKNESSES[number % len(WEAKNESSES)]
    cut = weakness == "too_long"
    counts = {"too_long": KEPT, "no_metrics": MEASURED}
    total = rng.randint(*counts.get(weakness, BULLETS))
    weak = rng.sample(range(total), round(WEAK_SHARE * total)) if weakness in SPOILING else []
    return Persona(
        task_id=f"{key}-{number:06d}",
        split=split,
        weakness=weakness,
        candidate=candidate,
        shares=_shares(total, len(candidate.jobs)),
        weak=frozenset(weak),
        padding=round(total * WEAK_SHARE / (1 - WEAK_SHARE)) if cut else 0,
        sections=rng.randint(*SECTIONS) if cut else 0,
    )


def stratum(items: Sequence[T], key: str, index: int) -> T:
    """A draw that comes round to every item once in each block of indexes."""
    block, place = divmod(index, len(items))
    order = list(range(len(items)))
    Random(f"{key}-{block}").shuffle(order)
    return items[order[place]]


def _shares(total: int, jobs: int) -> tuple[int, ...]:
    """Bullets for each job: most for the present one."""
    earlier = [round(total * (0.4 if jobs == 2 else 0.27))] * (jobs - 1)
    return (total - sum(earlier), *earlier)
