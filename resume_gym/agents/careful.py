"""Heuristic edits that improve a resume from its text alone, without inventing facts.

`next_edit` tries, in this order: deletions if the page overflows, weak openings, formatting,
buried points, fillers, and the order of bullets and skills. All rules are guesses from the form of
lines and a few word lists.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from resume_gym.document import wrapped_lines


class Change(NamedTuple):
    """A span of the resume and its replacement."""

    start: int
    stop: int
    new: str


def next_edit(
    resume: str, job: str, excess: int, edits_left: int, width: int
) -> tuple[str, str] | None:
    """Return the most useful change as (old, new); `old` occurs once in the resume.

    Args:
        resume: Current resume.
        job: Job description.
        excess: Number of lines beyond the page; 0 or less if the resume fits.
        edits_left: Number of edits left, including this one.
        width: Page width in characters.

    Returns:
        None if no rule finds a change.
    """
    fit = _fitness(job)
    changes = chain(
        _cuts(resume, fit, math.ceil(excess / edits_left), width) if excess > 0 else (),
        _verbs(resume),
        _formatting(resume),
        _buried(resume),
        _fillers(resume),
        _order(resume, fit),
        _skills(resume, fit),
    )
    return next((_unique(resume, change) for change in changes), None)


def _unique(resume: str, change: Change) -> tuple[str, str]:
    """Return a change as (old, new), extended by whole lines until `old` occurs once."""
    start, stop, new = change
    while resume.count(resume[start:stop]) > 1:
        left = resume.rfind("\n", 0, max(0, start - 1)) + 1
        right = resume.find("\n", stop + 1)
        right = right if right >= 0 else len(resume)
        new = resume[left:start] + new + resume[stop:right]
        start, stop = left, right
    return resume[start:stop], new


def _lines(resume: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its start offset."""
    start = 0
    for line in resume.split("\n"):
        yield start, line
        start += len(line) + 1


_BULLET = re.compile(r"[-*+•] +(?=\S)")


_COMMON = """about after also another before both each every from have into more most other that
their them there they this those through until what when where which while will with without
your"""


def _stems(text: str) -> Iterator[str]:
    words = re.findall(r"[a-z][a-z0-9+#]{2,}", text.lower())
    # a prefix of six letters is a crude stem
    return (word[:6] for word in words if len(word) > 3 and word not in _COMMON.split())


def _fitness(job: str) -> Callable[[str], float]:
    """Return a score of lines: words of the job, weighted by rarity, plus 0.5 for a figure."""
    asked = Counter(_stems(job))

    def fit(line: str) -> float:
        told = set(_stems(line)) & asked.keys()
        # fsum is exact; a plain sum would depend on the set order, which varies between processes
        return math.fsum(1 / asked[stem] for stem in told) + 0.5 * bool(re.search(r"\d", line))

    return fit


# Deletions

_CORE = """summary profile about experience employment work history education academic training
skills projects results certifications publications awards languages qualifications competencies
achievements"""


def _cuts(resume: str, fit: Callable[[str], float], quota: int, width: int) -> Iterator[Change]:
    """Yield deletions of least loss first, those that free `quota` page lines before the others."""
    cuts = [(0.0, change) for change in _spare_sections(resume)]
    for start, line in _lines(resume):
        if start and _BULLET.match(line):
            cuts.append((fit(line), Change(start - 1, start + len(line), "")))

    def loss(cut: tuple[float, Change]) -> tuple[bool, float]:
        worth, (start, stop, _) = cut
        return wrapped_lines(resume[start + 1 : stop], width) < quota, worth

    return (change for _, change in sorted(cuts, key=loss))


def _spare_sections(resume: str) -> Iterator[Change]:
    """Yield deletions of non-core sections, with the blank lines before them."""
    heads = [(start, line) for start, line in _lines(resume) if line.startswith("## ")]
    ends = [*(start for start, _ in heads), len(resume)][1:]
    for (start, line), end in zip(heads, ends, strict=True):
        if not set(_CORE.split()) & set(line.lower().split()):
            before, section = resume[:start].rstrip("\n"), resume[start:end].rstrip("\n")
            yield Change(len(before), start + len(section), "")


# Weak openings

