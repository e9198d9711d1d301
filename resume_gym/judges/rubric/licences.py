"""Compare a rewritten line with its original, and find the source that licenses the changes.

A line may take its words from the original and from one further true statement about the same
work: its fix, a fact, a sentence of the evidence, or another line of the resume. Synonyms (the
lexicon's rings) match each other. Sources are not combined: from a union a policy could attach
the verb of one achievement to the object of another. `rewrite` is the main entry point.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from resume_gym.text.lines import GLUE, LEXICON, Content, Number, stem
from resume_gym.text.reference import Reference
from resume_gym.text.style import core, fillers, head, is_filler, is_weak
from resume_gym.text.verbs import NOUNS, PLURAL_NOUNS

_WORDS = LEXICON["words"]
_PROTECTED = LEXICON["protected"]
_FREE = frozenset(stem(word) for word in _WORDS["free"])
_NEGATIONS = frozenset(_PROTECTED["negations"])
_ALL = frozenset(_PROTECTED["all"])
_SOME = frozenset(_PROTECTED["some"])
_SPANS = frozenset(_PROTECTED["spans"])
_RANKS = frozenset(_PROTECTED["ranks"])
_DROPPED = _NEGATIONS | _RANKS | frozenset(_PROTECTED["limits"])
_MORE_THAN = frozenset(_PROTECTED["more_than"])
_LEADING = frozenset(map(stem, _PROTECTED["leading"]))
_PARTIAL = frozenset(map(stem, _PROTECTED["partial"]))
_COMPLETE = frozenset(map(stem, _PROTECTED["complete"]))
_STEWARDS = frozenset(map(stem, LEXICON["verbs"]["stewards"]))
_PREPOSITIONS = frozenset(("from", "to", "by"))
_SUPERLATIVE = re.compile(rf"(?!{'|'.join(_PROTECTED['no_superlatives'])})(?!best\b)[a-z]{{3,}}est")
_IRREGULAR = frozenset(LEXICON["irregular"])
_NOMINAL = re.compile(r"\w+(?:tion|sion|ment|al|ance|ence|sis|ship|ing|ings|up)")
_NONE: frozenset[str] = frozenset()
_NEAR = 9  # greatest distance between a verb and its object, in tokens

MUCH_NEARER = 0.25
"""Value of `Rewrite.nearer` from which words lost or added are accepted."""
_UNIT = re.compile(r"(?<=\d)[a-z%].*")
_FEW = 5  # least number of adjacent word pairs for a meaningful order score
# For a line to gain: most added words (a function word costs 1, any other 2), and least order.
_LOOSE, _MUCH_LOOSE, _ORDERED = 3, 7, 0.5
_STRAY = 0.4  # greatest share of a clause that its source may lack
_FEW_SMALL = 2  # most function words by which lines with exchanged words may differ
_LOCAL = 0.25  # lost share of a line's meaning above which it counts as freely reworded
# Claims not raised for free rewording: "stays open" may become "is not closed".
_TWISTS = ("negation", "quantifier", "rank", "unit", "opposite", "left out", "order")
_RETOLD, _NEWS = 0.75, 3  # to restate evidence: least share of known words, least words added
_HALF = 0.5  # share of a fix that must be made before it counts
_SURPLUS = 2  # net new words from which an addition is a claim
_NEIGHBOURS = 5  # tokens on either side of a figure that form its context


# "analyzed", "analysed"
_SPELT = frozenset(
    verb
    for group in (*LEXICON["rings"]["verbs"], LEXICON["verbs"]["known"], NOUNS.values())
    for verb in group
    if verb.endswith(("ized", "yzed"))
)


def _british(verb: str) -> str:
    return verb.replace("yzed", "ysed").replace("ized", "ised")


def _links(pairs: Iterable[tuple[Iterable[str], Iterable[str]]]) -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    for left, right in pairs:
        others = frozenset(map(stem, right))
        table |= {word: table.get(word, _NONE) | others for word in map(stem, left)}
    return table


_RINGS = _links(
    (
        *((ring, ring) for rings in LEXICON["rings"].values() for ring in rings),
        *(((verb, _british(verb)),) * 2 for verb in _SPELT),
        *(
            ((noun, verb.split()[0], _british(verb)),) * 2
            for noun, verb in {**NOUNS, **PLURAL_NOUNS}.items()
        ),
    )
)
_ANTONYMS = _links(
    pair for one, other in _PROTECTED["antonyms"] for pair in ((one, other), (other, one))
)


class Claim(NamedTuple):
    """An unsupported statement of a line, with a confidence in [0, 1]."""

    kind: str
    quote: str
    reason: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Difference between a line and its original, given the source that explains most of it.

    Attributes:
        source: the statement that licenses the changes; None if the original suffices.
        verb: class of the opening verb: "kept", "licensed", "weak", or "swapped" (unsupported).
        fresh: unsupported words in order, without the opening verb.
        loose: number of function words beyond those of the original or the source.
        lost: share of the original's meaning that is lost, in [0, 1].
        order: share of adjacent word pairs that a statement contains too, in [0, 1].
        retold: whether the line restates a sentence of the evidence.
        nearer: progress from the original towards a fix or the evidence, in [-1, 1].
        told: figures added, minus figures removed.
        corrected: whether figures are replaced by as many figures of the evidence.
        claims: contradictions and clearly new claims.
    """

    source: Content | None
    verb: str
    fresh: tuple[str, ...]
    loose: int
    lost: float
    order: float
    retold: bool
    nearer: float
    told: int
    corrected: bool
    claims: tuple[Claim, ...]

    @property
    def plain(self) -> bool:
        """Whether the source explains the whole line."""
        return self.verb in ("kept", "licensed") and not self.fresh and not self.claims

    @property
    def licensed(self) -> bool:
        """Whether the line may gain: one unsupported word is allowed, two if it says much more."""
        true = self.verb in ("kept", "licensed") and not self.claims
        much = self.told > 0 or self.nearer >= MUCH_NEARER
        few, loose = (2, _MUCH_LOOSE) if much else (1, _LOOSE)
        stray = len(self.fresh) <= few and self.loose + 2 * len(self.fresh) <= loose
        return true and stray and (self.retold or self.order >= _ORDERED)


