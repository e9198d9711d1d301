"""Classify every change between an original and a revision as better, the same or worse.

A change is better only if it is harmless and a supported improvement: it removes a weak opening,
filler, formatting fault or padding, adds a true figure, or states the main point more plainly. Any
other harmless change counts as the same. `measure` is the entry point.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from resume_gym.judges import JudgeRefused
from resume_gym.judges.rubric.accusations import Claim, cut
from resume_gym.judges.rubric.claims import UnsupportedClaim, dropped_hedges, find_claims
from resume_gym.judges.rubric.damage import doubtful, scarred
from resume_gym.judges.rubric.effects import FORM, SUBSTANCE, Page, gains_of, harms_of, tidied
from resume_gym.judges.rubric.grammar import broken
from resume_gym.judges.rubric.licences import Rewrite, rewrite
from resume_gym.judges.rubric.phrasing import (
    shorn,
)
from resume_gym.judges.rubric.progress import lost, missing
from resume_gym.judges.rubric.strength import aims, lapsed, raised
from resume_gym.text.alignment import align, pair
from resume_gym.text.lines import GLUE, LEXICON, Content, Line, parse, read, stem
from resume_gym.text.reference import PROSE, Reference
from resume_gym.text.spelling import forms, respelt
from resume_gym.text.style import (
    format_faults,
    habits,
    head,
    is_weak,
)
from resume_gym.text.thresholds import FEW, HALF, QUARTER, SEVERAL

_SECTIONS = frozenset(LEXICON["words"]["sections"]) - GLUE

# limits on the size of a text, since the run time is quadratic in each of these counts
_MOST = {"lines": 600, "words": 5000, "numbers": 1000}


class Change(NamedTuple):
    """A change of one line, or the deletion of a run of lines.

    Attributes:
        outcome: 1 better, 0 the same, -1 worse.
        gains: for each graded field that the change improves, the text of the rule that says so.
        harms: for each graded field that the change makes worse, or for `SUBSTANCE`, the text of
            the rule that says so.
        old: the original line; empty for a new line.
        new: the revised line; empty for a deletion.
        key: identifies the change; if the same change is made in several lines, the keys are equal.
    """

    outcome: int
    gains: Mapping[str, str]
    harms: Mapping[str, str]
    old: str
    new: str
    key: object


@dataclass(frozen=True, slots=True)
class Signals:
    """Result of comparing a text with the original.

    Attributes:
        changes: the changes; a repeated change is listed once.
        findings: unsupported claims.
        doubts: claims whose truth the rules cannot judge, such as a new verb; they affect no grade.
        needless: number of changes that are not better, repetitions included.
    """

    changes: tuple[Change, ...]
    findings: tuple[UnsupportedClaim, ...]
    doubts: tuple[UnsupportedClaim, ...]
    needless: int


_NONE: Mapping[str, str] = {}
_REPAIRED = {"clarity": "repaired"}
_CROWDED = {"clarity": "blank lines before headings are gone"}


def measure(text: str, reference: Reference) -> Signals:
    """Compare a text with the original.

    Raises:
        JudgeRefused: the text is too long; see `excess`.
    """
    lines = parse(text)
    if over := excess(text):
        raise JudgeRefused(f"the text exceeds the rubric judge's limit of {over}")
    if lines == reference.lines:
        return Signals((), (), (), 0)
    origins = align(lines, reference)
    page = Page(lines, origins, reference, habits(reference.lines), habits(lines))
    findings = find_claims(lines, origins, reference)
    doubts: list[UnsupportedClaim] = []
    lined = [_line_change(page, index, findings, doubts) for index in range(len(lines))]
    changes = [*filter(None, lined), *_deletions(page), *_blank_lines(page)]
    # Sort the worst changes to the end, since the dict keeps the last of the changes with equal
    # keys.
    worst = {change.key: change for change in sorted(changes, key=lambda change: -change.outcome)}
    needless = sum(change.outcome <= 0 for change in changes)
    return Signals(tuple(worst.values()), tuple(findings), tuple(doubts), needless)


def measure_lines(text: str, reference: Reference) -> Signals:
    """Grade each line that differs from the original, independently of the other lines.

    Each original line has at most one change: its rewrite, by the line that is paired with it
    (`alignment.pair`), or its deletion. A line that equals a mended text of its original is better.
    Added lines are never better, and at most as many are counted as the original has lines. Moving
    a line is no change. `Signals.changes` lists repeated changes, too.

    Raises:
        JudgeRefused: the text is too long; see `excess`.
    """
    if over := excess(text):
        raise JudgeRefused(f"the text exceeds the rubric judge's limit of {over}")
    parsed = parse(text)
    origins = pair(parsed, reference)
    lines = tuple(
        _sorted(line, reference.lines[units[0]]) if units else line
        for line, units in zip(parsed, origins, strict=True)
    )
    page = Page(lines, origins, reference, reference.form, reference.form)
    found = find_claims(lines, origins, reference)
    findings = [one for one in found if one.kind != "moved bullet" or _is_moved(page, one.line)]
    doubts: list[UnsupportedClaim] = []
    changed: list[Change] = []
    added: list[Change] = []
    for index, units in enumerate(origins):
        change = _paid(page, index, _line_change(page, index, findings, doubts))
        if change:
            (changed if units else added).append(change)
    added.sort(key=lambda change: change.outcome)
    paired = {unit for units in origins for unit in units}
    gone = (_gone(unit, page) for unit in range(len(reference.lines)) if unit not in paired)
    changes = (*changed, *filter(None, gone), *added[: len(reference.lines)])
    needless = sum(change.outcome <= 0 for change in changes)
    return Signals(changes, tuple(findings), tuple(doubts), needless)


def excess(text: str) -> str:
    """Return the first limit that a text exceeds and its size, as in "600 lines: 601"; else ""."""
    lines = parse(text)
    sizes = {
        "lines": len(lines),
        "words": sum(len(line.content.words) for line in lines),
        "numbers": sum(len(line.content.numbers) for line in lines),
    }
    over = (f"{_MOST[what]:,} {what}: {n:,}" for what, n in sizes.items() if n > _MOST[what])
    return next(over, "")


def _weigh(
    gains: Mapping[str, str],
    harms: Mapping[str, str],
    false: bool,
    old: str,
    new: str,
    key: object,
) -> Change:
    """Build a change; with a harm or a false claim, its outcome is -1 and it has no gains."""
    worse = bool(harms) or false
    # A harm cancels all gains; otherwise a better verb could make up for a false claim.
    gained = _NONE if worse else gains
    return Change(-1 if worse else int(bool(gained)), gained, harms, old, new, key)


def _line_change(
    page: Page, index: int, findings: list[UnsupportedClaim], doubts: list[UnsupportedClaim]
) -> Change | None:
    """Return the change between a line and its original lines; None if it is unchanged."""
    line, units, reference = page.lines[index], page.origins[index], page.reference
    units = _rewritten(units, line, reference)
    originals = [reference.lines[unit] for unit in units]
    if any(line.raw == original.raw for original in originals):
        return None
    if scarred(line.raw, reference.original):
        scar = {"clarity": "has a blank to fill in or a stray character"}
        return _weigh(_NONE, scar, False, "", line.body, line.raw)
    kinds = {line.kind, *(original.kind for original in originals)}
    # a line that is too short to be aligned: "Applicator (lapsed 2018)" -> "Applicator"
    bare = [] if originals else [one for one in reference.lines if lapsed(one.content)]
    body = line.body.lower().strip()
    listed = originals or [
        one for one in bare if one.body.lower().replace(lapsed(one.content), "").strip() == body
    ]
    levels = (claim for original in listed for claim in raised(original.content, line.content))
    findings.extend(UnsupportedClaim(index, *claim) for claim in levels)
    false = any(finding.line == index for finding in findings)
    if not originals:  # an added line has no gains, and does harm if it copies another line
        copied = reference.has(line)
        harms = {"clarity": "repeats another line"} if copied else _NONE
        return _weigh(_NONE, harms, false, "", line.body, line.body)
    if not kinds.issubset(PROSE):
        return _other(page, index, originals, false)
    if len(originals) == 1 and originals[0].body == line.body:
        return _form(page, originals[0], line)
    if not (line.content.tokens and all(original.content.tokens for original in originals)):
        return _weigh(_NONE, {"clarity": "has no words"}, false, "", line.body, line.raw)
    return _prose(page, index, units, findings, doubts)


def _prose(
    page: Page,
    index: int,
    units: Sequence[int],
    findings: list[UnsupportedClaim],
    doubts: list[UnsupportedClaim],
) -> Change:
    """Classify the change of a bullet or a line of a text such as a summary."""
    line, reference = page.lines[index], page.reference
    originals = [reference.lines[unit] for unit in units]
    bodies = [original.body for original in originals]
    was = originals[0].content if len(originals) == 1 else read("; ".join(bodies))
    old, new = respelt(was, line.content, reference.attested), _whole(page, index, was)
    fixed = reference.fixed.get(units[0], ()) if len(units) == 1 else ()
    rewording = _reworded(old, new, units, fixed, reference)
    repaired = any(line.body == one.body for one in fixed[-1:])
    claims = [*dropped_hedges(old, new, units, reference)]
    if not repaired:
        claims += [*rewording.claims, *_other_verb(old, new, rewording)]
    if claims and len(originals) == 1 and (summary := _summary(originals[0], line, reference)):
        return summary
    for claim in claims:
        (findings if claim.confidence > 0.5 else doubts).append(UnsupportedClaim(index, *claim))
    false = any(finding.line == index for finding in findings)
    rules = () if repaired else harms_of(page, originals, old, line, new, rewording, fixed)
    harms = _first(rules)
    gains: dict[str, str] = {}
    if len(originals) == 1:
        gains |= _first(tidied(originals[0], old, new, rewording, reference))
        known = (*fixed, *filter(None, [rewording.source]))
        sure = rewording.retold or not doubtful(old, line.content, known)
        if rewording.licensed and sure:
            gains |= {"clarity": "a spelling is corrected"} if old is not was else {}
            gains |= _first(gains_of(page, originals[0], line, rewording))
    marked = any(line.body == one.body for one in fixed)
    if len(originals) == 1 and not marked and aims(old, new):
        gains = {}
    if repaired and not gains:
        gains["clarity"] = "states the point plainly"
    return _weigh(gains, harms, false, was.body, line.body, _difference(was, line.content))


def _reworded(
    old: Content,
    new: Content,
    units: Sequence[int],
    fixed: Sequence[Content],
    reference: Reference,
) -> Rewrite:
    """Compare a line with its original lines, `units`, and with what may support the changes."""
    rewording = rewrite(old, new, fixed, fixed, reference)
    # The fixes are tried first, since they certainly concern this line. Evidence and other lines
    # are merely similar to it, and are tried only if the fixes do not support the whole line.
    if not rewording.plain:
        sources = [source for unit in units for source in reference.sources(unit, new)]
        rewording = rewrite(old, new, sources, fixed, reference)
    return rewording


def _first(rules: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Map each field in (field, rule) pairs to its first rule."""
    found: dict[str, str] = {}
    for field, rule in rules:
        found.setdefault(field, rule)
    return found


