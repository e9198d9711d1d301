"""Texts of tasks that are the same, or nearly: MinHash finds candidates, their words decide."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from zlib import crc32

from resume_gym.mistakes import missing
from resume_gym.tasks import Task

SHINGLE = 3  # words
_PERMUTATIONS = 64
_SLACK = 0.8

_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")
_CONTACT = re.compile(r".*(?:@|\b\d{3}[-. ]\d{3,4}\b|\blinkedin\.com|\bgithub\.com)", re.IGNORECASE)
_ABOVE_FIRST_SECTION = 6  # lines in which contact data stands
_CONTACT_WORDS = 25  # in a longer line something else stands as well
_HEADING = re.compile(r"#{1,2}\s|\*\*[^*]+\*\*:?$|[A-Z][A-Z &/]+:?$")
_BULLET = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s+(.+)")


class Pair(NamedTuple):
    """Two tasks with like texts.

    Attributes:
        task_id, other_id: the later and the earlier one.
        similarity: shingles that both have, over those that either has; in [0, 1].
    """

    task_id: str
    other_id: str
    similarity: float


def bare(text: str, names: Iterable[str] = ()) -> str:
    """The text as it is compared: without these names, marks, case and digits."""
    for name in names:
        text = text.replace(name, " ")
    return " ".join(_WORD.findall(_DIGITS.sub("0", text).lower()))


def bare_resume(task: Task) -> str:
    """`bare` of its resume, without contact lines and the names of the persona or the heading.

    A resume under another name, at another address or with other figures is the same resume.
    """
    first = task.resume.lstrip().partition("\n")[0]
    titled = [first.lstrip("# ").strip()] if first.startswith("# ") else []
    names = [task.persona.get(key, "") for key in ("name", "company")]
    lines = task.resume.split("\n")
    head = [line for line in lines[:_ABOVE_FIRST_SECTION] if not _is_contact(line)]
    text = "\n".join(head + lines[_ABOVE_FIRST_SECTION:])
    return bare(text, [name for name in (*names, *titled) if isinstance(name, str) and name])


def _is_contact(line: str) -> bool:
    return bool(_CONTACT.match(line)) and len(line.split()) <= _CONTACT_WORDS


def bullet_lines(text: str, without: Sequence[str] = ("skill",)) -> list[str]:
    """The bullets of a resume without their marks; lists of skills are none.

    Args:
        text: the resume.
        without: words of headings under which lines are no bullets.
    """
    found, aside = [], False
    for line in text.split("\n"):
        if _HEADING.match(line):
            aside = any(word in line.lower() for word in without)
        elif (match := _BULLET.match(line)) and not aside:
            found.append(match[1])
    return found


def near_duplicates(
    texts: Mapping[str, str], others: Mapping[str, str], threshold: float
) -> tuple[list[Pair], list[Pair]]:
    """Pairs within `texts`, and pairs of one of `others` with one of `texts`.

    Each text is paired once, with the earlier one that is most like it. Same texts are pairs too.

    Args:
        texts: bare texts by task_id.
        others: of another split.
        threshold: least similarity of a pair.

    Raises:
        ModuleNotFoundError: `datasketch` is not installed; names the extra.
    """
    lsh, sketches = _index(threshold)
    shingles = {key: _shingles(text) for key, text in {**texts, **others}.items()}
    every = dict(zip(shingles, sketches(shingles.values()), strict=True))

    def nearest(key: str) -> list[Pair]:
        own = shingles[key]
        found = (
            Pair(key, other, _jaccard(own, shingles[other])) for other in lsh.query(every[key])
        )
        near = [pair for pair in found if pair.similarity >= threshold]
        return [min(near, key=lambda pair: (-pair.similarity, pair.other_id))] if near else []

    within: list[Pair] = []
    for key in texts:
        within += nearest(key)
        lsh.insert(key, every[key])
    return within, [pair for key in others for pair in nearest(key)]


def _index(threshold: float) -> tuple[Any, Any]:
    """An empty index, and what makes a sketch of each of many sets of shingles."""
    try:
        from datasketch import MinHash, MinHashLSH
    except ModuleNotFoundError:
        raise missing("near-duplicates need", "datasketch", "data") from None

    # a missed pair is worse than a candidate too many, which an exact count dismisses
    lsh = MinHashLSH(_SLACK * threshold, _PERMUTATIONS, weights=(0.1, 0.9))
    return lsh, partial(MinHash.bulk, num_perm=_PERMUTATIONS, hashfunc=int)


def _shingles(text: str) -> frozenset[int]:
    words = text.split(" ")
    count = max(1, len(words) - SHINGLE + 1)
    runs = (" ".join(words[start : start + SHINGLE]) for start in range(count))
    return frozenset(crc32(run.encode()) for run in runs)


def _jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)
