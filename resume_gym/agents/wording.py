"""Rewrites of a bullet that keep its facts: a direct verb, the main point first, and no fillers.

All rules use only the form of the line and a few word lists. Hedges such as "Helped with" are kept,
since they say that somebody else led the work, and only the candidate knows whether that is true.
"""

import re
from collections.abc import Callable

from resume_gym.text.lines import GLUE, ways
from resume_gym.text.verbs import ERRANDS, FIELDS, NOUNS, PAST_TENSES, PLURAL_NOUNS, past_tense

# Openings

_DUTY = re.compile(
    r"(?:I |Was |I was |Were )?(?:then |also |mainly |primarily |partly |solely )?"
    r"(?:[Rr]esponsible for|[Tt]asked with|[Cc]harged with|[Ee]ntrusted with|[Ii]n charge of"
    r"|(?:[Hh]ad|[Hh]eld|[Cc]arried|[Tt]ook on|[Uu]ndertook|[Aa]ssumed)"
    r" (?:(?:the|full|sole|overall|main) ){0,2}(?:task|job|duty|role|responsibility)"
    r"(?: of| for|:)|[Tt]ook care of)(?: both)? "
    r"|(?:My |Daily |Main |Key |Core |Other |Job |The )?"
    r"(?:(?:daily|main|key|core|other|job) ){0,2}"
    r"(?:[Dd]uties|[Tt]asks|[Rr]esponsibilit(?:y|ies)|[Ww]ork|[Jj]ob|[Dd]uty|[Tt]ask|[Rr]ole)"
    r"(?: included| include| consisted of| involved| was| were|:) "
)
_GERUND = re.compile(
    # no article may precede the -ing form: in "the routing service", "routing" is an adjective
    r"(?:[a-z]+ly )?(?P<verb>[a-z]+ing)(?: and (?P<second>[a-z]+ing))?(?: of\b)?"
)
_NOUN = rf"[a-z]+ing|{ways(NOUNS)}"
_ACTION = re.compile(
    rf"(?:the |a |an )?(?P<verb>{_NOUN})(?: and (?P<second>{_NOUN}))? (?:of|(?<=support )for)\b"
)
_LIGHT = re.compile(
    r"(?:Made|Did|Performed|Conducted|Carried out|Gave|Undertook) "
    r"(?:(?:a|an|the|some|various|several|regular) )*"
    rf"(?P<verb>{ways({**NOUNS, **PLURAL_NOUNS})}) (?:of|to)\b"
)
_VARIOUS = re.compile(
    r"(?:Various|Several|Some|Miscellaneous) (?P<what>[a-z]+[a-rt-xz]) "
    rf"(?P<verb>{ways(PLURAL_NOUNS)})\b(?! of\b)"
)
_BUSY = re.compile(
    r"(?:Was|Were|Had|Took|Did|Worked|Handled|Covered|Carried out|Saw to|Attended to|Dealt with)\b"
    r"(?: [a-z]+){0,5}? (?:work|activities|things|matters|aspects|details|tasks|efforts|steps"
    r"|duties|topics|questions)(?: [a-z]+){0,2}?"
    r" (?:around|like|such as|in the area of|in the field of|connected with|relating to|of|in) "
    r"(?P<verb>[a-z]+ing)(?: of\b)?"
)
# Matches a second -ing form, as in "..., training the new ones and reviewing code": rewriting only
# the first one would be wrong. ", cutting calls" does not match, since it states a result, nor does
# "training and serving", which is one phrase.
_SECOND = re.compile(
    r"(?:\band|,) [a-z]{3,}ing (?:and|the|a|an|them|it|its|our|their|new|all)\b"
    r"|(?<!ing) and [a-z]{3,}ing [a-z]"
)