def rewrite(
    old: Content,
    new: Content,
    sources: Sequence[Content],
    fixed: Sequence[Content],
    reference: Reference,
) -> Rewrite:
    """Compare a line with its original.

    Args:
        old: the original line.
        new: the rewritten line.
        sources: statements that may license a change (`Reference.sources`).
        fixed: those of them that are fixes or facts of the original line.
        reference: the true statements and the job.
    """
    # Each source is tried alone; on a tie the least loss of meaning decides.
    readings = [_read(old, new, source) for source in (None, *sources)]
    best = min(map(_unexplained, readings))
    ties = [reading for reading in readings if _unexplained(reading) == best]
    source, verb, fresh, _ = min(ties, key=lambda reading: lost(reading.source or old, new))
    statements = (old,) if source is None else (old, source)
    # The test of `fixed` comes first, since `reference.evidence` is computed lazily.
    documents = [s for s in sources if s not in fixed and s in reference.evidence]
    retold = [s for s in statements[1:] if s in documents and _retells(old, new, s)]
    # In a line that restates evidence the verb counts as any other word.
    if verb in ("weak", "swapped") and retold:
        opening = head(new)
        at = opening.at if opening.kind == "plain" else 0
        known_verb = any(stands(new.keys[at], frozenset(s.keys)) for s in retold)
        verb, fresh = "licensed", fresh if known_verb else (new.tokens[at], *fresh)
    # A line with a fix or evidence behind it may drop what that source drops.
    gone = lost(source or old if retold or source in fixed else old, new)
    order = _order(statements, new)
    nearer = max((_nearer(old, new, fix) for fix in fixed), default=0.0)
    # Evidence prescribes no wording to come nearer to, so restating it counts as much progress.
    nearer = max(nearer, MUCH_NEARER * bool(retold))
    claims = tuple(_claims(old, new, statements, sources, fresh, verb, reference))
    if retold or lost(old, new) > _LOCAL:
        claims = tuple(claim for claim in claims if claim.kind not in _TWISTS)
    added, more = missing(new, old), len(missing(new, old)) - len(missing(old, new))
    values = {figure.value for figure in added}
    holders = [s for s in documents if values <= s.values]
    # Figures taken from another line of the resume correct nothing.
    others = any(values <= line.content.values for line in reference.lines)
    corrected = bool(holders and values) and not more and not others
    loose = _loose(statements, new)
    return Rewrite(
        source, verb, fresh, loose, gone, order, bool(retold), nearer, more, corrected, claims
    )


