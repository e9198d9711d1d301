"""Detect damage in a rewritten line: broken English, blanks to fill in, and stray characters.

A damaged line mostly consists of pieces of its sources (the original line, a fix, a sentence of the
evidence). Within a piece the English is that of the source. So the rules look only at the end of
the line and at seams: pairs of adjacent words that no source has. The entry points are `torn`,
`doubtful` and `scarred`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise, product

from resume_gym.text.lines import GLUE, LEXICON, Content, read, stem
from resume_gym.text.style import (
    filler_spans,
    fillers,
    head,
    is_filler,
    is_open,
    is_past,
    is_weak,
)
from resume_gym.text.thresholds import FEW, HALF, SEVERAL
from resume_gym.text.verbs import FIELDS, FRAMES, KNOWN_VERBS, NOUNS, STATIVE, VERBS, is_base

_TORN = {name: frozenset(words) for name, words in LEXICON["torn"].items() if name != "pairs"}
_COMPLETED: dict[str, str] = LEXICON["torn"]["pairs"]
_AUXILIARIES = frozenset(LEXICON["words"]["auxiliaries"])
_PREPOSITIONS, _JOINTS, _ADVERBS = (_TORN[name] for name in ("prepositions", "joints", "adverbs"))
_DETERMINERS, _PRONOUNS = _TORN["determiners"], _TORN["pronouns"]
_WITH = frozenset(("with", "using", "via"))
_MARKS = frozenset(',;:!?()"-.')
_WORD = re.compile(r"[\w'-]+")
_STOPS = frozenset(".;:")
_END = ""
_NEAR = 8  # maximum number of words of a removed span; minimum number of words of a scrambled line
_KNOWN = 0.7  # a line with a smaller share of its content words in its sources is not checked
_PIECE = re.compile(
    r'[,;:!?()"]|\.(?=\s|$)|(?<=\s)-+(?=\s)|[^\s,;:!?()"]+?(?=\.?(?:[\s,;:!?()"]|$))'
)
_SCAR = re.compile(
    r"""
    \[[^\]]*\](?!\() | <[/a-z_\ \#]+> | _{2,} | \{\{?[^}]*\}\}? | \(insert\b[^)]*\)
    | \b(?:TBD|TODO|TBC)\b
    | \b[XN]{1,3}(?=\s?%) | (?<=[$€£])[XN]+\b | \bX{2,}\b | \.{3,} | …
    | \b[a-z]+[,;][A-Za-z]+ | \b\d+(?:times|people|(?:week|day|hour|month|year)s?)\b
    | \\[ntr"'] | \\u[0-9a-f]{4} | &(?:\#x?[0-9a-f]+|[a-z]{2,6}); | â€ | Ã[\x80-\xbf]
    | [\x00-\x08\x0b-\x1f\x7f\ufffd\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ue000-\uf8ff]
    """,
    re.VERBOSE,
)


_GIVING = frozenset(map(stem, LEXICON["protected"]["giving"])) | {
    "save",
    "ask",
    "earn",
    "help",
    "let",
    "made",
    "make",
}
_SAYING = frozenset(map(stem, _TORN["saying"]))
# a capital letter after a word of small letters or "I": "for Logged", "I Moved"
_CAPITAL = re.compile(r"(?:(?<=[a-z] )|(?<=^I ))[A-Z][a-z]{2,}\b")
_LEADING = _AUXILIARIES | {"to", "help", "helped", "helps"}


def scarred(new: str, page: str) -> bool:
    """Return whether a line has a blank ("[X]"), escape or control character that `page` lacks."""
    return any(found[0] not in page for found in _SCAR.finditer(new))


def torn(old: Content, new: Content, sources: Sequence[Content]) -> str:
    """Return the first fault found in the English of a rewritten line, or an empty string.

    Args:
        old: the original line.
        new: the rewritten line.
        sources: the line after each fix, and the statement that supports the rewrite.
    """
    words, known = _read(old, new, sources)
    bodies = [source.body for source in (old, *sources)]
    return next(_faults(old, new, words, known, bodies), "") if words else ""


def doubtful(old: Content, new: Content, sources: Sequence[Content]) -> bool:
    """Return whether a line reorders a source, or lacks a span of it that may be no whole phrase.

    The same goes for a word put into, or exchanged in, a stretch that a source has. Such a line may
    be good English, but the rules are not sure enough for a better grade.
    """
    words, known = _read(old, new, sources)
    line = (*words, _END, _END)
    pairs = {pair for text in known for pair in pairwise((*text, _END))}
    seams = [at for at in range(1, len(words)) if line[at : at + 2] not in pairs]
    if (len(seams) > 1 and _drawn(words, known)) or _meddled(words, known):
        return True
    for at, text in product(seams, known):
        goes = (*text, _END, _END)
        for i, j in _spans(goes[:-1], *line[at : at + 2]):
            around = (goes[i - 1], goes[j + 1]) == (line[at - 1], line[at + 2])
            whole = _opens(goes[i + 1]) and _opens(goes[j])
            vague = fillers(" ".join(goes[i : j + 1])) > fillers(" ".join(line[at : at + 2]))
            # "disciplining of associates" -> "disciplined associates"
            acts = goes[i] != words[at] and goes[i + 1 : j] == ("of",)
            own = {*goes[i + 1 : j]} - _MARKS - GLUE
            moved = bool(own) and own <= {*words}
            if around and not (whole or vague or acts or moved):
                return True
    return False


def _meddled(words: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a line has a word or comma put in between two words of a source.

    Also return true if a small word is exchanged for another, or a plural for a singular: "Moved
    jobs of Actions" for "Moved jobs to Actions". New numbers, adverbs, articles and commas before a
    clause are fine.
    """
    pairs = {pair for text in known for pair in pairwise(text)}
    triples = [{*zip(text, text[1:], (*text[2:], _END), strict=False)} for text in known]
    for before, word, after in zip(words, words[1:], (*words[2:], _END), strict=False):
        if any((before, word, after) in three for three in triples) or _free(before, word, after):
            continue
        if (before, after) in pairs:
            return True
        for n, three in enumerate(triples):
            others = {two for one, two, end in three if (one, end) == (before, after)}
            # "Used Figma to draw maps" -> "Drew maps with Figma", where the fix has "in Figma"
            if any(_alike(word, other) for other in others) and not (n and word in _WITH):
                return True
    return False


def _free(before: str, word: str, after: str) -> bool:
    """Return whether a word may be put in between two others, whatever they are."""
    clause = word in _MARKS and after in _JOINTS
    article = word in _DETERMINERS and before not in _DETERMINERS
    number = _figure(word) or bool(read(word).numbers)
    return clause or article or number or word in _ADVERBS or word.endswith("ly")


def _alike(word: str, other: str) -> bool:
    """Return whether two words are small words, or a singular and its plural."""
    small = GLUE | _PREPOSITIONS
    return {word, other} <= small or word in (f"{other}s", other.removesuffix("s"))


def halved(old: Content, new: Content) -> str:
    """Return whether a line lacks only a part of a filler: "torn", "half", or "" if it does not.

    A filler is "half" gone if what stays reads well: "in order to help ensure quality" -> "to
    ensure quality". It is "torn" otherwise, as in "with a script in to ensure quality".
    """
    words, others = ([*_WORD.finditer(one.body.lower())] for one in (old, new))
    was, now = ([word[0] for word in one] for one in (words, others))
    codes = SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    kept = {n for kind, a, b, _, _ in codes if kind == "equal" for n in range(a, b)}
    added = {n for kind, a, b, _, _ in codes if kind in ("insert", "replace") for n in (a, b)}
    gone = [one for kind, a, b, _, _ in codes if kind == "delete" for one in _slid(was, a, b)]
    worst = ""
    for start, end in filler_spans(old.body):
        span = [n for n, word in enumerate(words) if start <= word.start() < end]
        if kept.issuperset(span) or not added.isdisjoint((*span, span[-1] + 1)):
            continue
        whole = any(a <= span[0] and span[-1] < b for a, b in gone)
        if whole or kept.isdisjoint(span):
            # "a script in order to ensure" -> "a script ensure"
            if was[span[-1]] == "to" and kept >= {span[0] - 1, span[-1] + 1}:
                return "torn"
            continue
        worst = _left_of(was, span, kept, is_open(old.body[start:end].lower())) or worst
        if worst == "torn":
            break
    return worst


def _slid(words: Sequence[str], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans whose removal leaves the same words as the removal of a span."""
    first, last = start, stop
    while first and words[first - 1] == words[last - 1]:
        first, last = first - 1, last - 1
    yield first, last
    while last < len(words) and words[first] == words[last]:
        first, last = first + 1, last + 1
        yield first, last


def _left_of(words: Sequence[str], span: Sequence[int], kept: set[int], free: bool) -> str:
    """Return "torn", "half" or, if only a preposition is left that still fits, an empty string.

    `free` is true for a phrase that may contain any words: it may lose some, but not the first.
    """
    left = [words[n] for n in span if n in kept]
    last = words[span[-1]]
    if left == ["to"] or (left == [words[span[0]]] and last in ("of", "the")):
        return "" if last in ("to", "of", "the") else "torn"
    opening = span[: 1 + (words[span[0]] == "was")]  # "was given"
    short = len(left) == 1 and left[0] not in GLUE and not free
    sound = is_filler(" ".join(left)) or short or (free and kept.issuperset(opening))
    return "half" if sound else "torn"


def _read(
    old: Content, new: Content, sources: Sequence[Content]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the words of a line (none if it is a source or a paraphrase) and of its sources."""
    words, known = _pieces(new.body), [_pieces(source.body) for source in (old, *sources)]
    keys = {stem(word) for text in known for word in text}
    telling = [word for word in words if word not in GLUE | _MARKS]
    free = sum(stem(word) in keys for word in telling) < _KNOWN * len(telling)
    return (() if free or words in known else words), known


@lru_cache(maxsize=8192)
def _pieces(body: str) -> tuple[str, ...]:
    """Split a line into lower-case words and punctuation marks, without a final mark."""
    found = _PIECE.findall(body.lower())
    while found and found[-1] in ".;!":
        found.pop()
    return tuple(found)


def _faults(
    old: Content,
    new: Content,
    words: tuple[str, ...],
    known: list[tuple[str, ...]],
    bodies: Sequence[str],
) -> Iterator[str]:
    pairs = {pair for text in known for pair in pairwise((*text, _END))}
    seams = [at for at, pair in enumerate(pairwise(words)) if pair not in pairs]
    # "Seats were replaced" -> "Replaced seats" changes the order of all words
    turned = not {("was", words[0]), ("were", words[0])}.isdisjoint(pairwise(known[0]))
    mixed = len(words) >= _NEAR and len(seams) >= HALF * len(words) and not turned
    rules = (
        ("its end is cut off", (words[-1], _END) not in pairs and _cut(words, known)),
        (
            "its end is cut off",
            words[-1] == "so"
            and words[-2:-1]
            and words[-2] not in ("if", "do", "did", "doing", "more"),
        ),
        ("two sentences run together", _runs_on(new.body, bodies)),
        ("part of the old phrase is left", _stranded(words, known)),
        ("the words are scrambled", mixed and _drawn(words, known)),
        ("the second verb has not been changed", _half_done(words, known[0], pairs)),
        ("the main verb is gone", _headless(old, words, known[0])),
        ("part of the old opening is left", is_weak(old) and _left(old, words)),
        ("a pronoun has lost its noun", _orphaned(words, known)),
        ("says something twice", _repeats(words, known)),
        ("two verbs have one subject", _doubled(words, known[0])),
        ("part of a phrase is gone", _crammed(words, known)),
    )
    yield from (rule for rule, broken in rules if broken)
    for at in seams:
        yield from _seam_faults(words, at, pairs, known)


def _seam_faults(
    words: tuple[str, ...],
    at: int,
    pairs: set[tuple[str, str]],
    known: list[tuple[str, ...]],
) -> Iterator[str]:
    first, second = words[at : at + 2]
    if first == second:
        yield "says something twice"
    if _misfit(words, at, known):
        yield "two parts do not fit"
    if first in _TORN["holding"] and second in _TORN["unheld"]:
        yield "a phrase has lost its noun"
    if first in _TORN["bound"] and second in _TORN["unbound_by"]:
        yield "a phrase has lost its noun"
    if second in _STOPS and first in _TORN["unfinished"]:
        yield "a sentence is cut off"
    if _exchanged(words, at, pairs, known):
        yield "two words have changed places"
    if any(_removed(words, at, text) for text in known) and not _kept(words, at, known):
        yield "part of a phrase is gone"
    if _misformed(words, at, known):
        yield "a verb has the wrong form"
    if _split(words, at, known):
        yield "a word too many"


def _doing(word: str) -> bool:
    return word.endswith("ing") and len(word) > 4 and word not in FIELDS


def _figure(word: str) -> bool:
    return word[:1].isdigit() or (word[:1] in "$€£#" and word != _END)


def _opens(word: str) -> bool:
    """Return whether a word begins a new part of a sentence, so that a line may end before it."""
    return (
        word in _MARKS
        or word == _END
        or word in _JOINTS | _PREPOSITIONS | _ADVERBS | _AUXILIARIES
        or word.endswith("ly")
        or _doing(word)
    )


def _cut(words: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a line ends within a phrase, judging by how its sources continue."""
    last = words[-1]
    if last.endswith("-") or last in _MARKS - {"!", "?", ")", '"'}:
        return True
    if words[-2:] == ("for", "example"):
        return True
    going, ended = [], False
    size = SEVERAL if words[-2:-1] == ("to",) else FEW  # "to ensure" needs an object
    for text in known:
        for at in range(size, len(text) + 1):
            if text[at - size : at] != words[-size:]:
                continue
            follows = (*text, _END)[at]
            ended = ended or follows in _MARKS
            verb = last in _TORN["catenative"] and (_doing(follows) or follows == "to")
            if verb or follows == _COMPLETED.get(last):
                going.append(True)
            elif words.count(follows) >= max(1, text.count(follows)) or fillers(
                " ".join(text[at : at + 4])
            ):
                going.append(False)  # fillers are gone
            else:
                going.append(not _opens(follows) or follows in _PRONOUNS)
    if last in _TORN["unfinished"]:
        return not ended
    return bool(going) and all(going)


def _removed(words: tuple[str, ...], at: int, text: tuple[str, ...]) -> bool:
    """Return whether a source has needed words between the line's words at `at` and `at` + 1."""
    first, second = words[at : at + 2]
    before, after = words[at - 1] if at else _END, (*words, _END)[at + 2]
    for i, j in _spans(text, first, second):
        left = (text[i - 1] if i else _END) == before
        right = (*text, _END)[j + 1] == after
        if left and right and _needed(before, first, text[i + 1 : j], second):
            return True
    return False


def _kept(words: tuple[str, ...], at: int, known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether the span that was removed stands elsewhere in the line."""
    first, second = words[at : at + 2]
    gaps = [text[i + 1 : j] for text in known for i, j in _spans(text, first, second)]
    return any(len(gap) > 1 and {*gap} <= {*words} for gap in gaps)


def _spans(text: tuple[str, ...], first: str, second: str) -> Iterator[tuple[int, int]]:
    """Yield the indices of two words in a source with one to `_NEAR` words between them."""
    for i, word in enumerate(text):
        if word == first or (is_past(first) and stem(word) == stem(first)):
            for j in range(i + 2, min(i + 2 + _NEAR, len(text))):
                if text[j] == second:
                    yield i, j


def _needed(before: str, first: str, gap: tuple[str, ...], second: str) -> bool:
    """Return whether the words `gap` cannot be left out between `first` and `second`."""
    if fillers(" ".join(gap)) or second in _MARKS:
        return False
    verb, opens = is_past(gap[0]) or gap[0] in _AUXILIARIES, _opens(second)
    if first == "," and len(gap) == 1:  # "to S3, taking the main database" -> "to S3, the main"
        return _doing(gap[0]) and not opens
    if gap == (",",):  # "hiring, training" -> "Hired training"
        return is_past(first) and _doing(second)
    if first in _MARKS or not _MARKS.isdisjoint(gap):
        return False
    # "which brought signature time down" -> "which signature time down"
    if verb and first in _TORN["subjects"] | {"so", "that"}:
        finite = second.endswith("s") and not is_past(gap[-1])
        return _doing(second) or not (is_past(second) or opens or finite)
    if verb and first in ("and", "or"):  # "invoices and matched to orders" -> "invoices and to"
        return second in _PREPOSITIONS
    # "that was taken up by" -> "that was up by"
    if len(gap) == 1 and verb and first in _AUXILIARIES and second in _PREPOSITIONS:
        return True
    if gap == ("and",):  # "overnight and had power on" -> "overnight had power on"
        if is_past(second):
            return not is_past(first) and not first.endswith("ly")
        plural = first.endswith("s") and not first.endswith("ss")
        return plural and not (opens or second in GLUE)  # "brakes and steering"
    return _needed_noun(before, first, gap, second)


def _needed_noun(before: str, first: str, gap: tuple[str, ...], second: str) -> bool:
    """Return whether `gap` has a noun or preposition that was needed between two words."""
    opens = _opens(second)
    # "lessons which are suited to" -> "lessons suited to"
    reduced = gap[0] in _TORN["relatives"] and (is_past(second) or _doing(second))
    if gap[0] in _PREPOSITIONS | _TORN["relatives"] and not (opens or reduced):
        # "renewals with landlords" -> "renewals landlords"; but "Met with" -> "Met" and "Study of
        # lithium" -> "Study lithium" are fine
        acts = is_past(first) or before == _END or (_doing(first) and gap[0] in ("of", "with"))
        free = acts and (len(gap) == 1 or second in _DETERMINERS)
        if not (free and first not in _TORN["intransitive"]):
            return not (_figure(first) or first in _TORN["unbound"] | _PREPOSITIONS | _JOINTS)
    joined = gap[-1] in _PREPOSITIONS and not (first in GLUE | _PREPOSITIONS or is_past(first))
    if joined and not _doing(first) and not _figure(first):
        # "a user group for the resellers" -> "a user the resellers"
        return second in _DETERMINERS or (gap[-1] == "by" and _doing(second))
    plain = GLUE.isdisjoint(gap) and not any(is_past(word) or _doing(word) for word in gap)
    # "a short call each morning" -> "a short each morning"
    if plain and (opens or second in ("each", "every")) and not _doing(second):
        loose = first in _TORN["adjectives"] or first.endswith(("ous", "ful", "less", "ible"))
        if first in _DETERMINERS or before in ("a", "an") or loose:
            return True
    # "halved the handover between shifts" -> "halved between shifts"
    bare = (
        is_past(first)
        and (first in VERBS - STATIVE or (before == _END and first not in STATIVE))
        and second in _PREPOSITIONS
        and first not in FRAMES.get(second, ())
    )
    return bare and second not in _TORN["particles"] and not _PREPOSITIONS & {*gap[:-1]} - {"of"}


def _drawn(words: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a source has all words of a line, and no more fillers than the line."""
    least = fillers(" ".join(words))
    return any({*words} <= {*text} and fillers(" ".join(text)) <= least for text in known)


def _exchanged(
    words: tuple[str, ...],
    at: int,
    pairs: set[tuple[str, str]],
    known: Sequence[tuple[str, ...]],
) -> bool:
    """Return whether two adjacent words have changed places: "told the applicant every"."""
    first, second = words[at : at + 2]
    free = _JOINTS | _ADVERBS | _MARKS | _TORN["movable"]
    if (second, first) not in pairs or free & {first, second} or "ly" in (first[-2:], second[-2:]):
        return False
    same = any(sorted(words) == sorted(text) for text in known)
    if not same and GLUE & {first, second}:
        return False
    after = (*words, _END)[at + 2]
    return (second, after) not in pairs and (not at or (words[at - 1], first) not in pairs)


def _misformed(words: tuple[str, ...], at: int, known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether the second of two words is a verb form that the first does not allow."""
    first, second = words[at : at + 2]
    if any(second in text for text in known) or not second.isalpha():
        return False
    key = stem(second)
    forms = [word for text in known for word in text if stem(word) == key]
    base = not (is_past(second) or _doing(second) or second.endswith("s"))
    if not any(is_past(word) or _doing(word) for word in forms):
        return first == "to" and bool(forms) and is_past(second) and second in KNOWN_VERBS
    if first in _TORN["governing"]:
        gerund = any(_doing(word) for word in forms)
        return (base and gerund and not _opens((*words, _END)[at + 2])) or (
            is_past(second) and second not in STATIVE
        )
    if first in ("had", "has", "have", "was", "were"):
        return base
    if is_past(first) and at <= 1 and any(map(_doing, forms)):
        follows = (*words, _END)[at + 2]  # "Undertook consolidated tools"
        return is_past(second) and follows not in _MARKS | _JOINTS | _PREPOSITIONS | {_END}
    if first in ("to", "helped", "help", "can", "will", "could", "would", "must"):
        return is_past(second) and second not in STATIVE
    return first in _TORN["subjects"] and _doing(second)


def _misfit(words: tuple[str, ...], at: int, known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether two words at a seam cannot follow each other."""
    first, second, last = (*words[at : at + 2], (*words, _END)[at + 2])
    before = words[at - 1] if at else _END
    # "by proposed to buy"
    if first == "by" and is_past(second):
        return last == "to" or last in _DETERMINERS
    # "all aspects of planning and organized a group" -> "all organized a group"
    if first in ("all", "each", "every") and is_past(second) and last in _DETERMINERS:
        return True
    # "placed English classes them"
    if second in ("them", "him") and last in _MARKS | {_END}:
        acts = is_past(first) or _doing(first) or is_base(first)
        return not (acts or first in GLUE | _PREPOSITIONS | _JOINTS | _ADVERBS or _figure(first))
    # "a required study period, resulting in" -> "a required, in"
    loose = first in _TORN["adjectives"] or is_past(first)
    bare = before in ("a", "an") and loose and (second in _MARKS or second in _PREPOSITIONS)
    if bare:
        follow = {two for text in known for one, two in pairwise((*text, _END)) if one == first}
        return bool(follow) and all(_doing(word) or not _opens(word) for word in follow)
    # "completed audit folders the first report"
    placed = at in (2, 3) and _MARKS.isdisjoint(words[:at])
    if placed and second == "the" and is_past(words[0]) and stem(words[0]) not in _GIVING:
        plural = first.endswith("s") and not first.endswith("ss")
        verb = is_past(first) or is_base(first) or first in GLUE | _PREPOSITIONS | _JOINTS
        clause = any(map(is_past, words[at + 2 : at + 7]))
        ends = any(word.endswith("s") for word in words[at + 3 : at + 5])
        return plural and not (verb or clause or ends or first in _ADVERBS)
    return False


def _doubled(words: tuple[str, ...], old: tuple[str, ...]) -> bool:
    """Return whether a verb stands before a whole sentence: "Raised sales rose from 3 to 5"."""
    if ("i", "and", "i") in zip(words, words[1:], words[2:], strict=False):
        return True
    if not is_past(words[0]) or words[0] in old or stem(words[0]) in _SAYING:
        return False
    rest, was = (
        text[1:] if text and text[0] in _DETERMINERS else text for text in (words[1:], old)
    )
    verb = next((n for n, word in enumerate(was) if word in _TORN["moving"]), 0)
    return verb > 0 and rest[: verb + 1] == was[: verb + 1]


def _crammed(words: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether two -ing forms follow a determiner: "the onboarding referring agencies"."""
    for triple in zip(words, words[1:], words[2:], strict=False):
        crammed = triple[0] in _DETERMINERS and _doing(triple[1]) and _doing(triple[2])
        if crammed and not any(triple in zip(t, t[1:], t[2:], strict=False) for t in known):
            return True
    return False


def _split(words: tuple[str, ...], at: int, known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a small word stands between a verb and its object: "saved and 3 hours"."""
    first, small, last = (*words[at : at + 2], (*words, _END)[at + 2])
    if not (is_past(first) or _doing(first)) or _opens(last) or last in _PRONOUNS:
        return False
    if small in ("and", "or", ","):
        joined = any(
            stem(one) == stem(first) and two == last
            for text in known
            for one, two in pairwise(text)
        )
        return joined and (last in _DETERMINERS or _figure(last))
    follow = {two for text in known for one, two in pairwise(text) if stem(one) == stem(first)}
    return small in _TORN["bound"] | {"on", "concerning"} and last in follow and small not in follow


def _half_done(words: tuple[str, ...], old: tuple[str, ...], pairs: set[tuple[str, str]]) -> bool:
    """Return whether "and" joins an -ing form to a past tense: "Traced a dip and winning back"."""
    first = words[1] if words[0] in ("i", "we") and len(words) > 1 else words[0]
    if "and" not in words:
        return False
    stems = {stem(word) for word in old}
    kept = first == old[0] and is_base(first)  # "Obtain blood samples and labelling them"
    if not (is_past(first) or kept):
        return False
    # "Tracking of claims and checking of policies" -> "Tracked claims and checking of policies"
    named = old[1:2] == ("of",) and words[1:2] != ("of",)
    changed = any(_doing(word) and word not in words and stem(word) == stem(first) for word in old)
    for at, (joint, second) in enumerate(pairwise(words)):
        if joint != "and" or not (_doing(second) or second in NOUNS):
            continue
        follows, earlier = (*words, _END)[at + 2], [*pairwise(words[:at])]
        if named and follows == "of":
            return True
        starts = _PREPOSITIONS | _JOINTS | _MARKS
        listed = any(one in starts and (_doing(two) or two in FIELDS) for one, two in earlier)
        ends = _PREPOSITIONS - _TORN["movable"] | _JOINTS | _MARKS | {_END}
        if listed or follows in ends or not _doing(second):
            continue
        torn_off = (joint, second) not in pairs
        if (changed and not kept) or (torn_off and (not kept or stem(second) in stems)):
            return True
    return False


def _runs_on(body: str, bodies: Sequence[str]) -> bool:
    """Return whether a word within a sentence is capitalized like the first word of a sentence.

    Examples are "Responsible for Logged defects" and "References on Own tools".
    """
    for found in _CAPITAL.finditer(body):
        word = found[0]
        if any(re.search(rf"[a-z,] {word}\b", other) for other in bodies):
            continue
        began = any(re.search(rf"[.:;] {word}\b", other) for other in bodies)
        if began or is_past(word.lower()):
            return True
    return False


def _stranded(words: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a line keeps "and maintain", but not the "to achieve" before it."""
    if not any("to" in text for text in known):
        return False
    for at, (joint, verb) in enumerate(pairwise(words)):
        if joint not in ("and", "or") or not is_base(verb):
            continue
        before = {*words[:at]}
        if not before.isdisjoint(_LEADING) or is_base(words[0]):
            continue
        for text in known:
            places = [n for n, pair in enumerate(pairwise(text)) if pair == (joint, verb)]
            # "Used SQL to remove test and staff accounts" -> "Removed test and staff accounts"
            aims = [
                two
                for n in places
                for one, two in pairwise(text[max(0, n - FEW) : n])
                if one == "to"
            ]
            if any(stem(aim) not in map(stem, words) for aim in aims):
                return True
    return False


def _headless(old: Content, words: tuple[str, ...], was: tuple[str, ...]) -> bool:
    """Return whether a line has lost its opening verb and opens with a phrase instead."""
    if words[0] == was[0] or is_weak(old) or not is_past(was[0]):
        return False
    if words[0] not in _DETERMINERS | _PREPOSITIONS:
        return False
    clause = words[words.index(",") + 1 :] if "," in words and words[0] in _PREPOSITIONS else words
    return not any(is_past(word) or word in _AUXILIARIES or word in ("i", "we") for word in clause)


def _left(old: Content, words: tuple[str, ...]) -> bool:
    """Return whether "and for" refers to an opening that is gone, such as "Responsible for"."""
    opening = old.tokens[: head(old).at]
    return words[0] not in opening and any(
        one == "and" and other in opening and other in _TORN["bound"]
        for one, other in pairwise(words)
    )


def _orphaned(words: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether "with it" has no noun for which "it" could stand."""
    # "tents in winter repaired with it": the source of the other words has no "it"
    if len(words) < 2:
        return False
    hangs = words[-1] in ("it", "them") and words[-2] in _PREPOSITIONS
    if hangs and any({*words[:-2]} <= {*text} and words[-1] not in text for text in known):
        return True
    alone = {"so", "which", "that", "who", ";", ":"}.isdisjoint(words)
    if (
        alone
        and not any(map(is_past, words[1:]))
        and words[-1] in ("it", "them")
        and words[-2] in _PREPOSITIONS
    ):
        return not any(words[-2:] == text[-2:] for text in known)
    for one, other in pairwise(words):
        if one not in _PREPOSITIONS or other not in ("it", "them"):
            continue
        place = words.index(other)
        own = {stem(word) for word in words[:place] if word not in GLUE and not is_past(word)}
        for text in known:
            if (one, other) in pairwise(text):
                nouns = {
                    stem(w) for w in text[: text.index(other)] if w not in GLUE and not is_past(w)
                }
                if nouns and not own & nouns:
                    return True
    return False


def _repeats(words: tuple[str, ...], known: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a line repeats a word or phrase more often than each of its sources."""
    # "Administered medication administration"
    start = [word[:6] for word in words[:4] if len(word) > 6]
    if len(start) > len({*start}) and all(
        len([w for w in text if w[:6] == start[0]]) < 2 for text in known
    ):
        return True
    # "Designed a unit was designed", "and set goal setting"
    if is_past(words[0]) and not {("was", words[0]), ("were", words[0])}.isdisjoint(
        pairwise(words)
    ):
        return True
    for one, two in zip(words, words[2:], strict=False):
        alike = one != two and len(one) > 2 and stem(one) == stem(two)
        if alike and all([*map(stem, text)].count(stem(one)) < SEVERAL for text in known):
            return True
    counts = Counter(
        pair for pair in pairwise(words) if not {*pair} <= GLUE | _MARKS | _PREPOSITIONS
    )
    return any(
        number > 1 and all([*pairwise(text)].count(pair) < number for text in known)
        for pair, number in counts.items()
    )