def weak_head(text: str) -> tuple[str, str]:
    """Return the weak opening of a bullet and its replacement; both are empty if there is none.

    Examples of weak openings are duties ("Responsible for sorting"), nouns of action ("Design of")
    and light verbs ("Made changes to").

    >>> weak_head("I was tasked with sorting it"), weak_head("Design of pump housings for ships")
    (('I was tasked with sorting', 'I sorted'), ('Design of', 'Designed'))
    """
    duty = _DUTY.match(text)
    start = duty.end() if duty else 0
    rest = text[start : start + 1].lower() + text[start + 1 :]
    # Keep an opening before a colon, which is a label: "Conversion of the landing pages: up 2 %".
    labelled = not duty and ":" in text
    found = (not labelled and _ACTION.match(rest)) or (_GERUND.match(rest) if duty else None)
    if found and found["verb"] not in FIELDS:
        if found["verb"] not in NOUNS and _SECOND.search(rest, found.end()):
            return "", ""
        verbs = [_past(verb) for verb in (found["verb"], found["second"]) if verb]
    elif found := _LIGHT.match(text):
        verbs = [{**NOUNS, **PLURAL_NOUNS}[found["verb"]]]
    elif found := _VARIOUS.match(text):
        return found[0], f"{PLURAL_NOUNS[found['verb']].capitalize()} {found['what']}s"
    elif found := _BUSY.match(text):
        if found["verb"] in FIELDS or _SECOND.search(text, found.end()):
            return "", ""
        verbs = [past_tense(found["verb"])]
    else:
        return "", ""
    told = " and ".join(verbs)
    new = f"I {told}" if text.startswith("I ") else told.capitalize()
    stop = start + found.end()
    return (text[:stop], new) if text[stop:].strip() else ("", "")


def _past(word: str) -> str:
    return NOUNS.get(word) or past_tense(word)


# Fillers

FILLERS = tuple(
    re.split(
        r",\s+",
        """various, basically, generally speaking, broadly speaking, kind of, sort of,
        of sorts, of various kinds, of various sorts, of various types, of several kinds,
        of several sorts, of several types, of different kinds, of different sorts,
        of different types, of various descriptions, of different descriptions, of all kinds,
        in the process, by various means,
        of all sorts, of every kind, of one kind or another,
        of one sort or another, in various ways, in several ways, in different ways,
        in one way or another, in one form or another, in some form or other, in some way or other,
        in the course of things, in that context, in this context, in this connection,
        in the broadest sense, in a manner of speaking, among other things, along the way,
        and so on, and so forth, and the like, and similar, and such, and more, or the like,
        or some such, or similar, so to speak, as it were, on an ongoing basis,
        on a day-to-day basis""",
    )
)
"""Phrases that add no information. Phrases that limit a claim ("to some extent") are not listed."""

_PHRASE = ways(FILLERS)
# "and similar skills" is not a filler, nor is "various" in "at various levels"
_GOES_ON = (
    r"(?:(?<!similar )(?<!such )(?<!more )[a-z$\d]|(?:in|to|for|with|on|by|from|of|at|until|before"
    r"|after|so|without|under|per|and|every|each)\b)"
)
FILLER = re.compile(
    rf"(?<=[a-z0-9%])(?P<comma>,)? (?:{_PHRASE})(?(comma)(?:,(?= )|$)|(?= {_GOES_ON}|[,;]|$))",
    re.MULTILINE,
)
"""Pattern of a filler after another word, with its leading space and its commas."""

_CLOSER = r"(?:and (?:so on|so forth|the like|similar|such|more)|or (?:the like|some such|similar))"
# "lists, brochures and so on": without the filler, the list needs another "and"
_LIST = re.compile(
    r"(?P<first>\b[\w'-]+), (?P<last>(?!\w+ing\b)(?P<word>[\w'-]+)(?: [\w'-]+){0,2}?)"
    rf",? {_CLOSER}(?= {_GOES_ON}|[,;]|$)"
)


_NO_ITEM = GLUE - {"a", "an", "the", "its", "their", "our"}
_NO_ITEM |= {"whereby", "these", "this", "being", "such", "among", "like"}