def draws(clause: Content, statement: Content, old: Content) -> bool:
    """Return whether a statement supports a clause, with no other word taken from `old`."""
    keys = frozenset(statement.keys)
    other = [key for key in clause.telling if not stands(key, keys)]
    true = all(_backs(statement, number) for number in clause.numbers)
    few = len(other) <= _STRAY * len(clause.telling)
    mixed = any(key in old.keys for key in other)
    return true and few and not mixed and _order((statement,), clause) >= _ORDERED


def missing(content: Content, other: Content) -> list[Number]:
    """Return the figures of a line whose values the other line lacks."""
    return [
        figure
        for figure in content.figures
        if figure.value not in other.values and not any(n.backs(figure) for n in other.numbers)
    ]


class _Reading(NamedTuple):
    """Explanation of a line by one source; `figures` counts the unsupported ones."""

    source: Content | None
    verb: str
    fresh: tuple[str, ...]
    figures: int


def _unexplained(reading: _Reading) -> int:
    # An unsupported verb counts twice, since it says what was done.
    return len(reading.fresh) + reading.figures + 2 * (reading.verb == "swapped")


def _read(old: Content, new: Content, source: Content | None) -> _Reading:
    statements = (old,) if source is None else (old, source)
    known = {key for content in statements for key in content.keys}
    verb = _verb(old, new, statements)
    at = head(new).at if new.tokens else -1
    fresh: list[str] = []
    figures = 0
    counts: Counter[str] = Counter()
    for n, (token, key) in enumerate(zip(new.tokens, new.keys, strict=True)):
        counts[key] += 1
        if token[0] in "#~":
            figures += key not in known
        elif n == at or token in GLUE or key in _FREE or is_filler(token):
            continue
        elif key in known:
            # A word used more often than in any statement is unsupported.
            if counts[key] > max(content.keys.count(key) for content in statements):
                fresh.append(token)
        elif not stands(key, known):
            fresh.append(token)
    return _Reading(source, verb, tuple(fresh), figures)


def stands(key: str, keys: AbstractSet[str]) -> bool:
    """Return whether a set of keys contains a key or one of its synonyms."""
    return key in keys or not _RINGS.get(key, _NONE).isdisjoint(keys)


def _verb(old: Content, new: Content, statements: Sequence[Content]) -> str:
    """Classify the opening verb of a line; see `Rewrite.verb`."""
    if not new.tokens or not old.tokens:
        return "kept"
    opening = head(new)
    verb = new.keys[opening.at]
    if is_weak(new):
        if head(old).kind == opening.kind and (
            old.keys[:1] == new.keys[:1] or opening.kind == "hedge"
        ):
            return "kept"
        return "licensed" if any(c.keys[:2] == new.keys[:2] for c in statements[1:]) else "weak"
    if not is_weak(old) and verb == old.keys[head(old).at] and head(old).kind == opening.kind:
        return "kept"
    if verb in _STEWARDS and head(old).charge:  # "Responsible for" -> "Managed"
        return "licensed"
    # A statement licenses a verb only near one of its objects.
    objects = [k for k in new.keys[opening.at + 1 :] if k in new.telling and k[0] not in "#~"][:3]
    for content in statements:
        for at, (token, key) in enumerate(zip(content.tokens, content.keys, strict=True)):
            if content is old and at < head(old).at:
                continue  # a weak opening licenses nothing
            if stands(verb, {key}) and _acts(content, at, token):
                near = frozenset(content.keys[max(0, at - _NEAR) : at + _NEAR])
                if not objects or any(stands(one, near) for one in objects):
                    return "licensed"
    return "swapped"


