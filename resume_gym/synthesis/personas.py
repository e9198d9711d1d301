"""Specifications of model-written tasks: the candidate, the weakness, and how much to write.

`make_persona` draws the counts of jobs, bullets and sections. It takes names and companies from the
content bank, where no name or company is in both splits. `place` assigns tasks to the splits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from resume_gym.episode.tasks import SPLITS, WEAKNESSES
from resume_gym.synthesis.candidates import Candidate, make_candidate
from resume_gym.synthesis.content import LEVELS, Role, Vertical, load_roles, suitable_verticals

# Each of the following pairs is the minimum and the maximum of a number.
JOBS = (2, 3)
BULLETS = (11, 13)
# number of bullets of a resume with the weakness no_metrics, which also has a results section
MEASURED = (9, 10)
KEPT = (8, 9)  # number of good bullets of an overlong resume
SECTIONS = (2, 3)  # number of superfluous sections of an overlong resume
WEAK_SHARE = 0.6  # share of the bullets that are weak or superfluous
EVAL_EVERY = 5  # one in this many tasks is in the split eval

# weaknesses of single bullets; the other two concern the formatting and the length
SPOILING = ("vague_bullets", "no_metrics", "wrong_emphasis", "weak_verbs")

T = TypeVar("T")


@dataclass(frozen=True)
class Persona:
    """The specification of a model-written task.

    Attributes:
        task_id: "model-SPLIT-SEED-NUMBER".
        split: split of the task, "train" or "eval".
        weakness: planted weakness, one of `WEAKNESSES`.
        candidate: the candidate, whose jobs have no bullets yet.
        shares: number of bullets for each job, the present job first.
        weak: indices of the weak bullets, counted over the bullets of all jobs.
        padding: number of superfluous bullets.
        sections: number of superfluous sections.
    """

    task_id: str
    split: str
    weakness: str
    candidate: Candidate
    shares: tuple[int, ...]
    weak: frozenset[int]
    padding: int
    sections: int


def place(index: int, split: str | None = None) -> tuple[str, int]:
    """Return the split of task `index` of a corpus, and the task's number (from 0) in this split.

    If `split` is None, every fifth task is in eval, all others in train; else, all are in `split`.
    """
    if split is not None:
        return split, index
    held_out, rest = divmod(index, EVAL_EVERY)
    return ("eval", held_out) if rest == EVAL_EVERY - 1 else ("train", index - held_out)


def make_persona(seed: int, number: int, split: str) -> Persona:
    """Return persona `number` of an infinite sequence that depends only on `seed` and `split`.

    The sequence is balanced: every block of 6 numbers has each of the 6 weaknesses once. The roles
    and levels are balanced in the same way, and so are the verticals (industries) of each role.

    Raises:
        ValueError: The split is unknown or the number is negative.
    """
    if split not in SPLITS or number < 0:
        raise ValueError(f"expected a split from {SPLITS} and a number >= 0, got {split}, {number}")
    key = f"model-{split}-{seed}"
    rng = Random(f"{key}-{number}")
    candidate = make_candidate(*draw_career(key, number), split, JOBS, rng, brief=True)
    # former jobs are dropped, since the model would have to write about them, too
    candidate = replace(candidate, former=())
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
        # `total` is the number of good bullets; WEAK_SHARE is the share of superfluous ones in all
        # bullets.
        padding=round(total * WEAK_SHARE / (1 - WEAK_SHARE)) if cut else 0,
        sections=rng.randint(*SECTIONS) if cut else 0,
    )


def draw_career(key: str, number: int) -> tuple[Role, int, Vertical]:
    """Return role, level and vertical of candidate `number` of the balanced sequence `key`."""
    role = stratum(load_roles(), f"{key}-role", number)
    level = stratum(range(len(LEVELS)), f"{key}-level", number)
    verticals = suitable_verticals(role.key)
    turn = number // len(load_roles())
    return role, level, stratum(verticals, f"{key}-vertical-{role.key}", turn)


def stratum(items: Sequence[T], key: str, index: int) -> T:
    """Return the item for an index; each item occurs once in every block of len(items) indices."""
    block, place = divmod(index, len(items))
    order = list(range(len(items)))
    Random(f"{key}-{block}").shuffle(order)
    return items[order[place]]


def _shares(total: int, jobs: int) -> tuple[int, ...]:
    """Return the number of bullets for each job; the present job has the most."""
    earlier = [round(total * (0.4 if jobs == 2 else 0.27))] * (jobs - 1)
    return (total - sum(earlier), *earlier)