def _rewritten(units: tuple[int, ...], line: Line, reference: Reference) -> tuple[int, ...]:
    """Return the indices of the original lines that a line replaces.

    A line that is aligned with several original lines usually replaces all of them. But if the line
    is one of these lines with little more than the figures of the others added, it replaces only
    that line: moving a figure to another line does not count as joining two lines.
    """
    if len(units) < 2:
        return units
    contents = {unit: reference.lines[unit].content for unit in units}
    new = line.content
    main = max(
        units,
        key=lambda unit: (
            contents[unit].keys[head(contents[unit]).at] == new.keys[head(new).at],
            len(set(contents[unit].telling).intersection(new.telling)),
        ),
    )
    much_longer = len(new.telling) > len(contents[main].telling) + 2 * FEW
    restated = all(_tells(new, content) for unit, content in contents.items() if unit != main)
    return (main,) if restated and not much_longer else units


def _whole(page: Page, index: int, old: Content) -> Content:
    """Return the content of a line, joined with a new line beside it that was split off `old`."""
    line = page.lines[index]
    for place in (index + 1, index - 1):
        beside = page.lines[place] if 0 <= place < len(page.lines) else line
        added = beside is not line and not page.origins[place] and beside.kind == line.kind
        if added and sum(key not in old.keys for key in beside.content.telling) < SEVERAL:
            return read(f"{line.body}; {beside.body}")
    return line.content


