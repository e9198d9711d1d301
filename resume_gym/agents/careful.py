"""Heuristic edits that improve a resume for a job without inventing facts.

`next_edit` tries these rules in order: delete padding while the page overflows, rewrite bullets (a
direct verb, the main point first, no fillers; see `wording`), and unify the formatting. The rules
use only the form of the lines, a few word lists and the words of the job. A page that is too long
and has no padding stays too long.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice, takewhile
from typing import NamedTuple

from resume_gym.agents.wording import LISTS, VERB, reworded
from resume_gym.episode.document import wrapped_lines
from resume_gym.text.languages import SPAN, is_english
from resume_gym.text.lines import LEXICON, MONTH_NAMES, ways
from resume_gym.text.verbs import is_base


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
    fit, english = _fitness(job), is_english(resume)
    changes = chain(
        _cuts(resume, fit, excess, -(-excess // edits_left), width) if excess > 0 else (),
        _wording(resume, fit) if english else (),
        _looks(resume, english, edits_left),
    )
    return next((_unique(resume, change) for change in changes), None)


def line_edits(resume: str, job: str) -> list[tuple[str, str]]:
    """Return all rewrites of single lines that the rules of wording and formatting find.

    Each edit is (old, new), where `old` occurs once in the resume.
    """
    english = is_english(resume)
    wording = _wording(resume, _fitness(job)) if english else ()
    return [_unique(resume, one) for one in chain(wording, _looks(resume, english))]


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


_BULLET = re.compile(r"[-*+•][ \t]+(?=\S)")
_LABELLED = re.compile(r"[-*+•][ \t]+[A-Z][\w &/]{2,30}: ")  # "- Languages: Go, Java"
_COMMON = frozenset((
    "about", "after", "also", "another", "before", "both", "each", "every", "from", "have",
    "into", "more", "most", "other", "that", "their", "them", "there", "they", "this", "those",
    "through", "until", "what", "when", "where", "which", "while", "will", "with", "without",
    "your",
))  # fmt: skip


def stems(text: str) -> Iterator[str]:
    """Yield the first six letters of each content word, which serve as a crude stem."""
    words = re.findall(r"[a-z][a-z0-9+#]{2,}", text.lower())
    return (word[:6] for word in words if len(word) > 3 and word not in _COMMON)


def _fitness(job: str) -> Callable[[str], float]:
    """Return a function that scores a line by its figures and by the words it shares with `job`."""
    asked = Counter(stems(job))

    def fit(line: str) -> float:
        told = set(stems(line)) & asked.keys()
        # unlike `sum`, `fsum` does not depend on the order of a set, which varies between processes
        return math.fsum(1 / asked[stem] for stem in told) + 0.5 * bool(re.search(r"\d", line))

    return fit


# Deletions

_SPARE = (
    r"objective|references?|hobbies|pastimes|interests|free time|about me|coursework|workshops"
    r"|seminars|traits|preferences|availability|clubs|sports"
    r"|personal (?:information|details|data|qualities|attributes)|(?:high|middle) school"
    r"|secondary school|transportation|office equipment|phone skills|odd jobs|summer jobs"
)
# a line in bold with any other word, such as "**Sports Editor**", is the title of a job
_SPARE_SECTION = re.compile(
    rf"##.*\b(?:{_SPARE})\b.*"
    rf"|\*\*(?:(?:{_SPARE}|and|career|character|relevant|attended) ?)+\*\*",
    re.IGNORECASE,
)
_KEPT_SECTION = re.compile(
    r"summary|profile|experience|work|employ|career|history|placement|skill|competenc|educat"
    r"|academic|qualific|certif|licen[cs]|training|project|result|highlight|achieve|accomplish"
    r"|award|publication|language|research|ticket|registration",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_REFERENCES = re.compile(r"\W*references?\b[^.]*\b(?:available|request)\b[^.]*\.?", re.IGNORECASE)
_STOCK = re.compile("|".join(LISTS["padding"]["stock"]), re.IGNORECASE)
_ROUTINE = re.compile(
    rf"(?:{ways(LISTS['padding']['routine'])})\b.*\b(?:{ways(LISTS['petty'])})\b", re.IGNORECASE
)
_FEW = 10  # maximum number of words of a bullet about office routine


def _cuts(
    resume: str, fit: Callable[[str], float], excess: int, quota: int, width: int
) -> Iterator[Replacement]:
    """Yield deletions of padding, in the order in which they should be made.

    Deletions that save at least `quota` page lines come before the others. Within both groups,
    deletions that save at most `excess` lines come first, if together they save enough. Ties go to
    the least relevant text.
    """
    cuts = [(0.0, change) for change in _spare_sections(resume, fit)]
    for start, line in _lines(resume):
        bullet = _BULLET.match(line)
        if _REFERENCES.fullmatch(line):
            cuts.append((0.0, Replacement(start - 1, start + len(line), "")))
        elif start and bullet and not _LABELLED.match(line):
            body = line[bullet.end() :]
            limit = 2 if _STOCK.match(body) else int(_is_routine(body))
            if fit(line) < limit and not re.search(r"\d", body):
                cuts.append((fit(line), Replacement(start - 1, start + len(line), "")))

    saves = {cut: wrapped_lines(resume[cut.start + 1 : cut.stop], width) for _, cut in cuts}
    most = excess if sum(one for one in saves.values() if one <= excess) >= excess else math.inf

    def loss(cut: tuple[float, Replacement]) -> tuple[bool, bool, float]:
        worth, saved = cut[0], saves[cut[1]]
        return saved < quota, saved > most, worth

    return (change for _, change in sorted(cuts, key=loss))


def _is_routine(body: str) -> bool:
    """Return whether a bullet is short and only about office routine."""
    several = re.search(rf", {VERB} .* and {VERB} ", body)
    return bool(_ROUTINE.match(body)) and len(body.split()) <= _FEW and not several


def has_padding(resume: str, job: str) -> bool:
    """Return whether `next_edit` would delete anything if the page were too long."""
    return any(True for _ in _cuts(resume, _fitness(job), 1, 1, 1))


def _spare_sections(resume: str, fit: Callable[[str], float]) -> Iterator[Replacement]:
    """Yield deletions of dispensable sections, including the blank lines before each section.

    Sections such as "Hobbies" are always dispensable. A section with an unusual heading, such as
    "Volunteering", is dispensable if it shares few words with the job and contains no year: a
    section with a year may be a job whose heading names the employer.
    """
    heads = [
        (start, line)
        for start, line in _lines(resume)
        # a line in bold may be the title of a job, which ends a section, too
        if line.startswith("## ") or (line.startswith("**") and resume[:start].endswith("\n\n"))
    ]
    ends = [*(start for start, _ in heads), len(resume)][1:]
    for (start, line), end in zip(heads, ends, strict=True):
        before, section = resume[:start].rstrip("\n"), resume[start:end].rstrip("\n")
        other = line.startswith("##") and not _KEPT_SECTION.search(line)
        idle = other and not _YEAR.search(section) and fit(section) < 1
        if _SPARE_SECTION.fullmatch(line) or idle:
            yield Replacement(len(before), start + len(section), "")


# Wording


def _wording(resume: str, fit: Callable[[str], float]) -> Iterator[Replacement]:
    """Yield rewrites of bullets: a direct verb, the main point first, no fillers."""
    for start, line in _lines(resume):
        if marker := _BULLET.match(line):
            old = line[marker.end() :]
            new = reworded(old, fit)
            if new != old and not (
                _is_past(new) > _is_past(old) and _is_told_as_present(resume, start)
            ):
                yield Replacement(start + marker.end(), start + len(line), new)


def _is_past(bullet: str) -> bool:
    return re.match(rf"{VERB}\b", bullet[:1].lower() + bullet[1:]) is not None


def _is_told_as_present(resume: str, start: int) -> bool:
    """Return whether a bullet belongs to a present job whose bullets are in the present tense."""
    above = resume[:start].split("\n")[-2::-1]
    own = list(takewhile(lambda line: not line or _BULLET.match(line), above))
    heads = takewhile(lambda line: not _BULLET.match(line), above[len(own) :])
    below = takewhile(lambda line: not line or _BULLET.match(line), resume[start:].split("\n"))
    same = [*own, *below]
    told = [line[marker.end() :] for line in same if (marker := _BULLET.match(line))]
    now = [line for line in told if re.match(r"\w+ing\b", line) or is_base(line.split()[0].lower())]
    return any(map(_NOW.search, islice(heads, 4))) and 2 * len(now) > len(told)


# Formatting

_NOW = re.compile(r"\b(?:present|current|now|today)\b", re.IGNORECASE)

_MONTHS = tuple(name[:3] for name in MONTH_NAMES)
_DATE = re.compile(
    rf"\b(?:(?P<name>{'|'.join(_MONTHS)})(?P<long>[a-z]*)\.? (?P<y1>\d{{4}})"
    r"|(?P<m2>0?[1-9]|1[0-2])/(?P<y2>\d{4})|(?P<y3>\d{4})-(?P<m3>0[1-9]|1[0-2]))\b"
)
_BARE_MONTH = re.compile(rf"\b(?:{'|'.join(_MONTHS)})[a-z]*\.? ?(?:-|–|—|to\b)")
_ENDS = "present|current|now|today|ongoing"
_RANGE = re.compile(
    r"(?:(?<=\d{4})|(?<=\d{4}-\d\d))(?!-(?:0[1-9]|1[0-2])\b)"  # not within 2021-03
    rf"(?P<dash> ?(?:-{{1,2}}|–|—) ?| to )(?=[A-Z]|\d|(?:{_ENDS})\b)"
)
_SPAN = re.compile(rf"(?<!\w){SPAN}", re.IGNORECASE)
_KNOWN = re.compile(
    rf"(?:(?:since|from) )?\d{{4}}(?:(?: ?(?:-{{1,2}}|–|—) ?| to )(?:\d{{4}}|{_ENDS}))?",
    re.IGNORECASE,
)


def _date(hit: re.Match[str]) -> tuple[str, int, str]:
    """Return the style, the month and the year of a date."""
    if name := hit["name"]:
        style = "long" if hit["long"] == MONTH_NAMES[_MONTHS.index(name)][3:] else "short"
        return style, _MONTHS.index(name) + 1, hit["y1"]
    return ("slash", int(hit["m2"]), hit["y2"]) if hit["m2"] else ("iso", int(hit["m3"]), hit["y3"])


def _looks(resume: str, english: bool, edits_left: int | None = None) -> list[Replacement]:
    """Return formatting and date rewrites; if the edits left cannot fix all dates, omit dates."""
    formatting, dates = list(_formatting(resume)), list(_dates(resume)) if english else []
    both = sorted(formatting + dates)
    return both if {*dates} <= {*both[:edits_left]} else formatting


def _dates(resume: str) -> Iterator[Replacement]:
    """Yield rewritten lines whose dates have the style of most dates on the page.

    In a tie, the first style of the page wins. No line is yielded if the page has a date that
    cannot be written in this style.
    """
    lines = [line for _, line in _lines(resume) if _RANGE.search(line)]
    found = [
        [_date(hit)[0] for hit in _DATE.finditer(line) if hit["name"] != "May"] for line in lines
    ]
    dates = [styles[0] for styles in found if styles]
    dashes = [hit["dash"] for line in lines for hit in _RANGE.finditer(line)]
    style = max(dates, key=dates.count, default="short")
    dash = max(dashes, key=dashes.count, default=" - ")

    def written(hit: re.Match[str]) -> str:
        own, month, year = _date(hit)
        if own == style:
            return hit[0]
        name = MONTH_NAMES[month - 1]
        styles = {"short": f"{name[:3]} {year}", "long": f"{name} {year}"}
        return {**styles, "slash": f"{month:02d}/{year}", "iso": f"{year}-{month:02d}"}[style]

    changes = []
    for start, line in _lines(resume):
        if _BULLET.match(line):
            continue
        new = _RANGE.sub(dash, _DATE.sub(written, line))
        # no rule can rewrite all of "Feb - Nov 2022", "Mar 2019 - heute" or "Spring 2020"
        if (_BARE_MONTH.search(line) and new != line) or not all(
            _KNOWN.fullmatch(_DATE.sub("2000", hit[0])) for hit in _SPAN.finditer(line)
        ):
            return
        if _RANGE.search(line) and new != line:
            changes.append(Replacement(start, start + len(line), new))
    yield from changes


_SECTIONS = frozenset(LEXICON["words"]["sections"]) - {"and", "of"} | {"academic"}


def _sectioned(resume: str) -> Iterator[tuple[str, str]]:
    """Yield (heading of the section, line) for each line of a resume."""
    section = ""
    for line in resume.split("\n"):
        section = line if line.startswith("## ") else section
        yield section, line


_PHRASE = 6  # bullets of at most this many words may be no statements but, say, skills
_LOOSE_HEADING = re.compile(r"\*\*([^*.,]{3,40})\*\*|([A-Z][A-Z &]{3,40}):?")


def _formatting(resume: str) -> Iterator[Replacement]:
    """Yield rewritten lines with uniform bullet markers, periods and headings."""
    bullets = [line for _, line in _lines(resume) if _BULLET.match(line)]
    if not bullets:
        return
    heads = [line for _, line in _lines(resume) if line.startswith("## ")]
    upper = sum(line.isupper() for line in heads) > len(heads) / 2
    marker = Counter(line[0] for line in bullets).most_common(1)[0][0]
    ends: dict[str, list[bool]] = {}
    for section, line in _sectioned(resume):
        if _BULLET.match(line) and len(line.split()) > _PHRASE:
            ends.setdefault(section, []).append(line.endswith("."))
    for (start, line), (section, _) in zip(_lines(resume), _sectioned(resume), strict=True):
        if bullet := _BULLET.match(line):
            body = line[bullet.end() :].rstrip()
            if len(line.split()) > _PHRASE:
                found = ends[section]
                body = body.rstrip(" .") + "." * (
                    sum(found) > len(found) / 2 and (_is_past(body) or body.endswith("."))
                )
            blank = "\t" if "\t" in bullet[0] else " "
            new = f"{marker}{blank}{re.sub(' {2,}', ' ', body)}"
        # a plain-text resume must not get Markdown headings
        elif (
            heads
            and (heading := _LOOSE_HEADING.fullmatch(line.strip()))
            and not _REFERENCES.fullmatch(line)
            and (not _SECTIONS.isdisjoint(line.lower().strip("*:").split()))
        ):
            name = heading[1] or heading[2]
            title = re.sub(r"\b(?:And|Of)\b", lambda m: m[0].lower(), name.title())
            new = f"## {name.upper() if upper else title if name.isupper() else name}"
        else:
            continue
        if new != line:
            yield Replacement(start, start + len(line), new)
