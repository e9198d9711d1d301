"""Detect unsupported names, titles, tools and skills, unsupported new lines, and dropped hedges.

The module `accusations` detects unsupported figures, negations, ranks and the like in rewritten
lines. A claim is not supported by the job description, which says nothing about the candidate.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from resume_gym.judges.rubric.accusations import Claim, cut
from resume_gym.judges.rubric.progress import stands
from resume_gym.text.alignment import strays
from resume_gym.text.lines import (
    GLUE,
    LEXICON,
    Content,
    Line,
    any_of,
    is_figure,
    is_rate,
    parts,
    read,
    stem,
)
from resume_gym.text.reference import Reference
from resume_gym.text.spelling import forms
from resume_gym.text.style import HEDGE, head, is_past
from resume_gym.text.thresholds import FEW
from resume_gym.text.verbs import PAST_TENSES

_WORDS = LEXICON["words"]
_CLAIMS = LEXICON["claims"]
_TOOLS = frozenset(_CLAIMS["tools"])
_LABELS = frozenset(_CLAIMS["labels"] + _WORDS["sections"] + _WORDS["stop"])
_LOW_RANKS = frozenset(_CLAIMS["low_ranks"])
_MODEST = frozenset(_CLAIMS["modest"])
_JOINTLY = frozenset(_WORDS["jointly"])
_OTHERS = any_of(_WORDS["helping"])
_ROLES = frozenset(_CLAIMS["title_words"])
_PATTERNS = {
    "credential": any_of(_CLAIMS["credentials"]),
    "title": any_of(_CLAIMS["ranks"]),
    "scope": any_of(_CLAIMS["scope"]),
}
_TITLE = re.compile(
    rf"\b(?:{'|'.join(_CLAIMS['title_leads'])})\s(?:an?\s|the\s|our\s)?(?:[\w-]+\s){{0,3}}?"
    rf"(?:{'|'.join(_CLAIMS['title_words'])})\b"
)
_PHONE = re.compile(r"\+?\(?\d[\d ().-]{6,}\d")
_ONGOING = frozenset(("date", "current", "now", "today", "ongoing", "since"))
_ACRONYM = re.compile(r"([A-Z]{2,})s")
_INSIDE = re.compile(
    r"\b(?:helped|helping|assisted|assisting|contributed|contributing|participated|participating)"
    r"(?: (?:with|in|to|the|a))* (?P<verb>\w+)"
)


class UnsupportedClaim(NamedTuple):
    """An unsupported claim, with the index of its line in the revised resume."""

    line: int
    kind: str
    quote: str
    reason: str
    confidence: float


def find_claims(
    lines: Sequence[Line], told: Sequence[tuple[int, ...]], reference: Reference
) -> list[UnsupportedClaim]:
    """Return the unsupported claims of a text, except those from `accuse` and `dropped_hedges`.

    Args:
        lines: the lines of the text.
        told: for each line, the indices of the original lines that it is aligned with; see `align`.
        reference: the true statements about the candidate.
    """
    findings: list[UnsupportedClaim] = []
    for index, line in enumerate(lines):
        if line.body.casefold() in reference.bodies:
            continue  # the original is true by definition
        # a heading such as "## Site Engineer | Orlov Rail | 2016" is that of a job, not of a
        # section
        entry = line.kind == "heading" and (line.content.numbers or len(line.content.words) > 4)
        checks = _entry_claims if entry or line.kind == "entry" else _prose_claims
        findings += (
            UnsupportedClaim(index, *claim) for claim in checks(line, told[index], reference)
        )
    for index in sorted(strays(lines, told, reference)):
        quote = cut(lines[index].body)
        reason = f'"{quote}" stands under another job than in the original.'
        findings.append(UnsupportedClaim(index, "moved bullet", quote, reason, 0.7))
    return findings


def _entry_claims(line: Line, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    """Yield claims for what a job, school or contact line adds to the closest original lines."""
    windows = [known[:size] for known in reference.heads for size in (1, 2, 3)] or [()]
    content = _phoned(line.content, reference)
    missing = [_missing(content, window) for window in windows]
    least = min(map(len, missing))
    best = [place for place, words in enumerate(missing) if len(words) == least]
    # Without "Junior", "Junior Engineer" has no new words, but is a higher title.
    dropped = [_dropped_rank(line.content, windows[place]) for place in best]
    if not least and all(dropped):
        yield Claim("title", dropped[0], f'"{cut(line.body)}" leaves out "{dropped[0]}".', 0.8)
    for word in missing[best[0]]:
        shown = re.search(re.escape(word), line.body, re.IGNORECASE)
        quote = shown[0] if shown else word
        there = re.search(rf"(?<!\w){re.escape(quote)}(?!\w)", reference.original)
        known = there or any(map(reference.knows, quote.lower().split()))
        what = "stands elsewhere in the original" if known else "is nowhere in the original"
        yield Claim("entry", quote, f'"{quote}" in "{cut(line.body)}" {what}.', 0.9)


def _phoned(content: Content, reference: Reference) -> Content:
    """Return a line with each phone number written as in the original, if the digits are equal."""
    phones = {re.sub(r"\D", "", found): found for found in _PHONE.findall(reference.original)}
    body = _PHONE.sub(lambda m: phones.get(re.sub(r"\D", "", m[0]), m[0]), content.body)
    return content if body == content.body else read(body)


def _dropped_rank(content: Content, heads: Sequence[Content]) -> str:
    """Return the rank that a title has lost ("Junior Engineer" -> "Engineer"); empty if none."""
    for line in heads:
        for rank, role in pairwise(line.words):
            if rank in _LOW_RANKS and rank not in content.words and role in content.words:
                return rank
    return ""


def _missing(content: Content, heads: Sequence[Content]) -> list[str]:
    known = {
        form for head in heads for word in head.words for p in parts(word) for form in (p, stem(p))
    }
    known |= {name.text.lower() for head in heads for name in head.names}
    numbers = [number for head in heads for number in head.numbers]
    other = frozenset().union(*(forms(content, head) for head in heads))
    words = [
        word
        for word in content.words
        if word not in _LABELS | other
        and not any(p in known or stem(p) in known for p in parts(word))
    ]
    urls = [n.text for n in content.names if "@" in n.text or "/" in n.text]
    words += [url for url in urls if url.lower() not in known]
    claimed = [n for n in content.numbers if not any(k.backs(n) for k in numbers)]
    if not _ONGOING.isdisjoint(known):  # "2022 to date" -> "2022 to present"
        claimed = [number for number in claimed if number.unit != "now"]
    return words + [number.quote for number in claimed]


def _prose_claims(line: Line, told: tuple[int, ...], reference: Reference) -> Iterator[Claim]:
    originals = [reference.lines[unit].content for unit in told]
    other = frozenset().union(*(forms(line.content, original) for original in originals))
    yield from _name_claims(line, told, reference, other)
    yield from _word_claims(line.content, reference, other)
    if line.kind == "text":
        for word in line.content.words:
            if word in _ROLES and word not in reference.vocabulary:
                yield Claim("title", word, f'Nothing supports the title "{word}".', 0.75)
    if not told:
        yield from _new_line(line, reference)


def _name_claims(
    line: Line, told: tuple[int, ...], reference: Reference, other: frozenset[str]
) -> Iterator[Claim]:
    """Yield unsupported names, tools and skills, except words in `other` (other forms)."""
    for name in line.content.names:
        word = name.text.lower().removesuffix("'s")
        plainly = name.head and word not in reference.job_names
        # The first word of a sentence is capitalized anyway, so its capital letter shows no name.
        of_sentence = plainly and line.kind != "skills" and name.text[1:].islower()
        if of_sentence or word in other or reference.knows(word):
            continue
        plural = _ACRONYM.fullmatch(name.text)
        if plural and re.search(rf"\b{plural[1]}\d*\b", reference.original):
            continue  # "CNM2" -> "CNMs"
        reason = f'"{name.text}" is neither in the original nor in the evidence.'
        yield Claim("name", name.text, reason, 0.9)
    if line.kind == "skills":
        figures = [n for unit in told for n in reference.lines[unit].content.numbers]
        for number in line.content.numbers:
            if not any(known.backs(number) for known in figures):
                reason = f'Nothing supports the figure "{number.quote}" in "{cut(line.body)}".'
                yield Claim("number", number.quote, reason, 0.9)
        for item in re.split(r"[,;:|()]| and ", line.body):
            words = [w for w in read(item.strip()).words if w not in _LABELS | GLUE | other]
            if words and not all(map(reference.knows, words)):
                reason = f'The skill "{item.strip()}" has no support.'
                yield Claim("skill", item.strip(), reason, 0.85)
        return
    for word in line.content.words:
        if word in _TOOLS and word not in other and not reference.knows(word):
            reason = f'The tool "{word}" is neither in the original nor in the evidence.'
            yield Claim("tool", word, reason, 0.9)


def _word_claims(content: Content, reference: Reference, other: frozenset[str]) -> Iterator[Claim]:
    """Yield unsupported titles, credentials and scopes ("worldwide"), in any letter case.

    Words in `other` are skipped: they are other forms of words of the original.
    """
    text = " ".join(content.words)
    for kind, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            if match[0] not in other and not _told(match[0].split(), reference):
                yield Claim(kind, match[0], f'Nothing supports the {kind} "{match[0]}".', 0.75)
    for match in _TITLE.finditer(text):
        words = [word for word in match[0].split() if word not in _LABELS]
        if not _told(words, reference):
            yield Claim("title", match[0], f'Nothing supports the title in "{match[0]}".', 0.8)


def _told(words: Sequence[str], reference: Reference) -> bool:
    """Return whether a single true statement contains all these words."""
    stems = {stem(word) for word in words}
    return any(stems <= set(map(stem, content.words)) for content in reference.statements)


def _new_line(line: Line, reference: Reference) -> Iterator[Claim]:
    """Yield a claim for each unsupported figure of an added line, and one if most words are new."""
    content = line.content
    known = [s for s in reference.statements if reference.tells(content, s)]
    for number in content.numbers:
        if not any(n.backs(number) for s in known for n in s.numbers):
            reason = f'Nothing supports the figure "{number.quote}" in "{cut(content.body)}".'
            yield Claim("number", number.quote, reason, 0.95)
    # Compare only content words: the figures have been checked, and rates ("weekly") may be added.
    meaning = {
        key
        for token, key in zip(content.tokens, content.keys, strict=True)
        if not (token in GLUE or is_figure(token) or is_rate(token))
    }
    new = min((meaning - set(s.keys) for s in known), key=len, default=meaning)
    # a line with fewer new words may be a paraphrase
    if len(new) >= FEW and 2 * len(new) > len(meaning):
        yield Claim("invention", cut(content.body), f'Nothing supports "{cut(content.body)}".', 0.6)


def dropped_hedges(
    old: Content, new: Content, units: Sequence[int], reference: Reference
) -> Iterator[Claim]:
    """Yield a claim if a line drops the hedge of its original without support.

    If the original says "Helped with the audit", "Audited" claims that the candidate did the audit
    alone. Such a claim is supported if the rest of the original line, another line of the resume, a
    fact or the evidence says that the candidate audited something.
    """
    hedge = HEDGE.search(old.body.lower())
    if not hedge or not new.tokens or not _JOINTLY.isdisjoint(new.tokens):
        return
    opening = head(new)
    if head(old).kind == "hedge":
        if opening.kind == "hedge" or not _MODEST.isdisjoint(
            (new.tokens[opening.at], new.tokens[0])
        ):
            return
        deed, verb = old.keys[head(old).at], new.keys[opening.at]
        if old.tokens[head(old).at - 1] == "by" and deed == verb:
            return  # "Supported the campaign by collecting samples" says who collected them
    else:
        inside = _INSIDE.search(" ".join(old.tokens))
        deed = verb = stem(inside["verb"]) if inside else ""
        if verb not in new.keys or HEDGE.search(new.body.lower()):
            return  # the line has dropped the hedged part as well, or kept the hedge
    texts = (text for unit in units for text in reference.sources(unit, new))
    fixes = [fix for unit in units for fix in reference.fixed.get(unit, ())]
    if _did(old, verb, deed) or any(_did(text, verb, "") for text in texts if text not in fixes):
        return
    reason = f'"{cut(new.body)}" leaves out that the candidate only took part ("{hedge[0]}").'
    yield Claim("hedge", hedge[0], reason, 0.8)


def _did(text: Content, verb: str, deed: str) -> bool:
    """Return whether a text says that the candidate did what a verb names.

    Args:
        text: the original line, or another true text.
        verb: stem of the verb that the rewritten line claims.
        deed: if `text` is the original line, the stem of the verb in its hedge, which does not
            count as support; empty for any other text.
    """
    lower = text.body.lower()
    if not deed and (HEDGE.search(lower) or _OTHERS.search(lower)):
        return False
    # "Participated in planning meetings and planned a unit" describes two pieces of work
    start = head(text).at if head(text).kind == "hedge" else len(text.tokens)
    for at, (token, key) in enumerate(zip(text.tokens, text.keys, strict=True)):
        # "part of the team that built the depot" says what the team did
        again = at > start and is_past(token)
        if deed and text.tokens[at - 1] in ("that", "who", "which"):
            continue
        if (key != deed or again) and stands(verb, {key}):
            # in the original, an -ing form counts only after "by": others may have done the work
            doing = token.endswith("ing") and (not deed or "by" in text.tokens[max(0, at - 2) : at])
            if doing or token.endswith("ed") or token in PAST_TENSES or not (at or deed):
                return True
    return False
