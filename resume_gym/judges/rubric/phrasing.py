"""Recognize improvements that keep a line's words: a result put first, praise left out, and so on.

Whether the new line is true and good English is checked elsewhere.
"""

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import pairwise

from resume_gym.text.lines import GLUE, LEXICON, Content, is_figure, is_rate, read, stem
from resume_gym.text.style import head, is_past, is_soft, is_weak
from resume_gym.text.thresholds import HALF, SEVERAL
from resume_gym.text.verbs import NOUNS, VERB_STEMS, is_base

_CARRIERS = frozenset(map(stem, LEXICON["verbs"]["carriers"]))
_SCORES = frozenset(map(stem, LEXICON["verbs"]["scores"]))
_RISES, _FALLS = (frozenset(map(stem, group)) for group in LEXICON["verbs"]["directions"])
# a figure at the end, behind a comma, that says how many: "Groomed dogs, 15 a day"
_TAIL = re.compile(r"(?P<main>.+?)(?P<tail>,[^,;:]{1,12}\d[^,;:]{0,40}(?:,\d{3}[^,;:]*)?)(?:$|, )")
# matches the end of a sentence, or "and" before "I am" or "I have"
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s+and (?=I (?:am|have)\b)")
_PERSONS = frozenset(("people", "children", "men", "women", "staff"))


def placed(old: Content, new: Content) -> bool:
    """Return whether a figure at the end of a line now stands before the noun that it counts."""
    found = _TAIL.match(old.body)
    if not found or found["tail"] in new.body:
        return False
    tail = read(found["tail"].strip(", "))
    figures = [n for n, key in enumerate(tail.keys) if is_figure(key)]
    if not figures or not tail.values <= new.values:
        return False
    figure = tail.keys[figures[0]]
    verb = new.tokens[head(new).at]
    if figure not in new.keys or not (is_past(verb) or is_base(verb)):
        return False
    own = tail.keys[figures[0] + 1 :][:2]
    counted = {key for key in own if not (key in GLUE or is_rate(key))}
    main = read(found["main"])
    plural = (k for t, k in zip(main.tokens, main.keys, strict=True) if _is_plural(t))
    counted.update(list(plural)[:1])
    place = new.keys.index(figure)
    after = new.keys[place + 1 : place + 4]
    money = any(n.unit in "$€£₹" and n.unit for n in tail.numbers) and bool({*after} & {*main.keys})
    return money or not counted.isdisjoint(after)


def _is_plural(token: str) -> bool:
    ends = token.endswith("s") and not token.endswith(("ss", "us", "is"))
    return token in _PERSONS or (ends and token not in GLUE)


def result_first(old: Content, new: Content) -> bool:
    """Return whether a line opens with its result: "Cut fuel by 10% by rerouting vans"."""
    tokens, deed = new.tokens, old.keys[head(old).at]
    if new.keys[head(new).at] == deed or not is_past(tokens[head(new).at]):
        return False
    for at, (one, other) in enumerate(pairwise(tokens)):
        if one in ("by", "after") and other.endswith("ing") and new.keys[at + 1] == deed:
            return any(is_figure(key) for key in new.keys[:at])
    return False


def turned(content: Content, verb: str) -> bool:
    """Return whether a line states the change named by a verb: "from 9 minutes to 6" for "cut"."""
    way = 1 if verb in _RISES else -1 if verb in _FALLS else 0
    if not way:
        return False
    ends = pairwise(content.numbers)
    ranged = bool(re.search(r"\bfrom\b.+\bto\b", content.body))
    by_figures = ranged and any((b.value - a.value) * way > 0 for a, b in ends)
    words = _RISES if way > 0 else _FALLS
    return by_figures or not words.isdisjoint(content.keys)


def named(old: Content, new: Content) -> bool:
    """Return whether a verb that claims nothing more ("Prepared") was added to a verbless line."""
    at = head(new).at
    verb, rest = new.keys[at], [key for key in new.telling if key != new.keys[at]]
    if at or not is_verbless(old) or {*rest} != {*old.telling} or is_weak(new):
        return False
    return verb in (_SCORES if is_figure(old.keys[0]) else _CARRIERS)


def is_verbless(content: Content) -> bool:
    """Return whether a line is a bare phrase: "Weekly stock report", "Rosters and stocktakes"."""
    first = content.tokens[0]
    listed = content.body.lower().startswith(f"{first},")  # "Rostering, wage cost"
    doing = first.endswith("ing") and not listed
    action = first in NOUNS or doing or is_weak(content)
    verbs = (is_past(token) for token in content.tokens[:4])  # "report on missed bins"
    return not (action or is_base(first) or content.keys[0] in VERB_STEMS) and not any(verbs)


def unpraised(old: Content, new: Content) -> bool:
    """Return whether a text has lost whole sentences of praise, and nothing else."""
    rest = _sentences(new)
    gone = []
    for sentence in _sentences(old):
        if rest[:1] == [sentence]:
            del rest[0]
        else:
            gone.append(read(sentence))
    return bool(gone) and bool(new.tokens) and not rest and all(map(_praises, gone))


def _sentences(content: Content) -> list[str]:
    return [one.strip(" .!?") for one in _SENTENCE.split(content.body) if one.strip(" .!?")]


def _praises(content: Content) -> bool:
    """Return whether a sentence is mostly praise, without a figure, a name or a past tense."""
    telling = [t for t, k in zip(content.tokens, content.keys, strict=True) if k in content.telling]
    soft = sum(is_soft(token) for token in telling)
    names = any(not name.head for name in content.names)
    deeds = any(is_past(t) and not is_soft(t) for t in content.tokens[:3])
    plain = not (content.figures or names or deeds)
    return plain and soft >= SEVERAL and soft >= HALF * len(telling)


def shorn(old: Content, new: Content, known: Callable[[str], bool]) -> bool:
    """Return whether a line has lost praise of the candidate, and nothing else.

    A word that `known` accepts may take the place of praise: "Fair leader" -> "Sales leader".
    """
    codes = SequenceMatcher(None, old.tokens, new.tokens, autojunk=False).get_opcodes()
    gone = [(" ".join(old.tokens[a:b]), new.tokens[c:d]) for k, a, b, c, d in codes if k != "equal"]
    return any(is_soft(text) for text, _ in gone) and all(
        (is_soft(text) and all(map(known, {*added} - GLUE)))
        or GLUE.issuperset((*text.split(), *added))
        for text, added in gone
    )