_HEDGES = """was were had been responsible responsibility responsibilities for in charge of tasked
charged with the a task asked to assist assisted assigned help helped part team member involved
duties included worked on participated took contributed supported played role gave lent hand dealt
engaged entrusted"""
_NOUNS = """pricing billing marketing spending meeting something anything everything nothing morning
evening engineering accounting advertising"""
_IRREGULAR = """agreeing:agreed beginning:began binding:bound breaking:broke bringing:brought
building:built buying:bought catching:caught choosing:chose cutting:cut dealing:dealt doing:did
drawing:drew driving:drove feeding:fed fighting:fought finding:found forecasting:forecast
freeing:freed getting:got giving:gave going:went growing:grew holding:held keeping:kept leading:led
leaving:left lending:lent letting:let losing:lost making:made meeting:met overseeing:oversaw
paying:paid putting:put reading:read rebuilding:rebuilt rewriting:rewrote riding:rode rising:rose
running:ran seeing:saw seeking:sought selling:sold sending:sent setting:set shooting:shot
shrinking:shrank sitting:sat speaking:spoke speeding:sped spending:spent splitting:split
spreading:spread standing:stood sweeping:swept taking:took teaching:taught telling:told
thinking:thought throwing:threw understanding:understood undertaking:undertook upselling:upsold
winning:won withdrawing:withdrew writing:wrote"""
_PAST = dict(pair.split(":") for pair in _IRREGULAR.split())
_HELPER = re.compile(r"\b(?:led|lead|charge|assist\w*|help\w*|supported|credit|direction)\b")
_ABSTRACT = re.compile(
    r"[A-Z]\w+(?: [a-z]+){0,4}?"
    r" (?:work|activities|things|matters|aspects|details|tasks|efforts|steps|duties|topics)"
    r"(?: (?:a|about|aim|all|area|around|connection|context|field|for|in|of|on|purpose|regard"
    r"|relation|the|to|with))+ (?P<gerund>[a-z]+ing)\b"
)
_PLAIN = [
    (re.compile(rf"{phrase}\b(?! how\b)"), verb)
    for phrase, verb in {
        "Made (?:[a-z]+ ){0,2}changes (?:to|in)": "Revised",
        "Made (?:[a-z]+ ){0,2}improvements (?:to|in)": "Improved",
        "Made (?:[a-z]+ ){0,2}adjustments (?:to|in)": "Adjusted",
        "Did (?:[a-z]+ ){0,2}research (?:on|into|about)": "Researched",
        "Did (?:[a-z]+ ){0,2}analysis of": "Analyzed",
        "Gave (?:[a-z]+ ){0,2}(?:input|advice) (?:on|about)": "Advised on",
        "(?:Looked|Took a look) (?:into|at)": "Examined",
        "(?:Took care of|Looked after)": "Maintained",
        "Kept track of": "Tracked",
        "Kept (?:an eye|watch) (?:on|over)": "Monitored",
        "(?:Tried out|Experimented with)": "Trialed",
        "Talked (?:to|with)": "Consulted",
        "Dealt with": "Addressed",
        "Put together": "Compiled",
    }.items()
]


def _verbs(resume: str) -> Iterator[Change]:
    """Yield replacements of weak bullet openings by the verb of the work.

    A bullet stays unchanged if a note says that somebody else led its work.
    """
    notes = [
        set(_stems(line))
        for _, line in _lines(resume)
        if _HELPER.search(line) and not _BULLET.match(line) and not line.startswith("#")
    ]
    for start, line in _lines(resume):
        told = set(_stems(line))
        # one shared stem may be a coincidence
        if any(len(note & told) > 1 for note in notes):
            continue
        if marker := _BULLET.match(line):
            head, verb = weak_head(line[marker.end() :])
            start += marker.end()
            if head:
                yield Change(start, start + len(head), verb)


def weak_head(text: str) -> tuple[str, str]:
    """Return the weak opening of a bullet and the verb to replace it; both empty if it has none.

    >>> weak_head("I helped with sorting it"), weak_head("Took on tasks in the area of sorting it")
    (('I helped with sorting', 'I sorted'), ('Took on tasks in the area of sorting', 'Sorted'))
    """
    if text.startswith("I "):
        head, verb = weak_head(text[2].upper() + text[3:])
        return (f"I {head[0].lower()}{head[1:]}", f"I {verb.lower()}") if head else ("", "")
    words = text.split(" ")
    hedging, hedges = _HEDGES.split(), 0
    while hedges < len(words) - 2 and words[hedges].lower() in hedging:
        hedges += 1
    gerund = words[hedges]
    if hedges and gerund.endswith("ing") and gerund not in _NOUNS.split():
        stop = hedges + 1 + (words[hedges + 1] == "of")  # "help with hiring of clerks"
        return " ".join(words[:stop]), past_tense(gerund).capitalize()
    if found := _ABSTRACT.match(text):
        return found[0], past_tense(found["gerund"]).capitalize()
    for phrase, verb in _PLAIN:
        if found := phrase.match(text):
            return found[0], verb
    return "", ""