def _retells(old: Content, new: Content, source: Content) -> bool:
    """Return whether a line adds words of a statement to its original, and few others."""
    shared = {key for key in new.telling if stands(key, frozenset(source.keys))}
    known = sum(key in shared or key in old.keys for key in new.telling)
    return known >= _RETOLD * len(new.telling) and len(shared - {*old.keys}) >= _NEWS


def _acts(content: Content, at: int, token: str) -> bool:
    """Return whether a word is used as a verb or names an action ("migration of")."""
    if at == head(content).at or token.endswith(("ed", "ing")) or token in _IRREGULAR:
        follows = content.tokens[at + 1] if at + 1 < len(content.tokens) else ""
        nominal = _NOMINAL.fullmatch(token) and not token.endswith("ing")
        plural = token.endswith("s") and not token.endswith("ss")
        return follows == "of" or not (nominal or plural)
    return False


def lost(statement: Content, new: Content) -> float:
    """Return the share of a statement's core words without match or synonym in a line."""
    core_keys, keys = core(statement), frozenset(new.keys)
    return sum(not stands(key, keys) for key in core_keys) / max(1, len(core_keys))


def _order(statements: Sequence[Content], new: Content) -> float:
    """Return the share of adjacent known words that are adjacent in a statement too.

    Moving whole phrases keeps the score high; shuffling words lowers it.
    """
    pairs = list(pairwise(key for key in new.telling if any(key in c.keys for c in statements)))
    near = {pair for content in statements for pair in pairwise(content.telling)}
    return sum(pair in near for pair in pairs) / len(pairs) if len(pairs) >= _FEW else 1.0


def _loose(statements: Sequence[Content], new: Content) -> int:
    """Count the function words that a line has beyond the statement closest to it."""
    small = Counter(token for token in new.tokens if token in GLUE)
    return min((small - Counter(content.tokens)).total() for content in statements)


def _nearer(old: Content, new: Content, fix: Content) -> float:
    """Return the progress towards a fix: the gain in F1, or the share of its changes made."""
    beside = core(old) - core(fix)
    dropped = sum(key not in new.keys for key in beside) / len(beside) if beside else 0.0
    share_made = min(1 - lost(fix, new), dropped) - _HALF
    return max(_closeness(new, fix) - _closeness(old, fix), share_made)


def _closeness(content: Content, statement: Content) -> float:
    """Return the F1 score of two lines' content words, in [0, 1]."""
    keys, others = frozenset(content.telling), frozenset(statement.telling)
    shared = len(keys & others)
    return 2 * shared / max(1, len(keys) + len(others))


# Claims


def _claims(
    old: Content,
    new: Content,
    known: Sequence[Content],
    sources: Sequence[Content],
    fresh: Sequence[str],
    verb: str,
    reference: Reference,
) -> Iterator[Claim]:
    for number in new.numbers:
        yield from _number(number, new, (old, *sources), reference)
    yield from _protected(old, new, known)
    yield from _exchanged(old, new)
    if verb == "swapped":
        yield from _inflation(old, new, known)
    gone = core(old) - set(new.keys)
    opening = head(old)
    quote = " ".join(fresh[:6])
    if verb == "swapped" and opening.kind == "plain" and old.keys[opening.at] in new.keys[1:]:
        gone = frozenset()  # the old verb is kept, so the opening is an addition
        fresh = (new.tokens[head(new).at], *fresh)
    asked = [word for word in fresh if stem(word) in reference.job_weights]
    # A lost word accounts for one new word, an added filler for two.
    surplus = len(fresh) - len(gone) - 2 * max(0, wordier(old, new))
    if len(asked) >= 2 and surplus >= 1:
        yield Claim("stuffed", quote, f'Words of the job without support: "{quote}".', 0.75)
    elif surplus >= _SURPLUS:
        reason = f'Nothing supports "{quote}" in "{cut(new.body)}".'
        yield Claim("addition", quote, reason, 0.6)