def without_fillers(text: str) -> str:
    """Return a bullet without its fillers.

    >>> without_fillers("Kept lists, notes and so on in various ways up to date")
    'Kept lists and notes up to date'
    """
    bare = _LIST.sub(
        lambda hit: hit[0] if hit["word"] in _NO_ITEM else f"{hit['first']} and {hit['last']}",
        text,
    )

    def drop(found: re.Match[str]) -> str:
        before = bare[: found.start()].rsplit(" ", 1)[-1]
        after = bare[found.end() :].lstrip(" ,")
        bound = found[0].endswith(("various", "kind of", "sort of")) or after[:1] in ("", ",", ";")
        # "and so on" must stay if there is no other "and" in the list: "a page, a query and so on"
        last_item = bare[: found.start()].rpartition(", ")
        listed = re.match(_CLOSER, found[0].lstrip(" ,")) and last_item[1]
        open_list = listed and not re.match(r"\w+ing\b|.* and ", last_item[2])
        return found[0] if (before in GLUE and bound) or open_list else ""

    return FILLER.sub(drop, bare)


# Buried points

_VERB = rf"[a-z]{{2,}}ed|{ways(PAST_TENSES)}"
_BE = r"was|were|had been|has been|have been|came to be|had to be"
_SOON = r"then|also|now|soon|finally|duly|promptly|eventually|next|afterward|meanwhile"
# "..., where the catalog was rebuilt in two weeks": a subordinate clause in the passive voice
_PASSIVE = re.compile(
    r"(?:, |\b)(?:(?:in|at|on|during|over|for|after|through|with|by|from|into|onto) (?:which|whom)"
    r"|where|whereby|so that|so|since|because|until|once|when|while|whereupon)"
    r"(?: purpose| time| occasion| point)? (?P<what>(?:(?!was|were|had|been|got)[\w'$-]+,? ){1,9}?)"
    rf"(?:{_BE})(?: (?:{_SOON}))? (?P<verb>{_VERB})\b(?P<rest>.*)"
)
# "Listed maps, which were then sorted by date": "which" can refer only to the object
_WHO = re.compile(
    r"^[A-Z]\w+ (?P<what>(?:(?!for|to|in|on|at|of|with|from|by|up|about|and|into)[\w'-]+ ){1,4}?)"
    rf"(?<! )?, ?(?:which|who|these) (?:{_BE})(?: (?:{_SOON}))? (?P<verb>{_VERB})\b(?P<rest>.*)"
)
# "..., and then redesigned the index": a second main clause
_ACTIVE = re.compile(
    rf"(?:,? and|,? but|;|,)(?:,[^,]{{3,60}},| (?:{_SOON}|(?<=and )so|thereby|along the way"
    r"|on the way|(?:in|while) doing (?:so|it|this|that)|in passing|in the process|in the end|there"
    r"|after(?:wards| that)|on the side|while there|that (?:day|week|month)|at the same time"
    r"|on (?:that|this) occasion|with (?:it|them|that)),?)"
    rf" (?P<verb>{_VERB})\b (?P<rest>.*)"
)
# "Printed the plan and redesigned the index": the first clause is no achievement
_ERRAND = re.compile(
    rf"^(?:{ways(ERRANDS)})\b[^;:\d]{{3,90}}?(?:,? and|,? then|,)"
    rf"(?:,[^,\d]{{3,40}},| (?:{_SOON}|thereby|with (?:it|these|that)|in doing so|while at it,?"
    rf"|each (?:week|month|day|quarter|morning|time)))? (?P<verb>{_VERB})\b (?P<rest>.*)"
)
# "..., for example by rewriting the parser": an -ing form that names means or an example
_MEANS = re.compile(
    r",?(?: (?:which (?:comprised|included|involved|meant)|for example|for instance"
    r"|among other things|such as|mostly|notably|in particular|particularly|especially"
    r"|specifically|namely|in so doing|to that end))"
    r"(?: by| in)?,? (?P<verb>[a-z-]{2,}ing)\b (?P<rest>.*)"
)
# "Took on tasks of various kinds, rewriting the parser": the words before "rewriting" say nothing
_FRAMED = re.compile(
    rf"^[A-Z][^,\d]*? (?:{_PHRASE}|in general|activities|matters|topics|things|aspects|affairs"
    r"|efforts|questions|procedures|in (?:several|many|various|multiple|diverse|different) \w+"
    r"|of (?:a general|an informal|many) \w+|in (?:all|many of) its (?:many )?forms"
    r"|in one (?:respect|regard) or another|on a regular basis)\b[^,\d]*,"
    r" (?P<verb>(?!(?:including|regarding|concerning|following)\b)[a-z-]{2,}ing)\b (?P<rest>.*)"
)
_LEAST = 0.25  # minimum share of a bullet's text that must follow the verb of its main point
# A rewrite with one of these words is rejected: it is in the passive voice, or refers to text that
# was cut off.
_LEFT_OVER = re.compile(
    r"\b(?:these|those|there|then|they|was|were|had|got|which is|and which|so"
    r"|(?:in|to|from|on|with|into|for|at) (?:it|them|this|that))\b"
)
_BACK = re.compile(r"(?:\S+ ){0,4}?(?:its|their|it|them|this|that|ones?|him|her)\b")
_NO_OBJECT = re.compile(
    r"(?:in|by|at|on|to|is|are|each|every|with|for|as|finally|it|they|both|why|how|all) "
    r"|.*\b(?:which|that|who|its|their|them|it|what)\b|.*, "
)
_STRANDED = re.compile(rf"^(?:for|at|on|to|with|about|of|after)(?:[,;]|$)|\b(?:{_VERB})$")
_PARTICLE = re.compile(r"(?:up|out|down|off|away|back)\b(?! to\b)")
_AND_THEN = re.compile(
    r"\band (?P<what>(?:(?!(?:and|who|which|that|to|what|had|has|have|it)\b)[\w'$-]+ ){1,6})"
    rf"(?<!the )(?<!a )(?!rose|fell|came|went|grew|began|stood)(?P<verb>{_VERB})\b(?! by\b)"
)
_AND_VERB = re.compile(
    rf"\band (?:{_VERB})\b(?! (?:a|an|the|its|their|it|them|all|each|every|our)\b)"
)
_GERUNDS = re.compile(r"(?:\band|, and) ([a-z]{3,}ing)\b(?! of\b)")


