"""What a careful stranger changes in a resume: by the text alone, and inventing nothing.

First what the page has no room for, then weak openers, formatting, empty words, and the order of
bullets and skills. Everything here is a guess from the look of lines and a few word lists.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from resume_gym.document import wrapped_lines


class Change(NamedTuple):
    """A span of the resume and the text to put there."""

    start: int
    stop: int
    new: str


def next_edit(
    resume: str, job: str, excess: int, edits_left: int, width: int
) -> tuple[str, str] | None:
    """The most useful change to a resume: what to replace, which occurs once, and by what.

    Args:
        resume: the resume as it stands.
        job: the job description.
        excess: lines that do not fit the page; at most 0 if all do.
        edits_left: edits that can still be made, this one included.
        width: characters of a page line.

    Returns:
        None if nothing is left to change.
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
    """The old and the new text of a change; they grow by whole lines until the old occurs once."""
    start, stop, new = change
    while resume.count(resume[start:stop]) > 1:
        left = resume.rfind("\n", 0, max(0, start - 1)) + 1
        right = resume.find("\n", stop + 1)
        right = right if right >= 0 else len(resume)
        new = resume[left:start] + new + resume[stop:right]
        start, stop = left, right
    return resume[start:stop], new


def _lines(resume: str) -> Iterator[tuple[int, str]]:
    """Each line and where it starts."""
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
    return (word[:6] for word in words if len(word) > 3 and word not in _COMMON.split())


def _fitness(job: str) -> Callable[[str], float]:
    """How much of what the job asks for a line tells; a figure is worth half a word."""
    asked = Counter(_stems(job))

    def fit(line: str) -> float:
        told = set(_stems(line)) & asked.keys()
        # An exact sum: that of floats would depend on the order of the set, and so on the process.
        return math.fsum(1 / asked[stem] for stem in told) + 0.5 * bool(re.search(r"\d", line))

    return fit


# Deletions

_CORE = """summary profile about experience employment work history education academic training
skills projects results certifications publications awards languages qualifications competencies
achievements"""


def _cuts(resume: str, fit: Callable[[str], float], quota: int, width: int) -> Iterator[Change]:
    """Deletions, the least loss first; those that free `quota` page lines before the others."""
    cuts = [(0.0, change) for change in _spare_sections(resume)]
    for start, line in _lines(resume):
        if start and _BULLET.match(line):
            cuts.append((fit(line), Change(start - 1, start + len(line), "")))

    def loss(cut: tuple[float, Change]) -> tuple[bool, float]:
        worth, (start, stop, _) = cut
        return wrapped_lines(resume[start + 1 : stop], width) < quota, worth

    return (change for _, change in sorted(cuts, key=loss))


def _spare_sections(resume: str) -> Iterator[Change]:
    """Sections that no recruiter looks for, with the blank lines before them."""
    heads = [(start, line) for start, line in _lines(resume) if line.startswith("## ")]
    ends = [*(start for start, _ in heads), len(resume)][1:]
    for (start, line), end in zip(heads, ends, strict=True):
        if not set(_CORE.split()) & set(line.lower().split()):
            before, section = resume[:start].rstrip("\n"), resume[start:end].rstrip("\n")
            yield Change(len(before), start + len(section), "")


# Verbs

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
    """Heads of bullets that hide who did the work, as the verb that says it.

    A bullet stays where another line says that somebody else led the work.
    """
    notes = [
        set(_stems(line))
        for _, line in _lines(resume)
        if _HELPER.search(line) and not _BULLET.match(line) and not line.startswith("#")
    ]
    for start, line in _lines(resume):
        told = set(_stems(line))
        if any(len(note & told) > 1 for note in notes):
            continue
        if marker := _BULLET.match(line):
            head, verb = weak_head(line[marker.end() :])
            start += marker.end()
            if head:
                yield Change(start, start + len(head), verb)