def _number(
    number: Number, new: Content, statements: Sequence[Content], reference: Reference
) -> Iterator[Claim]:
    """Claim a figure that no statement has, or that has moved or changed its direction."""
    quote = number.quote
    holders = [c for c in statements if _backs(c, number)]
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
    gone = [figure for figure in statements[0].figures if figure.value not in new.values]
    places += [(_beside(statements[0], figure)[0], "") for figure in gone]  # replaced figures
    theirs = {preposition for _, preposition in places if preposition}
    # With a single word around the figure, a mismatch proves nothing.
    if len(around) > 1 and not any(around & words for words, _ in places):
        reason = f'"{quote}" belongs elsewhere than in "{cut(new.body)}".'
        yield Claim("moved number", quote, reason, 0.8)
    elif before and theirs and before not in theirs:
        reason = f'"{before} {quote}" is "{min(theirs)} {quote}" in what is known.'
        yield Claim("direction", f"{before} {quote}", reason, 0.85)


def _backs(content: Content, number: Number) -> bool:
    """Return whether a statement contains a figure; "from 60 days to 6" contains 6 days."""
    units = {known.unit for known in content.numbers}
    return any(
        known.backs(number)
        or (known.value == number.value and not known.unit and number.unit in units)
        for known in content.numbers
    )


def _beside(content: Content, number: Number) -> tuple[set[str], str]:
    """Return the content words around a figure, and its preposition of direction."""
    equal = [n for n in content.numbers if n.value == number.value or n.backs(number)]
    forms = {f"#{n.value:g}{n.unit}" for n in equal}
    words: set[str] = set()
    before = ""
    for at, token in enumerate(content.tokens):
        if token in forms:
            words.update(content.keys[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1])
            prepositions = [t for t in content.tokens[max(0, at - 2) : at] if t in _PREPOSITIONS]
            before = before or next(reversed(prepositions), "")
    figures = {_UNIT.sub("", key) for key in words - forms if key[0] == "#"}
    return words.intersection(content.telling) - forms | figures, before


def _protected(old: Content, new: Content, known: Sequence[Content]) -> Iterator[Claim]:
    """Claim changed rates, negations, quantifiers and ranks, which alter the meaning."""
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
        # Claimed only before a kept word: "second cheapest" -> "cheapest".
        follows = next((key for word, key in rest if word not in GLUE), "")
        superlative = token in _RANKS and rest and _SUPERLATIVE.fullmatch(rest[0][0])
        limits = token not in _RANKS and (not others or any(token in c.tokens for c in others))
        if follows in new.keys and (superlative or limits):
            yield Claim("left out", token, f'"{cut(new.body)}" leaves out "{token}".', 0.8)


