"""Heuristic edits that improve a resume for a job without inventing facts.

`next_edit` tries these rules in order: delete text if the page overflows, replace weak openings,
unify the formatting, and rewrite bullets (main point first, no fillers; see `wording`). The rules
are heuristics that use only the form of the lines, a few word lists and the words of the job.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from resume_gym.agents.wording import point, weak_head, without_fillers
from resume_gym.episode.document import wrapped_lines


class Replacement(NamedTuple):
    """A span of the resume and its replacement."""

    start: int
    stop: int
    new: str


def next_edit(
    resume: str, job: str, excess: int, edits_left: int, width: int
) -> tuple[str, str] | None:
    """Return the first change that a rule finds.

    Args:
        resume: current text of the resume.
        job: job description.
        excess: number of lines beyond the page; 0 or less if the resume fits on the page.
        edits_left: number of edits left, including this one.
        width: page width in characters.

    Returns:
        The change as (old, new); `old` occurs once in the resume. None if no rule finds a change.
    """
    fit = _fitness(job)
    changes = chain(
        _cuts(resume, fit, math.ceil(excess / edits_left), width) if excess > 0 else (),
        _verbs(resume),
        _formatting(resume),
        _wording(resume, fit),
    )
    return next((_unique(resume, change) for change in changes), None)


def _unique(resume: str, change: Replacement) -> tuple[str, str]:
    """Return a change as (old, new), with neighbouring lines added until `old` occurs once."""
    start, stop, new = change
    while resume.count(resume[start:stop]) > 1:
        left = resume.rfind("\n", 0, max(0, start - 1)) + 1
        right = resume.find("\n", stop + 1)
        right = right if right >= 0 else len(resume)
        new = resume[left:start] + new + resume[stop:right]
        start, stop = left, right
    return resume[start:stop], new


def _lines(resume: str) -> Iterator[tuple[int, str]]:
    """Yield the start offset and the text of each line of a resume."""
    start = 0
    for line in resume.split("\n"):
        yield start, line
        start += len(line) + 1


_BULLET = re.compile(r"[-*+•] +(?=\S)")
_LABELLED = re.compile(r"[-*+•] +[A-Z][\w &/]{2,30}: ")  # "- Languages: Go, Java"
_COMMON = """about after also another before both each every from have into more most other that
their them there they this those through until what when where which while will with without
your"""


def stems(text: str) -> Iterator[str]:
    """Yield the first six letters of each content word, which serve as a crude stem."""
    words = re.findall(r"[a-z][a-z0-9+#]{2,}", text.lower())
    return (word[:6] for word in words if len(word) > 3 and word not in _COMMON.split())


def _fitness(job: str) -> Callable[[str], float]:
    """Return a function that scores a line by its figures and by the words it shares with `job`."""
    asked = Counter(stems(job))

    def fit(line: str) -> float:
        told = set(stems(line)) & asked.keys()
        # unlike `sum`, `fsum` does not depend on the order of a set, which varies between processes
        return math.fsum(1 / asked[stem] for stem in told) + 0.5 * bool(re.search(r"\d", line))

    return fit


# Deletions

_CORE = """summary profile about experience employment work history education academic training
skills projects results certifications publications awards languages qualifications competencies
achievements"""


def _cuts(
    resume: str, fit: Callable[[str], float], quota: int, width: int
) -> Iterator[Replacement]:
    """Yield deletions of sections and bullets, in the order in which they should be made.

    Deletions that save at least `quota` page lines come first. Within both groups, the least
    relevant text comes first.
    """
    cuts = [(0.0, change) for change in _spare_sections(resume)]
    for start, line in _lines(resume):
        if start and _BULLET.match(line) and not _LABELLED.match(line):
            cuts.append((fit(line), Replacement(start - 1, start + len(line), "")))

    def loss(cut: tuple[float, Replacement]) -> tuple[bool, float]:
        worth, (start, stop, _) = cut
        return wrapped_lines(resume[start + 1 : stop], width) < quota, worth

    return (change for _, change in sorted(cuts, key=loss))


def _spare_sections(resume: str) -> Iterator[Replacement]:
    """Yield deletions of dispensable sections, including the blank lines before each section."""
    heads = [(start, line) for start, line in _lines(resume) if line.startswith("## ")]
    ends = [*(start for start, _ in heads), len(resume)][1:]
    for (start, line), end in zip(heads, ends, strict=True):
        if not set(_CORE.split()) & set(line.lower().split()):
            before, section = resume[:start].rstrip("\n"), resume[start:end].rstrip("\n")
            yield Replacement(len(before), start + len(section), "")


# Wording


def _verbs(resume: str) -> Iterator[Replacement]:
    """Yield replacements of weak openings by verbs: "Was tasked with sorting" -> "Sorted"."""
    for start, line in _lines(resume):
        if marker := _BULLET.match(line):
            head, verb = weak_head(line[marker.end() :])
            start += marker.end()
            if head.startswith("My ") and re.search(r"^[-*+•] +I ", resume, re.MULTILINE):
                verb = f"I {verb[0].lower()}{verb[1:]}"
            if head:
                yield Replacement(start, start + len(head), verb)


def _wording(resume: str, fit: Callable[[str], float]) -> Iterator[Replacement]:
    """Yield rewrites of bullets that put the main point first and remove fillers."""
    for start, line in _lines(resume):
        if marker := _BULLET.match(line):
            old = line[marker.end() :]
            new = without_fillers(point(old, fit) or old)
            if new != old:
                yield Replacement(start + marker.end(), start + len(line), new)


# Formatting

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATES = (
    (
        re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])\b"),
        lambda hit: f"{_MONTHS[int(hit[2]) - 1]} {hit[1]}",
    ),
    (
        re.compile(r"\b(0[1-9]|1[0-2])/(\d{4})\b"),
        lambda hit: f"{_MONTHS[int(hit[1]) - 1]} {hit[2]}",
    ),
    (re.compile(rf"\b({'|'.join(_MONTHS)})[a-z]+\.? (\d{{4}})\b"), r"\1 \2"),
    (re.compile(r"(?<=[a-z] \d{4}) (?:to|--|–|—) (?=[A-Z]|today\b|now\b)"), " - "),
)


def usual_dates(line: str) -> str:
    """Return the line with dates formatted as in "Feb 2021 - Mar 2023"."""
    for pattern, style in _DATES:
        line = pattern.sub(style, line)
    return line


_LOOSE_HEADING = re.compile(r"\*\*([^*]+)\*\*|([A-Z][A-Z &]{3,})")


def _formatting(resume: str) -> Iterator[Replacement]:
    """Yield rewritten lines with uniform bullet markers, periods, spacing, headings and dates."""
    bullets = [line for _, line in _lines(resume) if _BULLET.match(line)]
    if not bullets:
        return
    # a plain-text resume must not get Markdown headings or markers
    is_markdown = re.search("^#+ ", resume, re.MULTILINE)
    marker = Counter(line[0] for line in bullets).most_common(1)[0][0]
    period = sum(line.endswith(".") for line in bullets) > len(bullets) / 2
    for start, line in _lines(resume):
        if bullet := _BULLET.match(line):
            body = line[bullet.end() :].rstrip(" .") + "." * period
            new = f"{marker} {re.sub(' {2,}', ' ', body)}"
        elif is_markdown and (heading := _LOOSE_HEADING.fullmatch(line.strip())):
            new = f"## {heading[1] or heading[2].title()}"
        else:
            new = usual_dates(line)
        if new != line:
            yield Replacement(start, start + len(line), new)