def point(bullet: str, fit: Callable[[str], float] = lambda text: 0.0) -> str:
    """Rewrite a bullet so that its main point comes first; "" if no later clause has one.

    Args:
        bullet: text of the bullet.
        fit: function that scores the relevance of a text to the job. A first clause about an errand
            (see `ERRANDS`) is cut only if its score is at most 0.
    """
    # a figure in the first third suggests that the bullet already starts with its main point
    if re.search(r"\d", bullet[: len(bullet) // 3]):
        return ""
    for pattern in (_PASSIVE, _WHO, _ACTIVE, _ERRAND, _MEANS, _FRAMED):
        found = pattern.search(bullet)
        if not found or len(found["rest"]) <= len(bullet) * _LEAST:
            continue
        if pattern is _ERRAND and fit(bullet[: found.start("verb")]) > 0:
            continue
        if new := _told(found):
            return new
    return ""


def _told(found: re.Match[str]) -> str:
    """Rewrite a matched clause as an active sentence; "" if the result would be garbled."""
    verb, rest = found["verb"], found["rest"].strip()
    if "what" in found.groupdict():
        what = found["what"].strip()
        if _NO_OBJECT.match(f"{what} ") or _AND_VERB.search(rest):
            return ""
        if particle := _PARTICLE.match(rest):
            verb, rest = f"{verb} {particle[0].strip()}", rest[particle.end() :]
        # a second passive such as "and the errors sent back" becomes active, too
        rest = _AND_THEN.sub(lambda hit: f"and {hit['verb']} {hit['what'].strip()}", rest)
        if _STRANDED.search(rest):
            return ""
        rest = f"{what} {rest}".replace(" ,", ",")
    elif _BACK.match(rest):
        return ""
    elif found.re not in (_ACTIVE, _ERRAND):
        verb = past_tense(verb)
        rest = _GERUNDS.sub(lambda hit: hit[0].replace(hit[1], past_tense(hit[1])), rest)
        if re.search(r"\band (?:[a-z]+ ){1,3}[a-z]+ing\b", rest):
            return ""
    if _LEFT_OVER.search(rest):
        return ""
    return f"{verb[0].upper()}{verb[1:]} {rest}".strip()
