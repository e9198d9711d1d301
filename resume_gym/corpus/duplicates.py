"""Find near-duplicate texts; only texts that share a rare sequence of words are compared."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain
from math import ceil
from typing import NamedTuple
from zlib import crc32

SHINGLE = 3  # number of words in a shingle, a run of adjacent words
_ROUNDING = 1e-9  # tolerance for rounding errors of threshold times number of shingles

_WORD = re.compile(r"\w+")
_DIGITS = re.compile(r"\d+")
_CONTACT = re.compile(r".*(?:@|\b\d{3}[-. ]\d{3,4}\b|\blinkedin\.com|\bgithub\.com)", re.IGNORECASE)
_ABOVE_FIRST_SECTION = 6  # number of lines at the top of a resume that may be contact data
_CONTACT_WORDS = 25  # a line with more words contains more than contact data


class SimilarPair(NamedTuple):
    """Two tasks with similar texts.

    Attributes:
        task_id, other_id: IDs of a task and a similar task that is earlier or in the other split.
        similarity: Jaccard similarity of the shingles of the two texts, in [0, 1].
    """

    task_id: str
    other_id: str
    similarity: float


def bare(text: str, names: Iterable[str] = ()) -> str:
    """Normalize a text for comparison: drop names, punctuation and case; replace numbers by 0."""
    for name in names:
        text = text.replace(name, " ")
    return " ".join(_WORD.findall(_DIGITS.sub("0", text).lower()))


def bare_resume(resume: str, names: Iterable[str] = ()) -> str:
    """Normalize a resume as `bare` does; also drop contact lines and the text of the "# " heading.

    Resumes that differ only in name, contact data or figures become equal.
    """
    lines = resume.split("\n")
    head = [
        line
        for line in lines[:_ABOVE_FIRST_SECTION]
        if not _CONTACT.match(line) or len(line.split()) > _CONTACT_WORDS
    ]
    names = filter(None, (*names, heading(resume.lstrip())))
    return bare("\n".join(head + lines[_ABOVE_FIRST_SECTION:]), names)


def heading(text: str) -> str:
    """Return the text of a "# " heading in the first line, or an empty string."""
    first = text.partition("\n")[0]
    return first.lstrip("# ").strip() if first.startswith("# ") else ""


def near_duplicates(
    texts: Mapping[str, str], others: Mapping[str, str], threshold: float
) -> tuple[list[SimilarPair], list[SimilarPair]]:
    """Find pairs of similar texts: both from `texts`, or one from `others` and one from `texts`.

    At most one pair is returned per text: for a text of `texts`, the pair with the most similar
    earlier text of `texts`; for a text of `others`, the pair with the most similar text of `texts`.

    Args:
        texts: task ID -> text, normalized by `bare` or `bare_resume`.
        others: task ID -> normalized text, for the tasks of another split.
        threshold: minimum Jaccard similarity of two texts that form a pair.

    Returns:
        The list of pairs within `texts`, and the list of pairs between `others` and `texts`.
    """
    shingles = {key: _shingles(text) for key, text in {**texts, **others}.items()}
    frequency = Counter(chain.from_iterable(shingles.values()))
    index: dict[int, list[str]] = defaultdict(list)

    def rarest(key: str) -> list[int]:
        # Prefix filtering: two texts whose similarity reaches the threshold share at least one of
        # their rarest shingles. Only rarest shingles are indexed, so an index entry has few texts.
        own = shingles[key]
        shared = ceil(threshold * len(own) - _ROUNDING)
        return sorted(sorted(own), key=frequency.__getitem__)[: len(own) - shared + 1]

    def nearest(key: str) -> list[SimilarPair]:
        near = []
        for other in {other for shingle in rarest(key) for other in index.get(shingle, ())}:
            left, right = shingles[key], shingles[other]
            similarity = len(left & right) / len(left | right)
            if similarity >= threshold:
                near.append(SimilarPair(key, other, similarity))
        return sorted(near, key=lambda pair: (-pair.similarity, pair.other_id))[:1]

    within: list[SimilarPair] = []
    for key in texts:
        within += nearest(key)  # before the text is indexed, to find only earlier texts
        for shingle in rarest(key):
            index[shingle].append(key)
    return within, [pair for key in others for pair in nearest(key)]


def _shingles(text: str) -> frozenset[int]:
    words = text.split(" ")
    count = max(1, len(words) - SHINGLE + 1)
    runs = (" ".join(words[start : start + SHINGLE]) for start in range(count))
    return frozenset(crc32(run.encode()) for run in runs)