def _summary(old: Line, line: Line, reference: Reference) -> Change | None:
    """Return a change with outcome 0 if a summary adds mostly supported words, and else None."""
    new = line.content
    added = [word for word in new.words if word not in GLUE and stem(word) not in old.content.keys]
    figures = [known for statement in reference.statements for known in statement.numbers]
    if (
        {line.kind, old.kind} != {"text"}
        or len(added) <= FEW
        or broken(old.content, new)
        or not all(any(known.backs(claim) for known in figures) for claim in new.numbers)
        or sum(not reference.knows(word) for word in added) > QUARTER * len(added)
    ):
        return None
    # if this change were better, a policy would paste bullets into the summary
    return _weigh(_NONE, _NONE, False, old.body, line.body, line.body)


def _form(page: Page, old: Line, new: Line) -> Change:
    """Classify a change that affects only markup and spacing."""
    change = format_faults(new, page.after) - page.faults(old)
    key = (old.style, new.style, old.raw.strip()[-1:], new.raw.strip()[-1:], change)
    gains = {"clarity": FORM[1]} if change < 0 else _NONE
    harms = {"clarity": FORM[-1]} if change > 0 else _NONE
    return _weigh(gains, harms, False, old.raw, new.raw, key)


def _other(page: Page, index: int, originals: Sequence[Line], false: bool) -> Change:
    """Classify a change of a heading, an entry (such as a job's title line), or a skills line."""
    line = page.lines[index]
    before = [original.content for original in originals]
    was = read("; ".join(content.body for content in before))
    gone = {*_own(was, line.content)}.difference(line.content.keys)
    longer = len(_own(line.content, was)) > len(_own(was, line.content))
    change = format_faults(line, page.after) - max(map(page.faults, originals))
    other_kind = line.kind not in [original.kind for original in originals]
    words = {word for content in before for word in content.words} | _SECTIONS
    nameless = line.kind == "heading" and words.isdisjoint(line.content.words)
    # a contact line may lose a date of birth, but no address
    links = {name.text.lower() for content in before for name in content.names if "@" in name.text}
    contact = bool(links) and not any(original.section for original in originals)
    praise = shorn(was, line.content, page.reference.knows)
    rules = (
        ("jd_alignment", "drops a skill of the job",
         line.kind == "skills" and gone & page.reference.job_weights.keys()),
        ("clarity", "has become another kind of line", other_kind),
        ("clarity", FORM[-1], change > 0),
        ("clarity", "is a heading that has lost its name", nameless),
        (SUBSTANCE, "the facts of a position have changed",
         line.kind == "entry" and not (contact or praise) and (gone or longer)),
        (SUBSTANCE, "contact details are gone", contact and gone & links),
    )  # fmt: skip
    harms = _first((field, rule) for field, rule, broken in rules if broken)
    gains = {"clarity": FORM[1]} if change < 0 and not gone else _NONE
    if praise:
        gains = {"clarity": "praise without content is gone"}
    old = "; ".join(original.body for original in originals)
    return _weigh(gains, harms, false, old, line.body, (old, line.body))