def past_tense(gerund: str) -> str:
    """Return the past tense of a verb, given its -ing form.

    >>> past_tense("carrying"), past_tense("planning"), past_tense("leading")
    ('carried', 'planned', 'led')
    """
    if gerund in _PAST:
        return _PAST[gerund]
    stem = gerund.removesuffix("ing")
    return re.sub(r"(?<=[^aeiou])y$", "i", stem) + "ed"


FILLERS = re.split(
    r",\s+",
    """some, various, several, different, somewhat, basically, essentially, practically, generally,
    really, generally speaking, broadly speaking, in general, a number of, a range of, a variety of,
    a certain amount of, kind of, sort of, of sorts, of various kinds, of various sorts,
    of various types, of several kinds, of several sorts, of several types, of different kinds,
    of different sorts, of different types, in various ways, in several ways, in different ways,
    in one way or another, in some form or other, in the course of things, in that context,
    in the broadest sense, in large part, among other things, along the way, and the like,
    and similar, and so on, and so forth, and such, or the like, or some such, more or less,
    by and large, so to speak, as it were, on the whole, for the most part, to some extent,
    to a certain extent, as far as possible, so far as possible, as needed, as required,
    as appropriate, as applicable, as necessary, as suitable, if needed, if required,
    if appropriate, if applicable, if necessary, if suitable, where needed, where required,
    where appropriate, where applicable, where necessary, where suitable, when needed,
    when required, when appropriate, when applicable, when necessary, when suitable, if possible,
    where possible, when possible""",
)
"""Phrases that add no information."""
FILLER = re.compile(
    r"(?<=[a-z])(?P<comma>,)? (?:"
    + "|".join(sorted(FILLERS, key=len, reverse=True))
    + r")(?(comma)(?:,(?= )|$)|(?= [a-z]|$))",
    re.MULTILINE,
)
"""Pattern of a filler between other words, including its space and commas."""


def _fillers(resume: str) -> Iterator[Change]:
    """Yield bullets without their fillers."""
    for start, line in _lines(resume):
        if _BULLET.match(line) and (new := FILLER.sub("", line)) != line:
            yield Change(start, start + len(line), new)


# Buried points

# "..., where the catalog was rebuilt in two weeks": a subordinate clause in the passive voice
_PASSIVE = re.compile(
    r"(?:, |\b)(?:(?:in|at|on|during|over|for|after|through|with|by|from) )?"
    r"(?:where|which|whom|so that|so|as|since|because|until|once|when|while|whereupon)"
    r"(?: purpose| time| occasion)? (?P<what>(?:(?!was|were|had|been|got)[\w'-]+,? ){1,9}?)"
    r"(?:was|were|had been|has been|have been|got|came to be|had to be|could be)"
    r"(?: (?:then|also|now|soon|finally|duly|promptly|eventually))? (?P<verb>[a-z-]+ed|"
    + "|".join(sorted(set(_PAST.values())))
    + r")(?P<rest>\b.*)"
)
# "..., which were then sorted by date": a relative clause whose antecedent is the object
_WHO = re.compile(
    r"(?P<what>\w[^,;]*), (?:who|which|these|those)"
    r" (?:was|were|had been|has been|have been|were being|was being|got|are being)"
    r"(?: (?:then|also|now|soon|finally|duly|promptly|eventually))? (?P<verb>[a-z-]+ed|"
    + "|".join(sorted(set(_PAST.values())))
    + r")(?P<rest>\b.*)"
)
# the text before the noun phrase that is the antecedent
_NOUN_PHRASE = re.compile(
    r"^(?:.*?\b(?:to|with|near|on|for|by|at|from|in|about|around|like|into|over|after|before"
    r"|(?:aspects|topics|matters|kinds|pieces|parts) of)|\w+) "
)
# "..., and then redesigned the index": a second main clause
_ACTIVE = re.compile(
    r"(?:,? and|,? but|;|,)(?:,[^,]{3,60},| (?:then|also|so|thereby|meanwhile|along the way"
    r"|in (?:doing so|passing|the process)|after(?:ward|wards| that)|on the side|while there))"
    r" (?P<verb>[a-z-]{2,}ed|" + "|".join(sorted(set(_PAST.values()))) + r") (?P<rest>.*)"
)
# "..., for example by rewriting the parser": means or example
_MEANS = re.compile(
    r",?(?: (?:for example|for instance|among other things|such as|mostly|in part|notably"
    r"|in particular|particularly|especially|specifically|namely|in so doing|to that end))"
    r"(?: by| in)?,? (?P<verb>[a-z-]{2,}ing) (?P<rest>.*)"
)
_TRIVIAL = 0.5  # the text after the verb must exceed (1 - _TRIVIAL) / 2 of the bullet


