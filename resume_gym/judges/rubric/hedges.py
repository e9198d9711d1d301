"""Dropped hedges: "Helped with the audit" becomes "Audited", which claims the whole deed.

What the page says is what happened, so a hedge is true unless another true text says that the
candidate did it: a part of the same line, another line of the resume, or the evidence.
"""

import re
from collections.abc import Iterator, Sequence

from resume_gym.judges.rubric.licences import Claim, cut, stands
from resume_gym.text.lines import LEXICON, Content, any_of
from resume_gym.text.reference import Reference
from resume_gym.text.style import HEDGE, head, is_weak
from resume_gym.text.verbs import PAST_TENSES

_OTHERS = any_of(LEXICON["words"]["helping"])
_INSIDE = re.compile(
    r"\b(?:helped|helping|assisted|assisting|contributed|contributing|participated|participating)"
    r"(?: (?:with|in|to|the|a))* (?P<verb>\w+)"
)


def dropped_hedges(
    old: Content, new: Content, units: Sequence[int], reference: Reference
) -> Iterator[Claim]:
    """Yield a claim if a line drops the hedge of its original without support."""
    if not new.tokens or HEDGE.search(new.body.lower()):
        return
    hedge = HEDGE.search(old.body.lower())
    if not hedge:
        return
    if head(old).kind == "hedge":
        deed, verb = old.keys[head(old).at], new.keys[head(new).at]
        if is_weak(new) and head(new).charge:
            verb = ""
    elif (inside := _INSIDE.search(" ".join(old.tokens))) is not None:
        at = len(old.tokens) - len(" ".join(old.tokens)[inside.start("verb") :].split())
        deed = verb = old.keys[at]
        if verb not in new.keys:  # the hedged part has gone as well
            return
    else:
        return
    if _did(old, verb, deed) or any(
        _did(statement, verb, "")
        for unit in units
        for statement in reference.sources(unit, new)
        if statement not in reference.fixed.get(unit, ())
        and statement not in reference.facts.get(unit, ())
    ):
        return
    reason = f'"{cut(new.body)}" leaves out that the candidate only had a part ("{hedge[0]}").'
    yield Claim("hedge", hedge[0], reason, 0.8)


def _did(statement: Content, verb: str, deed: str) -> bool:
    """Return whether a text says that the candidate did something, in a finite form or "by" -ing.

    Args:
        statement: the line itself, or another true text.
        verb: key of the verb that the new line opens with.
        deed: key of the verb that the line's own hedge governs; empty for other texts.
    """
    if not deed and (
        HEDGE.search(statement.body.lower()) or _OTHERS.search(statement.body.lower())
    ):
        return False
    for at, (token, key) in enumerate(zip(statement.tokens, statement.keys, strict=True)):
        if key == deed or not stands(verb, {key}):
            continue
        before = statement.tokens[max(0, at - 2) : at]
        passive = bool({"was", "were", "been", "being"}.intersection(before)) and bool(deed)
        finite = token.endswith("ed") or token in PAST_TENSES or (not at and not deed)
        if (finite and not passive) or (token.endswith("ing") and "by" in before):
            return True
        if not deed and token.endswith("ing"):
            return True
    return False