def _own(content: Content, other: Content) -> list[str]:
    """Return the keys of a line's content words, except words that `other` has in another form."""
    small = forms(content, other) | GLUE
    return [k for t, k in zip(content.tokens, content.keys, strict=True) if t not in small]


def _other_verb(old: Content, new: Content, rewording: Rewrite) -> Iterator[Claim]:
    """Yield a claim of low confidence for an unsupported verb, unless the line has other claims."""
    if rewording.verb == "swapped" and not rewording.claims and not is_weak(new):
        quote = new.tokens[head(new).at]
        if stem(quote) in map(stem, old.tokens):  # "Various bug fixes" -> "Fixed bugs"
            return
        reason = f'The verb changed: is "{quote}" true of "{cut(old.body)}"?'
        yield Claim("verb", quote, reason, 0.4)


def _difference(old: Content, new: Content) -> object:
    """Return a change's key: the removed and added words or, if they are many, the new line."""
    # With this key, swapping the same word in ten lines is one change, but rewriting ten lines is
    # ten changes.
    removed, added = set(old.tokens) - set(new.tokens), set(new.tokens) - set(old.tokens)
    return (frozenset(removed), frozenset(added)) if len(removed) + len(added) <= 4 else new.body


def _deletions(page: Page) -> Iterator[Change]:
    """Yield a change for each run of consecutive deleted lines, as bad as its worst line."""
    reference = page.reference
    restated = {unit for units in page.origins for unit in units}
    deleted = [unit for unit in range(len(reference.lines)) if unit not in restated]
    idle = sum(unit in reference.spare for unit in deleted)
    # a deletion has gains only if most of the deleted lines can be spared
    most = int(2 * idle > len(deleted))
    # The index of a line minus its position in the list is constant in a run of consecutive lines.
    for _, run in groupby(enumerate(deleted), key=lambda pair: pair[1] - pair[0]):
        units = [unit for _, unit in run]
        gains = dict.fromkeys(("clarity", "jd_alignment")[: 1 + (idle >= FEW)], "padding is gone")
        harms = {SUBSTANCE: "content is gone"}
        if any(reference.lines[unit].content.figures for unit in units):
            harms["quantification"] = "a figure is gone"
        line = reference.lines[units[0]]
        body = line.body or line.raw.strip()  # "---" has no body
        outcome = min(most, *(_deleted(unit, page, restated) for unit in units))
        gained, harmed = gains if outcome > 0 else _NONE, harms if outcome < 0 else _NONE
        yield _weigh(gained, harmed, False, body, "", ("gone", units[0]))