def weak_head(text: str) -> tuple[str, str]:
    """The weak head of a bullet and its verb; both empty if it has none.

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
    """The past tense of a verb's -ing form.

    >>> past_tense("carrying"), past_tense("planning"), past_tense("leading")
    ('carried', 'planned', 'led')
    """
    if gerund in _PAST:
        return _PAST[gerund]
    stem = gerund.removesuffix("ing")
    return re.sub(r"(?<=[^aeiou])y$", "i", stem) + "ed"


FILLER = re.compile(
    r"(?<=[a-z])(?P<comma>,)? (?:some|various|several|different|somewhat|basically"
    r"|essentially|practically|generally|really|(?:generally|broadly) speaking|in general"
    r"|a (?:number|range|variety|certain amount) of|(?:kind|sort) of|of sorts"
    r"|of (?:various|several|different) (?:kinds|sorts|types)|in (?:various|several|different) ways"
    r"|in one way or another|in some form or other|in the course of things|in that context"
    r"|in the broadest sense|in large part|among other things|along the way|and the like"
    r"|and similar|and so on|and so forth|and such|or the like|or some such|more or less"
    r"|by and large|so to speak|as it were|on the whole|for the most part"
    r"|to (?:some|a certain) extent|(?:as|so) far as possible"
    r"|(?:as|if|where|when) (?:needed|required|appropriate|applicable|necessary|suitable)"
    r"|(?:if|where|when) possible)"
    r"(?(comma)(?:,(?= )|$)|(?= [a-z]|$))",
    re.MULTILINE,
)
"""Words between others that say nothing, with the space and the commas that go with them."""


def _fillers(resume: str) -> Iterator[Change]:
    """Words of bullets that say nothing."""
    for start, line in _lines(resume):
        if _BULLET.match(line) and (new := FILLER.sub("", line)) != line:
            yield Change(start, start + len(line), new)


# Hidden points

_PASSIVE = re.compile(
    r"(?:, |\b)(?:(?:in|at|on|during|over|for|after|through|with|by|from) )?"
    r"(?:where|which|whom|so that|so|as|since|because|until|once|when|while|whereupon)"
    r"(?: purpose| time| occasion)? (?P<what>(?:(?!was|were|had|been|got)[\w'-]+,? ){1,9}?)"
    r"(?:was|were|had been|has been|have been|got|came to be|had to be|could be)"
    r"(?: (?:then|also|now|soon|finally|duly|promptly|eventually))? (?P<verb>[a-z-]+ed|"
    + "|".join(sorted(set(_PAST.values())))
    + r")(?P<rest>\b.*)"
)
_WHO = re.compile(
    r"(?P<what>\w[^,;]*), (?:who|which|these|those)"
    r" (?:was|were|had been|has been|have been|were being|was being|got|are being)"
    r"(?: (?:then|also|now|soon|finally|duly|promptly|eventually))? (?P<verb>[a-z-]+ed|"
    + "|".join(sorted(set(_PAST.values())))
    + r")(?P<rest>\b.*)"
)
_NOUN_PHRASE = re.compile(
    r"^(?:.*?\b(?:to|with|near|on|for|by|at|from|in|about|around|like|into|over|after|before"
    r"|(?:aspects|topics|matters|kinds|pieces|parts) of)|\w+) "
)
_ACTIVE = re.compile(
    r"(?:,? and|,? but|;|,)(?:,[^,]{3,60},| (?:then|also|so|thereby|meanwhile|along the way"
    r"|in (?:doing so|passing|the process)|after(?:ward|wards| that)|on the side|while there))"
    r" (?P<verb>[a-z-]{2,}ed|" + "|".join(sorted(set(_PAST.values()))) + r") (?P<rest>.*)"
)
_MEANS = re.compile(
    r",?(?: (?:for example|for instance|among other things|such as|mostly|in part|notably"
    r"|in particular|particularly|especially|specifically|namely|in so doing|to that end))"
    r"(?: by| in)?,? (?P<verb>[a-z-]{2,}ing) (?P<rest>.*)"
)
_TRIVIAL = 0.5  # of a line may be its opening


def _buried(resume: str) -> Iterator[Change]:
    """Bullets that come to the point in a later clause, told from there."""
    for start, line in _lines(resume):
        marker = _BULLET.match(line)
        if marker and (new := point(line[marker.end() :])):
            yield Change(start + marker.end(), start + len(line), new)


def point(bullet: str) -> str:
    """What a bullet says in a later clause, told from there; empty if it says it at once."""
    if re.search(r"\d", bullet[: len(bullet) // 3]):
        return ""
    for pattern in (_PASSIVE, _WHO, _ACTIVE, _MEANS):
        found = pattern.search(bullet)
        if found and len(found["rest"]) > len(bullet) * (1 - _TRIVIAL) / 2:
            new = _told(found)
            twisted = pattern is _PASSIVE and re.search(r"\b(?:which|were|was)\b", new)
            if 2 * len(new) > len(bullet) and not twisted:
                return new
    return ""


def _told(found: re.Match[str]) -> str:
    """Return a clause as a separate line."""
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
    """The line with its dates as in "Feb 2021 - Mar 2023"."""
    for pattern, style in _DATES:
        line = pattern.sub(style, line)
    return line


_LOOSE_HEADING = re.compile(r"\*\*([^*]+)\*\*|([A-Z][A-Z &]{3,})")


def _formatting(resume: str) -> Iterator[Change]:
    """Lines that look unlike the others: markers, final periods, spaces, headings, dates."""
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
    """In each list of bullets, the one that fits the job best moves up to its place."""
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
    """Bullets that follow each other, and where the first starts."""
    run: list[str] = []
    first = 0
    for start, line in [*_lines(resume), (len(resume), "")]:
        if _BULLET.match(line):
            first = first if run else start
            run.append(line)
        elif run:
            yield first, run
            run = []


def _skills(resume: str, fit: Callable[[str], float]) -> Iterator[Change]:
    """In each list of skills on one line, those that the job asks for come first."""
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
