"""Dropped hedges: "Helped with the audit" becomes "Audited", which claims the whole deed.

What the page says is what happened, so a hedge is true unless another true text says that the
candidate did it: a part of the same line, another line of the resume, or the evidence.
"""

import re
from collections.abc import Iterator, Sequence

from resume_gym.judges.rubric.accusations import Claim, cut
from resume_gym.judges.rubric.progress import stands
from resume_gym.text.lines import LEXICON, Content, any_of, stem
from resume_gym.text.reference import Reference
from resume_gym.text.style import HEDGE, head
from resume_gym.text.verbs import PAST_TENSES

_MODEST = frozenset(LEXICON["claims"]["modest"])
_JOINTLY = frozenset(LEXICON["words"]["jointly"])
_OTHERS = any_of(LEXICON["words"]["helping"])
_INSIDE = re.compile(
    r"\b(?:helped|helping|assisted|assisting|contributed|contributing|participated|participating)"
    r"(?: (?:with|in|to|the|a))* (?P<verb>\w+)"
)


def dropped_hedges(
    old: Content, new: Content, units: Sequence[int], reference: Reference
) -> Iterator[Claim]:
    """Yield a claim if a line drops the hedge of its original without support."""
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
    else:
        inside = _INSIDE.search(" ".join(old.tokens))
        deed = verb = stem(inside["verb"]) if inside else ""
        if verb not in new.keys or HEDGE.search(new.body.lower()):
            return  # the hedged part has gone as well, or the hedge has stayed
    texts = (text for unit in units for text in reference.sources(unit, new))
    fixes = [fix for unit in units for fix in reference.fixed.get(unit, ())]
    if _did(old, verb, deed) or any(_did(text, verb, "") for text in texts if text not in fixes):
        return
    reason = f'"{cut(new.body)}" leaves out that the candidate only had a part ("{hedge[0]}").'
    yield Claim("hedge", hedge[0], reason, 0.8)


def _did(text: Content, verb: str, deed: str) -> bool:
    """Return whether a text says that the candidate did something.

    Args:
        text: the original line, or another true text.
        verb: key of the verb that the new line opens with.
        deed: key of the verb that the original line's hedge governs; empty for other texts.
    """
    lower = text.body.lower()
    if not deed and (HEDGE.search(lower) or _OTHERS.search(lower)):
        return False
    for at, (token, key) in enumerate(zip(text.tokens, text.keys, strict=True)):
        if key != deed and stands(verb, {key}):
            # "by joining every page", "joined every page"; a plain "joining" may be others' work
            doing = token.endswith("ing") and (not deed or "by" in text.tokens[max(0, at - 2) : at])
            if doing or token.endswith("ed") or token in PAST_TENSES or not (at or deed):
                return True
    return False