def _deleted(unit: int, page: Page, restated: AbstractSet[int]) -> int:
    """Return the outcome of deleting a line.

    The outcome is 1 if the line is padding. It is 0 if the line is vague, is a heading, or is
    restated by another line. Otherwise, it is -1.
    """
    reference, line = page.reference, page.reference.lines[unit]
    # Lines whose heading is deleted would seem to belong to the section or job above.
    orphans = unit + 1 in restated and reference.lines[unit + 1].kind != "heading"
    if line.kind == "heading" and orphans:
        return -1
    if unit in reference.spare:
        return 1
    if line.kind == "heading" or any(_tells(other.content, line.content) for other in page.lines):
        return 0
    return _loss(unit, reference)


def _loss(unit: int, reference: Reference) -> int:
    """Return 0 if a line is a vague bullet, and -1 if it has content that nothing restates."""
    line = reference.lines[unit]
    if line.kind != "bullet" or line.content.figures or reference.sources(unit, line.content):
        return -1
    job_stems = line.content.stems & reference.job_weights.keys()
    return 0 if len(job_stems) <= 1 or is_weak(line.content) else -1


def _tells(content: Content, other: Content) -> bool:
    """Return whether `content` has all figures (one or more) and half the core words of `other`."""
    return bool(other.figures) and not missing(other, content) and lost(other, content) <= HALF


def _blank_lines(page: Page) -> Iterator[Change]:
    """Yield a single change if blank lines before headings have been removed."""
    pairs = zip(page.lines, page.origins, strict=True)
    if any(units and _is_crowded(line, page.reference.lines[units[0]]) for line, units in pairs):
        yield _weigh(_NONE, _CROWDED, False, "blank lines", "", "blank lines")


def _is_crowded(line: Line, original: Line) -> bool:
    """Return whether the blank line before a heading has been removed."""
    head = line.kind in ("heading", "entry") and line.number > 0
    return head and original.spaced and not line.spaced


def _sorted(line: Line, original: Line) -> Line:
    """Return a line with its original's kind and section, which edits of lines above may change."""
    alike = line.style == original.style or original.kind == "skills"
    same = alike and "heading" not in (line.kind, original.kind)
    return replace(line, kind=original.kind, section=original.section) if same else line


def _paid(page: Page, index: int, change: Change | None) -> Change | None:
    """Return the change of a line, adjusted by two rules that only rewards per line use.

    A line is worse if the blank line before a heading is lost, and better if it equals a mended
    text of its original.
    """
    line, units = page.lines[index], page.origins[index]
    if units and _is_crowded(line, page.reference.lines[units[0]]):
        return _weigh(_NONE, _CROWDED, False, line.body, line.body, units)
    if change and units and line.raw in page.reference.mended.get(units[0], ()):
        return change._replace(outcome=1, gains=change.gains or _REPAIRED, harms=_NONE)
    return change


def _is_moved(page: Page, index: int) -> bool:
    """Return whether neither neighbour of a bullet is from the bullet's job.

    In contrast, `strays` looks at the heading above, which another edit may have changed.
    """
    heads, bullets = page.reference.runs
    runs = {**heads, **bullets}
    near = [*page.origins[max(0, index - 1) : index], *page.origins[index + 1 : index + 2]]
    return not {runs.get(unit) for unit in page.origins[index]}.intersection(
        runs.get(unit) for units in near for unit in units
    )


def _gone(unit: int, page: Page) -> Change | None:
    """Return the change of a deleted line, whatever else is deleted; None if it does not count."""
    line, spare = page.reference.lines[unit], unit in page.reference.spare
    # A heading alone is no padding: its lines would then seem to belong to the section above.
    if line.kind == "heading" and spare:
        return None
    # Lines that other edits change do not count: each edit is graded on its own.
    added = (one for one, units in zip(page.lines, page.origins, strict=True) if not units)
    if any(_tells(one.content, line.content) for one in (*page.reference.lines[:unit], *added)):
        return None  # an earlier line says the same, or the content has moved
    outcome = 1 if spare else _loss(unit, page.reference)
    gains = {"clarity": "padding is gone"} if outcome > 0 else _NONE
    harms = {SUBSTANCE: "content is gone"} if outcome < 0 else _NONE
    return Change(outcome, gains, harms, line.body or line.raw.strip(), "", ("gone", unit))
