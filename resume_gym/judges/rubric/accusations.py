"""Detect contradictions and clearly new claims in a rewritten line."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, permutations, takewhile
from typing import NamedTuple

from resume_gym.judges.rubric.progress import links, wordier
from resume_gym.text.lines import (
    GLUE,
    LEXICON,
    Content,
    Number,
    figure_token,
    is_figure,
    is_rate,
    stem,
)
from resume_gym.text.reference import Reference
from resume_gym.text.style import core, head
from resume_gym.text.thresholds import HALF, SEVERAL, WINDOW

_PROTECTED = LEXICON["protected"]
_NEGATIONS = frozenset(_PROTECTED["negations"])
_ALL = frozenset(_PROTECTED["all"])
_SPANS = frozenset(_PROTECTED["spans"])
_RANKS = frozenset(_PROTECTED["ranks"])
_DROPPED = _NEGATIONS | _RANKS
_MORE_THAN = frozenset(_PROTECTED["more_than"])
_PREPOSITIONS = frozenset(("from", "to", "by"))
_SUPERLATIVE = re.compile(rf"(?!{'|'.join(_PROTECTED['no_superlatives'])})(?!best\b)[a-z]{{3,}}est")
_PLAIN_JOINTS = frozenset(("and", "or", "a", "an", "the", "then", "also"))
_MOTION = frozenset(("came", "went"))
_GIVING = frozenset(map(stem, _PROTECTED["giving"]))
_REJECTING = frozenset(("from", "instead", "rather", "than", "against"))
_UNIT = re.compile(r"(?<=\d)[a-z%].*")
_PASSIVE = ("was", "were")
_NONE: frozenset[str] = frozenset()
_ANTONYMS = links(
    pair for one, other in _PROTECTED["antonyms"] for pair in ((one, other), (other, one))
)


class Claim(NamedTuple):
    """An unsupported claim in a line, with a confidence in [0, 1]."""

    kind: str
    quote: str
    reason: str
    confidence: float


def accuse(
    old: Content,
    new: Content,
    known: Sequence[Content],
    sources: Sequence[Content],
    fresh: Sequence[str],
    verb: str,
    reference: Reference,
) -> Iterator[Claim]:
    """Yield the unsupported claims of a rewritten line.

    Args:
        old: the original line.
        new: the rewritten line.
        known: the original line and the source that supports the rewrite, if any.
        sources: the texts that, in addition to `old`, may support the figures of `new`.
        fresh: the unsupported words of `new`.
        verb: class of the opening verb of `new`; see `licences.Rewrite.verb`.
        reference: the true statements and the job description.
    """
    for number in new.numbers:
        yield from _number(number, new, (old, *sources), reference)
    yield from _protected(old, new, known)
    yield from _exchanged(old, new)
    gone = core(old) - set(new.keys)
    opening = head(old)
    quote = " ".join(fresh[:6])
    if verb == "swapped" and opening.kind == "plain" and old.keys[opening.at] in new.keys[1:]:
        # the line has kept its old verb at another place, so the new verb is an addition
        gone = frozenset()
        fresh = (new.tokens[head(new).at], *fresh)
    fresh = [word for word in fresh if word not in _MOTION]  # "and came within 2%"
    asked = [word for word in fresh if stem(word) in reference.job_weights]
    # Each core word that the line has lost excuses one unsupported word, and each new filler two.
    surplus = len(fresh) - len(gone) - 2 * max(0, wordier(old, new))
    if len(asked) >= 2 and surplus >= 1:
        yield Claim("stuffed", quote, f'Unsupported words of the job description: "{quote}".', 0.75)
    elif surplus >= SEVERAL:
        reason = f'Nothing supports "{quote}" in "{cut(new.body)}".'
        yield Claim("addition", quote, reason, 0.6)


def _number(
    number: Number, new: Content, statements: Sequence[Content], reference: Reference
) -> Iterator[Claim]:
    """Yield a claim unless a statement contains the figure with similar words beside it."""
    quote = number.quote
    holders = [c for c in statements if backs(c, number)]
    if not holders and _derived(number, new, statements[0]):
        return
    wrong = [figure for figure in statements[0].figures if figure.value not in new.values]
    if not holders and any(backs(c, number) for c in corrections(wrong, reference)):
        return
    if not holders:
        owners = (c for c in reference.statements if any(n.backs(number) for n in c.numbers))
        if owner := next(owners, None):
            reason = f'"{quote}" belongs to "{cut(owner.body)}", not to "{cut(new.body)}".'
            yield Claim("moved number", quote, reason, 0.85)
        else:
            reason = f'Nothing supports the figure "{quote}" in "{cut(new.body)}".'
            yield Claim("number", quote, reason, 0.95)
        return
    around, before = _beside(new, number)
    places = [_beside(content, number) for content in holders]
    # the figures that the new ones replace
    places += [(_beside(statements[0], figure)[0], "") for figure in wrong]
    theirs = {preposition for _, preposition in places if preposition}
    # With only one content word beside the figure, the context is too small to show a move.
    if len(around) > 1 and not any(around & words for words, _ in places):
        reason = f'"{quote}" belongs to another statement, not to "{cut(new.body)}".'
        yield Claim("moved number", quote, reason, 0.8)
    elif (
        before
        and before not in theirs
        and (theirs or (before + number.unit == "to%" and not _has_start(new, number)))
    ):
        known = min(theirs, default="")
        reason = f'"{before} {quote}" is "{f"{known} {quote}".strip()}" in its source.'
        yield Claim("direction", f"{before} {quote}", reason, 0.85)
    elif _measures_else(number, new, holders):
        reason = f'"{quote}" measures something else in its source than in "{cut(new.body)}".'
        yield Claim("moved number", quote, reason, 0.8)


def _has_start(content: Content, number: Number) -> bool:
    """Return whether a figure ends a range: "from 2.4% to 1.1%"."""
    starts = [known for known in content.numbers if known.unit == number.unit and known != number]
    return any(_beside(content, known)[1] == "from" for known in starts)


def _derived(number: Number, new: Content, old: Content) -> bool:
    """Return whether a percentage follows from two figures of both lines: 50 to 30 is 40%."""
    kept = [known.value for known in old.figures if known.value in new.values]
    return number.unit == "%" and any(
        first and abs(100 * abs(first - second) / first - number.value) < HALF
        for first, second in permutations(kept, 2)
    )


def _measures_else(number: Number, new: Content, holders: Sequence[Content]) -> bool:
    """Return whether a figure in "from 12" or "by 12%" follows another word than in its source."""
    measured = _measured(new, number)[:1]
    known = [words for holder in holders if (words := _measured(holder, number))]
    return bool(measured and known) and all(
        measured[0] in holder.keys and measured[0] not in words and words[0] not in new.keys
        for holder, words in zip(holders, known, strict=False)
    )


def _measured(content: Content, number: Number) -> list[str]:
    """Return the two content words before "from" or "by" and a figure, the nearest first."""
    forms = {figure_token(known) for known in content.numbers if known.value == number.value}
    for at, token in enumerate(content.tokens):
        if token in forms and at > 1 and content.tokens[at - 1] in ("from", "by"):
            before = zip(content.tokens[at - 2 :: -1], content.keys[at - 2 :: -1], strict=True)
            return [key for token, key in before if token not in GLUE and token[0] not in "#~"][:2]
    return []


def corrections(wrong: Iterable[Number], reference: Reference) -> Iterator[Content]:
    """Yield statements of the evidence that mention a wrong figure, as in "9 instead of 11"."""
    for statement in reference.evidence:
        if any(backs(statement, figure) for figure in wrong):
            yield statement


def backs(content: Content, number: Number) -> bool:
    """Return whether a statement contains a figure; "from 60 days to 6" contains 6 days."""
    units = {known.unit for known in content.numbers}
    return any(
        known.backs(number)
        or (known.value == number.value and not known.unit and number.unit in units)
        for known in content.numbers
    )


def _beside(content: Content, number: Number) -> tuple[set[str], str]:
    """Return the content words around a figure, and any "from", "to" or "by" in front of it."""
    equal = [n for n in content.numbers if n.value == number.value or n.backs(number)]
    forms = {figure_token(n) for n in equal}
    words: set[str] = set()
    before = ""
    for at, token in enumerate(content.tokens):
        if token in forms:
            words.update(content.keys[max(0, at - WINDOW) : at + WINDOW + 1])
            # "by 40% (50 to 30)" does not say "by 50"
            ahead = takewhile(lambda t: not is_figure(t), content.tokens[max(0, at - 2) : at][::-1])
            near = next((t for t in ahead if t in _PREPOSITIONS), "")
            before = before or near * (content.tokens[max(0, at - 2) : at] != ("up", "to"))
    figures = {_UNIT.sub("", key) for key in words - forms if is_figure(key)}
    return words.intersection(content.telling) - forms | figures, before


def _protected(old: Content, new: Content, known: Sequence[Content]) -> Iterator[Claim]:
    """Yield claims for words such as negations and ranks that were added, changed or left out."""
    for word, kind in _changed_words(new, known):
        shown = word.replace("~", "a ")
        reason = f'The {kind} "{shown}" in "{cut(new.body)}" has no support.'
        yield Claim(kind, shown, reason, 0.8)
    others = known[1:]
    for n, token in enumerate(old.tokens):
        if token not in _DROPPED or token in new.tokens:
            continue
        if token in _NEGATIONS and not _NEGATIONS.isdisjoint(new.tokens):
            continue
        rest = list(zip(old.tokens, old.keys, strict=True))[n + 1 :]
        # Leaving out a word overstates only if the next word stays: "second cheapest" ->
        # "cheapest".
        follows = next((key for word, key in rest if word not in GLUE), "")
        superlative = token in _RANKS and rest and _SUPERLATIVE.fullmatch(rest[0][0])
        if follows and is_figure(follows) and not _REJECTING.isdisjoint(new.tokens):
            continue  # "one round and not three" -> "from three rounds to one"
        negates = token not in _RANKS and (not others or any(token in c.tokens for c in others))
        if follows in new.keys and (superlative or negates):
            yield Claim("left out", token, f'"{cut(new.body)}" leaves out "{token}".', 0.8)


def _changed_words(new: Content, known: Sequence[Content]) -> Iterator[tuple[str, str]]:
    """Yield each unsupported word of a protected kind (negation, rank, rate, ...) and its kind."""
    tokens = {token for content in known for token in content.tokens}
    keys = {key for content in known for key in content.keys}
    gone = keys - set(new.keys)
    fewer = Counter(known[0].keys) - Counter(new.keys)
    more = Counter(new.keys) - Counter(known[0].keys) if len(known) == 1 else Counter[str]()
    negations = max(sum(t in _NEGATIONS for t in content.tokens) for content in known)
    for n, (token, key) in enumerate(zip(new.tokens, new.keys, strict=True)):
        if token in _NEGATIONS:
            # "not 5" in "in 2 days, not 5" rejects a figure and does not count as a negation.
            negations -= not _has_figure(new, n + 1, n + 2)
            kinds = {"negation": negations < 0}
        elif token in tokens or key in keys:
            twisted = key in more and not _ANTONYMS.get(key, _NONE).isdisjoint(fewer)
            kinds = {"opposite": twisted}
        else:
            kinds = {
                "rate": is_rate(token) and _has_figure(new, n - 5, n + 3),
                # "20% of all accounts" claims nothing about all accounts
                "quantifier": token in _ALL
                and tokens.isdisjoint(_ALL)
                and not (new.tokens[n - 1] == "of" and _has_figure(new, n - 2, n)),
                "bound": token in _MORE_THAN and _has_figure(new, n, n + 3),
                "rank": token in _RANKS or _SUPERLATIVE.fullmatch(token) is not None,
                "unit": key in _SPANS and not _SPANS.isdisjoint(gone),
                "opposite": not gone.isdisjoint(_ANTONYMS.get(key, ())),
            }
        yield from ((token, kind) for kind, changed in kinds.items() if changed)


def _has_figure(content: Content, start: int, stop: int) -> bool:
    return any(is_figure(token) for token in content.tokens[max(0, start) : stop])


def _exchanged(old: Content, new: Content) -> Iterator[Claim]:
    """Yield a claim if two words have exchanged places, as in "from A to B" -> "from B to A"."""
    small = [Counter(token for token in one.tokens if token in GLUE) for one in (old, new)]
    if ((small[0] - small[1]) + (small[1] - small[0])).total() > SEVERAL:
        return
    if _given(old, new):
        return
    # the opening verb may change its place: "the weekly stock count" -> "Counted stock weekly"; so
    # may a verb in the passive voice: "patients were seen" -> "Saw patients"
    verbs = {new.keys[head(new).at]}
    verbs |= {key for was, key in zip(old.tokens, old.keys[1:], strict=False) if was in _PASSIVE}
    once = [
        k for k in old.telling if old.keys.count(k) == new.keys.count(k) == 1 and k not in verbs
    ]
    sides = [_linked(one) for one in (old, new)]
    turned = [word for a, word, b in sides[0] - sides[1] if (b, word, a) in sides[1] - sides[0]]
    # Find a word that now stands before an earlier word and after a later word of the original.
    places = [new.keys.index(key) for key in once]
    for middle, place in enumerate(places):
        before = max(places[:middle], default=-1)
        after = min(places[middle + 1 :], default=len(new.keys))
        if before > place > after:
            turned.append(new.tokens[place])
    if turned:
        reason = f'"{cut(new.body)}" exchanges what stands before and after "{turned[0]}".'
        yield Claim("order", turned[0], reason, 0.8)


def _given(old: Content, new: Content) -> bool:
    """Return whether the receiver moved forward: "Taught cuts to cooks" -> "Taught cooks cuts"."""
    verb = old.keys[head(old).at]
    if verb not in _GIVING or verb != new.keys[head(new).at] or "to" not in old.tokens:
        return False
    first, after = (
        next((key for key in keys if key in telling and not is_figure(key)), "")
        for keys, telling in (
            (new.keys[head(new).at + 1 :], new.telling),
            (old.keys[old.tokens.index("to") + 1 :], old.telling),
        )
    )
    thing = old.keys[head(old).at + 1 :][:1]
    return first == after and not {("to", key) for key in thing} & {*pairwise(new.keys)}


def _linked(content: Content) -> set[tuple[str, str, str]]:
    """Return pairs of adjacent content words with the word between: ("excel", "to", "access")."""
    telling, links, last, joint = frozenset(content.telling), set(), "", ""
    for token, key in zip(content.tokens, content.keys, strict=True):
        if key not in telling:
            joint = token if token not in _PLAIN_JOINTS else joint
            continue
        if last and joint:
            links.add((last, joint, key))
        last, joint = _UNIT.sub("", key) if is_figure(key) else key, ""
    return links


@lru_cache(maxsize=8192)
def cut(text: str) -> str:
    """Truncate a line to 80 characters for a quotation."""
    return text if len(text) <= 80 else text[:77].rsplit(" ", 1)[0] + "..."
