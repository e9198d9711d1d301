"""Compare a rewritten line with its original, and find the source that supports the changes.

A word of a rewritten line is supported if the original line or one source contains the word or a
synonym (`rings` in `lexicon.toml`). A source is a true statement about the same work: a fix, a
fact, a sentence of the evidence, or another line of the resume. Two sources are never combined,
since a policy could then attach the verb of one achievement to the object of another. The entry
point is `rewrite`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from resume_gym.judges.rubric.accusations import Claim, accuse, corrections
from resume_gym.judges.rubric.phrasing import turned
from resume_gym.judges.rubric.progress import lost, missing, order_kept, progress, stands
from resume_gym.judges.rubric.strength import overstated
from resume_gym.text.lines import GLUE, LEXICON, Content, stem
from resume_gym.text.reference import Reference
from resume_gym.text.spelling import forms
from resume_gym.text.style import core, fillers, gerund, head, is_weak, light
from resume_gym.text.thresholds import FEW, HALF, QUARTER, SEVERAL, WINDOW

_FREE = frozenset(stem(word) for word in LEXICON["words"]["free"])
STEWARDS = frozenset(map(stem, LEXICON["verbs"]["stewards"]))
"""Stems of verbs that may replace "Responsible for" and the like."""

_IRREGULAR = frozenset(LEXICON["irregular"])
_NOMINAL = re.compile(r"\w+(?:tion|sion|ment|al|ance|ence|sis|ship|ing|ings|up)")
# Kinds of claims that are not raised against a freely reworded line: "is not closed" may replace
# "stays open", for example.
_TWISTS = ("negation", "quantifier", "rank", "unit", "opposite", "left out", "order")


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Comparison of a rewritten line with its original and with the best supporting source.

    Attributes:
        source: the statement that supports most of the changes; None if no statement supports more
            than the original line does.
        verb: class of the opening verb: "kept" (as in the original), "licensed" (new and
            supported), "swapped" (new and unsupported) or "weak" (a weak opening that the original
            lacks).
        fresh: the unsupported words, in order. They do not include the opening verb, unless
            `retold` is true.
        lost: share, in [0, 1], of the core words (`style.core`) of a statement that the line lacks.
            This statement is the source if the source is a fix or restated evidence, and otherwise
            the original line.
        order: share, in [0, 1], of the pairs of adjacent content words that the original line or
            the source contains, too; see `order_kept`.
        retold: whether the line restates a sentence of the evidence.
        nearer: progress of the line from the original towards a fix or the evidence, in [-1, 1];
            see `progress`.
        told: number of added figures minus number of removed figures.
        corrected: whether figures of the original are replaced by equally many figures from the
            evidence.
        claims: the contradictions and clearly new claims in the line.
    """

    source: Content | None
    verb: str
    fresh: tuple[str, ...]
    lost: float
    order: float
    retold: bool
    nearer: float
    told: int
    corrected: bool
    claims: tuple[Claim, ...]

    @property
    def plain(self) -> bool:
        """Whether original and source support every word, and `claims` is empty."""
        return self.verb in ("kept", "licensed") and not self.fresh and not self.claims

    @property
    def licensed(self) -> bool:
        """Whether the line is supported well enough to count as better.

        One unsupported word is tolerated, or two if the line adds figures or makes much progress.
        """
        true = self.verb in ("kept", "licensed") and not self.claims
        much = self.told > 0 or self.nearer >= QUARTER
        stray = len(self.fresh) < (FEW if much else SEVERAL)
        return true and stray and (self.retold or self.order >= HALF)


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
        sources: statements that may support a change (`Reference.sources`).
        fixed: the original line after each of its fixes; empty if no fix changes the line.
        reference: the true statements and the job description.
    """
    # Try each source alone. Of the sources that leave the fewest words unsupported, take the one of
    # which `new` keeps the largest share of words.
    readings = [_read(old, new, source) for source in (None, *sources)]
    best = min(map(_unexplained, readings))
    ties = [reading for reading in readings if _unexplained(reading) == best]
    source, verb, fresh, _ = min(ties, key=lambda reading: lost(reading.source or old, new))
    statements = (old,) if source is None else (old, source)
    # `fixed` is tested first, so that `reference.evidence` is parsed only if needed.
    documents = [s for s in sources if s not in fixed and s in reference.evidence]
    retold = [s for s in statements[1:] if s in documents and _retells(old, new, s)]
    # In a line that restates evidence, an unsupported opening verb counts like any unsupported
    # word.
    if verb in ("weak", "swapped") and retold:
        opening = head(new)
        at = opening.at if opening.kind == "plain" else 0
        known_verb = any(stands(new.keys[at], frozenset(s.keys)) for s in retold)
        verb, fresh = "licensed", fresh if known_verb else (new.tokens[at], *fresh)
    # `gone` is the share of the core words of a statement that the line lacks; see `Rewrite.lost`.
    gone = lost(source or old if retold or source in fixed else old, new)
    order = order_kept(statements, new)
    nearer = max((progress(old, new, fix) for fix in fixed), default=0.0)
    # `progress` measures only towards fixes; a line that restates evidence counts as `QUARTER`.
    nearer = max(nearer, QUARTER * bool(retold))
    claims = tuple(accuse(old, new, statements, sources, fresh, verb, reference))
    if retold or (lost(old, new) > QUARTER and len(core(old) - {*new.keys}) >= FEW):
        claims = tuple(claim for claim in claims if claim.kind not in _TWISTS)
    claims = (*claims, *overstated(old, new, statements, verb))
    added, gone_figures = missing(new, old), missing(old, new)
    more = len(added) - len(gone_figures)
    values = {figure.value for figure in added}
    # If one line of the original has all added figures, they are copies and not corrections.
    others = any(values <= line.content.values for line in reference.lines)
    texts = (*documents, *corrections(gone_figures, reference)) if values and not more else ()
    corrected = any(values <= text.values for text in texts) and not others
    return Rewrite(source, verb, fresh, gone, order, bool(retold), nearer, more, corrected, claims)


class _Reading(NamedTuple):
    """Result of comparing a line with its original and one source (None for the original alone).

    `fresh` has the unsupported words; `figures` is the number of unsupported figures and rates.
    """

    source: Content | None
    verb: str
    fresh: tuple[str, ...]
    figures: int


def _unexplained(reading: _Reading) -> int:
    # An unsupported opening verb counts double, since it states what the candidate did.
    return len(reading.fresh) + reading.figures + 2 * (reading.verb == "swapped")


def _read(old: Content, new: Content, source: Content | None) -> _Reading:
    statements = (old,) if source is None else (old, source)
    known = {key for content in statements for key in content.keys}
    verb = _verb(old, new, statements)
    at = head(new).at if new.tokens else -1
    start = 0 if verb == "licensed" and is_weak(new) else at  # "Looked after"
    fresh: list[str] = []
    other = forms(new, old)
    figures = 0
    counts: Counter[str] = Counter()
    for n, (token, key) in enumerate(zip(new.tokens, new.keys, strict=True)):
        counts[key] += 1
        if token[0] in "#~":
            figures += key not in known
        elif n in (at, start) or token in GLUE or key in _FREE or token in other or fillers(token):
            continue
        elif key in known:
            # A repetition is unsupported if the line has the word more often than each statement.
            if counts[key] > max(content.keys.count(key) for content in statements):
                fresh.append(token)
        elif not stands(key, known):
            fresh.append(token)
    return _Reading(source, verb, tuple(fresh), figures)


def _verb(old: Content, new: Content, statements: Sequence[Content]) -> str:
    """Classify the opening verb of a line; see `Rewrite.verb`."""
    if not new.tokens or not old.tokens:
        return "kept"
    opening = head(new)
    verb = new.keys[opening.at]
    charge = head(old).charge
    if charge and not STEWARDS.isdisjoint((verb, new.keys[0])):
        return "licensed"  # "Responsible for" -> "Managed", "Handled", "Looked after"
    if is_weak(new):
        if head(old).kind == opening.kind and (
            old.keys[:1] == new.keys[:1] or opening.kind == "hedge"
        ):
            return "kept"
        return "licensed" if any(c.keys[:2] == new.keys[:2] for c in statements[1:]) else "weak"
    if gerund(old) and verb == old.keys[0]:
        return "kept"  # "Negotiating renewals" -> "Negotiated renewals"
    same = not is_weak(old) and verb == old.keys[head(old).at] and head(old).kind == opening.kind
    if same or new.tokens[opening.at] in forms(new, old):
        return "kept"
    doing = {k for t, k in zip(old.tokens, old.keys, strict=True) if t.endswith("ing")}
    if verb in doing.intersection(old.keys[: head(old).at]):
        return "licensed"  # "Responsible for doing checks" -> "Do checks"
    deed, said = old.tokens[head(old).at], new.tokens[opening.at]
    alike = len(deed) > WINDOW and deed[:WINDOW] == said[:WINDOW]  # "Butchery of" -> "Butchered"
    # "Performed evaluations of" -> "Evaluated"; "Responsible for the weekly count" -> "Counted"
    nouns = old.keys[head(old).at : head(old).at + WINDOW] if charge or light(old) else ()
    named = any(stands(verb, {key}) for key in nouns)
    if alike or named or turned(old, verb) or _backed(old, new, statements):
        return "licensed"
    return "swapped"


def _backed(old: Content, new: Content, statements: Sequence[Content]) -> bool:
    """Return whether a statement says that the candidate did what the verb of `new` says."""
    opening = head(new)
    verb = new.keys[opening.at]
    # A statement supports the new verb only if it also has, near the verb, one of the first words
    # that follow the verb in `new`.
    objects = [k for k in new.keys[opening.at + 1 :] if k in new.telling and k[0] != "~"][:3]
    for content in statements:
        for at, (token, key) in enumerate(zip(content.tokens, content.keys, strict=True)):
            if content is old and at < head(old).at:
                continue  # the words of a weak opening do not support a new verb
            infinitive = at > 0 and content.tokens[at - 1] == "to"
            if stands(verb, {key}) and (infinitive or _acts(content, at, token)):
                near = frozenset(content.keys[max(0, at - WINDOW) : at + WINDOW])
                if not objects or any(stands(one, near) for one in objects):
                    return True
    return False


def _retells(old: Content, new: Content, source: Content) -> bool:
    """Return whether a line adds words of `source` to its original, and few words of its own."""
    shared = {key for key in new.telling if stands(key, frozenset(source.keys))}
    known = sum(key in shared or key in old.keys for key in new.telling)
    return known >= (1 - QUARTER) * len(new.telling) and len(shared - {*old.keys}) >= FEW


def _acts(content: Content, at: int, token: str) -> bool:
    """Return whether a word is used as a verb or names an action ("migration of")."""
    if at == head(content).at or token.endswith(("ed", "ing")) or token in _IRREGULAR:
        follows = content.tokens[at + 1] if at + 1 < len(content.tokens) else ""
        nominal = _NOMINAL.fullmatch(token) and not token.endswith("ing")
        plural = token.endswith("s") and not token.endswith("ss")
        return follows == "of" or not (nominal or plural)
    return False
