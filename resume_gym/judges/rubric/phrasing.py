"""Recognize improvements that keep a line's words: a result put first, praise left out, and so on.

Whether the new line is true and good English is checked elsewhere.
"""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

from resume_gym.text.lines import GLUE, LEXICON, Content, is_figure, read, stem
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
_COMPOUND = re.compile(r"(?<=[a-z])-(?=[a-z])")
_MARK = re.compile(r"[,;:](?=\s)")
_ARTICLES = frozenset(("a", "an", "the"))
_TOTAL = frozenset(("in", "all", "total"))
_PREPOSITIONS = frozenset(LEXICON["torn"]["prepositions"])
_PERSONS = frozenset(("people", "children", "men", "women", "staff"))


def placed(old: Content, new: Content) -> bool:
    """Return whether a figure at the end of a line now stands before the noun that it counts.

    The rest of the line must read as before, with the rest of the tail put between two phrases:
    "Groomed dogs by appointment, 15 a day" -> "Groomed 15 dogs a day by appointment".
    """
    found = _TAIL.match(old.body)
    verb = new.tokens[head(new).at]
    if not found or not (is_past(verb) or is_base(verb)):
        return False
    texts = found["main"], found["tail"].strip(", "), old.body[found.end() :], new.body
    marks = [_MARK.findall(text) for text in texts]
    main, tail, rest, new = (read(_COMPOUND.sub("", text)) for text in texts)
    at = next((n for n, key in enumerate(tail.keys) if is_figure(key)), None)
    if at is None or marks[0] + marks[2] != marks[3]:
        return False
    line, wanted = _bare(new, head(new).at), [*_bare(main, head(main).at), *_bare(rest)]
    run = list(tail.keys[: at + 1])
    place = next((n for n in range(len(line)) if line[n : n + at + 1] == run), 0)
    after = line[place + at + 1 :]
    noun = _counted(main, wanted)
    if any(number.unit and number.unit in "$€£₹" for number in tail.numbers):
        noun, after = place, after[after[:1] in (["in"], ["of"]) :]
    near = 0 < place <= noun < place + SEVERAL + 1 and GLUE.isdisjoint(wanted[place:noun])
    moved = [key for key in tail.keys[at + 1 :] if key not in {*wanted[noun : noun + 1]}]
    ends = [n for n in range(noun + 1, len(wanted)) if wanted[n] in _PREPOSITIONS]
    return near and any(
        _puts_in(line[:place] + after, wanted, end, moved) for end in (*ends, len(wanted))
    )


def _counted(main: Content, wanted: Sequence[str]) -> int:
    """Return the index in `wanted` of the first plural after the verb of a line; 0 if none."""
    plurals = (stem(token) for token in main.tokens[head(main).at + 1 :] if _is_plural(token))
    key = next(plurals, "")
    return wanted.index(key, 1) if key in wanted[1:] else 0


def _bare(content: Content, start: int = 0) -> list[str]:
    """Return the keys of a line from an index on, without articles."""
    return [key for key in content.keys[start:] if key not in _ARTICLES]


def _puts_in(line: list[str], wanted: list[str], at: int, moved: list[str]) -> bool:
    """Return whether `line` is `wanted` with `moved` put in at an index; "in all" may be gone."""
    end = len(line) - (len(wanted) - at)
    inside = line[at:end]
    kept = end >= at and line[:at] + line[end:] == wanted
    return kept and inside in (moved, [] if _TOTAL.issuperset(moved) else moved)


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