def _buried(resume: str) -> Iterator[Change]:
    """Yield bullets that start with the point of their later clause."""
    for start, line in _lines(resume):
        marker = _BULLET.match(line)
        if marker and (new := point(line[marker.end() :])):
            yield Change(start + marker.end(), start + len(line), new)


def point(bullet: str) -> str:
    """Rewrite a bullet to start with the point of a later clause; empty if there is none."""
    # an early figure suggests that the bullet starts with its point
    if re.search(r"\d", bullet[: len(bullet) // 3]):
        return ""
    for pattern in (_PASSIVE, _WHO, _ACTIVE, _MEANS):
        found = pattern.search(bullet)
        if found and len(found["rest"]) > len(bullet) * (1 - _TRIVIAL) / 2:
            new = _told(found)
            # a nested passive or relative clause would give a garbled sentence
            twisted = pattern is _PASSIVE and re.search(r"\b(?:which|were|was)\b", new)
            if 2 * len(new) > len(bullet) and not twisted:
                return new
    return ""


def _told(found: re.Match[str]) -> str:
    """Turn a matched clause into a sentence in the active voice."""
    verb, rest = found["verb"], found["rest"].strip()
    if found.re in (_PASSIVE, _WHO):
        what = _NOUN_PHRASE.sub("", found["what"]) if found.re is _WHO else found["what"]
        rest = f"{what.strip()} {rest}".strip().replace(" ,", ",")
    if found.re is _MEANS:
        verb = past_tense(verb)
        rest = re.sub(r"\band ([a-z]{3,}ing)\b", lambda hit: f"and {past_tense(hit[1])}", rest)
    return f"{verb[0].upper()}{verb[1:]} {rest}"


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
    (re.compile(r"(?<=[a-z] \d{4}) (?:to|--|–|—) (?=[A-Z])"), " - "),
)


def usual_dates(line: str) -> str:
    """Return the line with dates formatted as in "Feb 2021 - Mar 2023"."""
    for pattern, style in _DATES:
        line = pattern.sub(style, line)
    return line


_LOOSE_HEADING = re.compile(r"\*\*([^*]+)\*\*|([A-Z][A-Z &]{3,})")


def _formatting(resume: str) -> Iterator[Change]:
    """Yield lines with consistent markers, final periods, spacing, headings and dates."""
    bullets = [line for _, line in _lines(resume) if _BULLET.match(line)]
    if not bullets:
        return
    marker = Counter(line[0] for line in bullets).most_common(1)[0][0]
    period = sum(line.endswith(".") for line in bullets) > len(bullets) / 2
    for start, line in _lines(resume):
        if bullet := _BULLET.match(line):
            body = line[bullet.end() :].rstrip(" .") + "." * period
            new = f"{marker} {re.sub(' {2,}', ' ', body)}"
        elif heading := _LOOSE_HEADING.fullmatch(line.strip()):
            new = f"## {heading[1] or heading[2].title()}"
        else:
            new = usual_dates(line)
        if new != line:
            yield Change(start, start + len(line), new)


# Order


def _order(resume: str, fit: Callable[[str], float]) -> Iterator[Change]:
    """For each list of bullets, yield one move of a better-fitting bullet up to its rank."""
    for start, run in _runs(resume):
        ranked = sorted(run, key=fit, reverse=True)
        for place, (line, best) in enumerate(zip(run, ranked, strict=True)):
            if fit(best) > fit(line):
                source = run.index(best)
                start += sum(len(line) + 1 for line in run[:place])
                moved = "\n".join([best, *run[place:source]])
                yield Change(start, start + len(moved), moved)
                break


def _runs(resume: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the start offset and the lines of each run of consecutive bullets."""
    run: list[str] = []
    first = 0
    for start, line in [*_lines(resume), (len(resume), "")]:  # the empty line ends the last run
        if _BULLET.match(line):
            first = first if run else start
            run.append(line)
        elif run:
            yield first, run
            run = []


def _skills(resume: str, fit: Callable[[str], float]) -> Iterator[Change]:
    """Yield one-line skill lists reordered to start with the skills that the job asks for."""
    section = ""
    for start, line in _lines(resume):
        if line.startswith("## "):
            section = line.lower()
        elif "skill" in section and line.count(",") > 1:
            label, colon, items = line.rpartition(": ")
            separator = "; " if "; " in items else ", "
            skills = items.split(separator)
            first = sorted(skills, key=lambda skill: fit(skill) < 1)
            if first != skills:
                yield Change(start, start + len(line), label + colon + separator.join(first))