def _changed_words(new: Content, known: Sequence[Content]) -> Iterator[tuple[str, str]]:
    """Yield the protected words that no statement supports, with their kinds."""
    tokens = {token for content in known for token in content.tokens}
    keys = {key for content in known for key in content.keys}
    gone = keys - set(new.keys)
    fewer = Counter(known[0].keys) - Counter(new.keys)
    more = Counter(new.keys) - Counter(known[0].keys) if len(known) == 1 else Counter[str]()
    negations = max(sum(t in _NEGATIONS for t in content.tokens) for content in known)
    for n, (token, key) in enumerate(zip(new.tokens, new.keys, strict=True)):
        if token in _NEGATIONS:
            # A negated figure contradicts nothing: "in 2 days, not 5".
            negations -= not _has_figure(new, n + 1, n + 2)
            kinds = {"negation": negations < 0}
        elif token in tokens or key in keys:
            twisted = key in more and not _ANTONYMS.get(key, _NONE).isdisjoint(fewer)
            kinds = {"opposite": twisted}
        else:
            kinds = {
                "rate": token[0] == "~" and (_has_figure(new, n - 5, n + 3) or _rated(gone)),
                "quantifier": (token in _ALL and tokens.isdisjoint(_ALL))
                or (token in _SOME and not _ALL.isdisjoint(gone)),
                "bound": token in _MORE_THAN and _has_figure(new, n, n + 3),
                "rank": token in _RANKS or _SUPERLATIVE.fullmatch(token) is not None,
                "unit": key in _SPANS and not _SPANS.isdisjoint(gone),
                "opposite": not gone.isdisjoint(_ANTONYMS.get(key, ())),
            }
        yield from ((token, kind) for kind, changed in kinds.items() if changed)


def _rated(keys: Iterable[str]) -> bool:
    return any(key[0] == "~" or key in _SPANS for key in keys)


def _has_figure(content: Content, start: int, stop: int) -> bool:
    return any(token[0] == "#" for token in content.tokens[max(0, start) : stop])


def _exchanged(old: Content, new: Content) -> Iterator[Claim]:
    """Claim two exchanged words, as in "from A to B" and "from B to A"."""
    small = [Counter(token for token in one.tokens if token in GLUE) for one in (old, new)]
    if ((small[0] - small[1]) + (small[1] - small[0])).total() > _FEW_SMALL:
        return
    sides = [_linked(one) for one in (old, new)]
    turned = [word for a, word, b in sides[0] - sides[1] if (b, word, a) in sides[1] - sides[0]]
    once = [key for key in old.telling if old.keys.count(key) == new.keys.count(key) == 1]
    # The middle of an exchange: a word before it now follows, and one after it precedes.
    places = [new.keys.index(key) for key in once]
    for middle, place in enumerate(places):
        before = max(places[:middle], default=-1)
        after = min(places[middle + 1 :], default=len(new.keys))
        if before > place > after:
            turned.append(new.tokens[place])
    if turned:
        reason = f'"{cut(new.body)}" exchanges what stands before and after "{turned[0]}".'
        yield Claim("order", turned[0], reason, 0.8)


def _linked(content: Content) -> set[tuple[str, str, str]]:
    """Return content words joined by a function word, as (excel, to, snowflak)."""
    telling = frozenset(content.telling)
    triples = zip(content.keys, content.tokens[1:], content.keys[2:], strict=False)
    words = GLUE - {"and", "or"}
    return {(a, word, b) for a, word, b in triples if {a, b} <= telling and word in words}


def _inflation(old: Content, new: Content, known: Sequence[Content]) -> Iterator[Claim]:
    """Claim a change from helping to leading, or from a first step to completion."""
    verb = new.keys[head(new).at]
    keys = {key for content in known for key in content.keys}
    was = old.keys[head(old).at]
    leads = verb in _LEADING and not keys & _LEADING and not stands(verb, {was})
    solves = verb in _COMPLETE - keys and was in _PARTIAL
    if (leads and head(old).kind != "weak") or solves:
        reason = f'"{cut(new.body)}" makes more of "{cut(old.body)}" than it says.'
        yield Claim("inflation", new.tokens[head(new).at], reason, 0.75)


@lru_cache(maxsize=8192)
def cut(text: str) -> str:
    """Truncate a line to 80 characters for a quotation."""
    return text if len(text) <= 80 else text[:77].rsplit(" ", 1)[0] + "..."


def wordier(old: Content, new: Content) -> int:
    """Return the number of fillers in a line minus that in its original."""
    return fillers(new.body) - fillers(old.body)
