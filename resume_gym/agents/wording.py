"""Rewrites of a bullet that keep its facts: a direct verb, the main point first, and no fillers.

All rules use only the form of a line and the lists in `wording.toml` and `verbs.toml`. Hedges such
as "Helped with" are kept, since they say that somebody else led the work, and only the
candidate knows whether that is true. A rule that does not clearly apply returns the bullet itself,
and `reworded` drops every result that looks like broken English.
"""

import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import resume_gym.text
from resume_gym.text.lines import GLUE, LEXICON, stem, ways
from resume_gym.text.spelling import is_word
from resume_gym.text.verbs import (
    ERRANDS,
    FAULTS,
    FIELDS,
    GOALS,
    NOUNS,
    PAST_TENSES,
    PLURAL_NOUNS,
    ROUTINE,
    gerund,
    is_base,
    past_of_base,
    past_tense,
)

LISTS: dict[str, Any] = tomllib.loads(
    Path(resume_gym.text.__file__).with_name("wording.toml").read_text(encoding="utf-8")
)
"""Words and phrases of weak bullets."""

VERB = rf"(?:{ways(PAST_TENSES)}|[a-z]+[^e\W]ed)"
"""Pattern of a lower-case past tense."""

_TOOLS = frozenset(LEXICON["claims"]["tools"])
_ONLY_VERBS = frozenset(LISTS["only_verbs"])
_LONGEST = 600  # maximum length of a bullet that is rewritten
_PARTS = {
    "ABSTRACT": ways(LISTS["abstract"]),
    "ERRAND": ways(ERRANDS),
    "FOG": ways(LISTS["fog"]),
    "NOUN": rf"[a-z-]+ing|{ways(NOUNS)}",
    "PETTY": ways(LISTS["petty"]),
    "PLURAL": ways(PLURAL_NOUNS),
    "POST": ways(LISTS["posts"]),
    "RESULT": ways(LISTS["results"]),
    "ROUTINE": ways(ROUTINE),
    "TRAIT": ways(LISTS["traits"]),
    "VERB": VERB,
}


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern of `wording.toml`, in which the keys of `_PARTS` are placeholders."""
    filled = re.sub("|".join(_PARTS), lambda name: f"(?:{_PARTS[name[0]]})", text)
    return re.compile(re.sub(r"\n", "", filled), flags)


_P = {name: pattern(text) for name, text in LISTS["patterns"].items()}
_DROPPED = [pattern(text) for text in LISTS["fillers"]["dropped"]]
_REPLACED = [(pattern(old), new) for old, new in LISTS["fillers"]["replaced"]]

# Direct verbs


def direct(text: str) -> str:
    """Replace the weak opening of a bullet by a direct verb; return other bullets unchanged.

    Examples of weak openings are duties ("Responsible for sorting"), nouns of action ("Design of"),
    light verbs ("Performed an audit of"), traits ("Used strong skills to"), and the passive voice.

    >>> direct("I was responsible for sorting it"), direct("Design of pump housings for ships")
    ('Sorted it', 'Designed pump housings for ships')
    """
    duty = _P["duty"].match(text)
    rest = _lower(text[duty.end() :] if duty else text)
    # what stands before a colon is a label, and what stands before "was" is a subject
    if duty or not re.search(r":| (?:was|were) ", text):
        # "Tasked with finding 9 leaks" does not say that they were found
        done = duty is None or (not duty["aim"] and re.search(r"\d", text) is not None)
        told = _told(rest, sure=done)
        if told and (duty or len(text.split()) > 3):
            return told
    if found := _P["to_do"].match(text):
        return _past_list(past_of_base(found["verb"]), text[found.end() :], base=True)
    if found := _P["light"].match(text):
        return _without_light_verb(text, found)
    if found := _P["trait"].match(text):
        return _without_trait(text, found)
    if found := _P["ensured"].match(text):
        return _past_list(past_tense(found["verb"]), text[found.end() :])
    if found := _P["post"].match(text):
        return _capital(f"{LISTS['posts'][found['post']]} {text[found.end() :]}")
    if found := _P["given"].match(text):
        return _capital(f"{found['verb']} {found['what']} {text[found.end() :]}")
    if (found := _P["lent"].fullmatch(text)) and _content(found["what"]) & _content(found["rest"]):
        return _capital(f"{found['verb']} {found['rest']}")
    if found := _P["chosen"].fullmatch(text):
        verb, rest = filter(None, found.groups())
        return text if _refers(rest) else _capital(f"{verb} {rest}")
    return _active(text)


def _told(rest: str, sure: bool) -> str:
    """Return words that open with an -ing form or noun of action in the past tense; "" if unclear.

    Args:
        rest: the words after "Responsible for" and the like, or a whole bullet; see `_lower`.
        sure: whether an -ing form that names a result ("growing sales") means that the result was
            achieved. It does not after "Responsible for".
    """
    found = _P["pair"].match(rest)
    if found and all(_acts(word, " the ") for word in found.group(1, 2)):
        after = rest[found.end() :]
        if found["of"] or re.match(r"\d|(?:the|a|an|new) ", after):
            return _capital(f"{_past(found[1])} and {_past(found[2])} {after}")
    if found := _P["action"].match(rest):
        return _past_list(_past(found["verb"]), rest[found.end() :])
    found = _P["gerund"].match(rest)
    if not found or (found["verb"] in GOALS and not sure):
        return ""
    after = rest[found.end() :]
    if not _acts(found["verb"], after) or not _has_object(after):
        return ""
    return _past_list(past_tense(found["verb"]), after[1:])


def _content(text: str) -> set[str]:
    """Return the stems of the longer words of a text."""
    return {stem(word) for word in re.findall(r"[a-z]{4,}", text.lower())}


def _without_light_verb(text: str, found: re.Match[str]) -> str:
    noun, link, rest = found["verb"], found["link"], text[found.end() :]
    given = found[0].startswith(("Provided", "Gave", "Made"))
    if link in ("to", "for") and (not given or _is_plain(rest.split()[0])):
        return text
    if noun == "training" and link in ("of", "on"):  # "training of staff", but "training on pumps"
        return text
    return _capital(f"{_past(noun)} {rest}")


def _without_trait(text: str, found: re.Match[str]) -> str:
    verb, how, rest = found["verb"], found["how"], text[found.end() :]
    if how == "to" and _is_plain(verb):
        return _past_list(past_of_base(verb), rest, base=True)
    if how == "and" and re.fullmatch(VERB, verb):
        return _past_list(verb, rest)
    if how not in ("to", "and") and _acts(verb, " the "):
        return _past_list(past_tense(verb), rest)
    return text


def _is_plain(verb: str) -> bool:
    """Return whether a word is the base form of a known verb, such as "plan" or "cut"."""
    return is_base(verb) or (verb in PAST_TENSES and past_of_base(verb) == verb)


def _active(text: str) -> str:
    """Return a bullet in the passive voice as an active one, or the bullet itself."""
    found = _P["passive"].fullmatch(text)
    if not found or re.search(rf"\b(?:was|were) {VERB}\b", found["rest"]):
        return text
    what = found["what"]
    first, _, second = what.partition(" ")
    if re.fullmatch(VERB, first.lower()) and not re.match(r"[a-z]+s\b", second):
        return text
    # "Third-party tools", but not "Excel reports" and not "Black Friday"
    common = first[1:].islower() and all(map(is_word, first.lower().split("-")))
    common = common and ("-" in first or not re.match("[A-Z][a-z]", second))
    common = (common and first.lower() not in _TOOLS) or first.lower() in GLUE
    verb = found["verb"].capitalize() + (found["particle"] or "")
    return f"{verb} {_lower(what) if common else what}{found['rest']}"


def _acts(word: str, rest: str = "") -> bool:
    """Return whether an -ing form or a noun names an action, given the words after it."""
    if word in NOUNS or word in PLURAL_NOUNS:
        return True
    bare = word not in FIELDS or re.match(r" (?:a|an|the|of|each|up|with|\d+) ", rest)
    return bool(bare) and word.endswith("ing") and is_word(past_tense(word))


def _has_object(rest: str) -> bool:
    """Return whether the words after an -ing form can be its object, so that it is a verb."""
    other = r" (?!(?:of|and|or|is|was|in|at|by|skills?|experience|to relocate)\b)[\w$]"
    return re.match(other, rest) is not None


def _past(word: str) -> str:
    return NOUNS.get(word) or PLURAL_NOUNS.get(word) or past_tense(word)


def _past_list(verb: str, rest: str, base: bool = False) -> str:
    """Return "VERB rest", with -ing forms and nouns of action in a list put in the past tense.

    If `base` is true, base forms after "and" are put in the past tense, too.
    """

    def told(found: re.Match[str]) -> str:
        after = f"{found[3]} " if found[3] else found.string[found.end() - 1 :]
        return f"{found[1]}{_past(found[2])} " if _acts(found[2], after) else found[0]

    def did(found: re.Match[str]) -> str:
        sure = found[2] in _ONLY_VERBS or (found[3] and is_base(found[2]))
        return f"{found[1]}{past_of_base(found[2])} " if sure else found[0]

    series = re.match(r"[^,]*, [a-z]+ing [^,]*,? and [a-z]+ing\b", rest)
    before = re.sub(r", (?:about )?\d[^,]*,", "", rest).partition(" and ")[0]
    # "by greeting and closing": the first form depends on a preposition, and so does the second
    governed = re.search(
        r"\b(?:by|of|for|on|in|after|before|including|through) [a-z]+ing\b", before
    )
    if series or ("," not in before and not governed):
        rest = re.sub(r"(,? and )([a-z]+ing)() (?!of\b|and\b|skills?\b)", told, rest)
    if base:
        objects = r"(?=((?:the|a|an|them|it|each|every|its|all)\b)?)"
        rest = re.sub(rf"(,? and )([a-z]+) {objects}", did, f" {rest}")[1:]
    rest = re.sub(rf"(,? and )({_PARTS['NOUN']})( of) ", told, rest)
    if series:
        rest = re.sub(r"(, )([a-z]+ing)() ", told, rest)
    return _capital(f"{verb} {rest}")


# Fillers


def without_fillers(text: str) -> str:
    """Return a bullet without words that add nothing.

    >>> without_fillers("Successfully closed work orders in a timely and efficient manner")
    'Closed work orders'
    """
    new = text
    if found := _P["adverb"].fullmatch(new):
        new = _capital(found["rest"])
    if found := _P["cycle"].fullmatch(new):
        doing, rest = found["doing"] or found["doing2"], found["rest"] or found["rest2"]
        told = _past_list(past_tense(doing), rest) if doing else f"{found['verb']} {rest}"
        new = _capital(told) if not doing or _acts(doing) else new
    elif found := _P["umbrella"].fullmatch(new):
        new = _specific(found) or new
    for old, instead in _REPLACED:
        new = old.sub(instead, new)
    if (found := _P["besides"].search(new)) and _acts(found["verb"]) and not _is_present(new):
        new = f"{new[: found.start()]} and {past_tense(found['verb'])} {new[found.end() :]}"
    for old in _DROPPED:
        new = old.sub("", new)
    # without the aim, "Worked with sales to improve service" says nothing
    social = re.match(r"\w+ (?:closely |directly )?with\b|(?:Used|Utilized|Leveraged) ", new)
    if not social and (found := _P["tail"].search(new)):
        does = re.search(rf"\b(?:by|without|and {VERB})\b", found[0])
        new = new if does else new[: found.start()]
    return _capital(new.strip(" ,")) if new != text else text


def _is_present(text: str) -> bool:
    return is_base(text.split(" ", 1)[0].lower())


def _specific(found: re.Match[str]) -> str:
    """Return a bullet without the umbrella term before its items; empty if this does not fit."""
    rest, what, verb = found["rest"], found["what"], found["verb"]
    glue = re.search(r"\b(?:by|on|with|in|to|from|as|for)\b", what) or (
        what.split()[0] in GLUE - {"a", "all"}
    )
    if (glue and verb != "Worked") or rest.startswith("those "):
        return ""
    if found["link"] == "including" and found["more"]:  # "various vendors including cleaning"
        return ""
    doing = _P["gerund"].match(rest)
    if doing and _acts(doing["verb"]) and _has_object(rest[doing.end() :]):
        told = _past_list(past_tense(doing["verb"]), rest[doing.end() + 1 :])
        return told if verb in LISTS["empty"] else ""
    if doing or verb in ("Worked", "Led", "Drove", "Handled", "Oversaw", "Addressed"):
        return ""
    if "," in found[0][: found.start("rest")]:  # "processes, mainly X, with"
        rest = re.sub(r"^([^,]+), (?=(?:with|to|for|in|into|from|by|at) )", r"\1 ", rest)
    return f"{verb} {rest}"


# Main point first


def point(text: str, fit: Callable[[str], float] = lambda text: 0.0) -> str:
    """Return a bullet with its main point first; the bullet itself if no rule applies.

    Args:
        text: text of the bullet.
        fit: function that scores the relevance of a text to the job. A first clause about an errand
            or routine is dropped only if the rest of the bullet has no lower score.

    >>> point("Used Excel to find duplicate charges"), point("Moved hours, which cut costs by 9%")
    ('Found duplicate charges with Excel', 'Cut costs by 9% by moving hours')
    """
    if found := _P["savings"].fullmatch(text):
        return _by(text, "saved", found["rest"], found["means"])
    new = text
    if (found := _P["with"].fullmatch(text)) and not re.search(r"\bteam$", found["who"]):
        new = _moved(found, "" if _P["nobody"].match(found["who"]) else f"with {found['who']}")
    elif found := _P["tool"].fullmatch(text):
        how = "using" if " with " in found["rest"] else "with"
        new = _moved(found, f"{how} {found['tool']}")
    elif (found := _P["first"].fullmatch(text)) and _is_minor(found, fit, first=True):
        new = _capital(f"{found['verb']} {found['rest']}")
        # a list may have several errands before the main point
        while (found := _P["first"].fullmatch(new)) and _is_minor(found, fit, first=False):
            new = _capital(f"{found['verb']} {found['rest']}")
        return new if 2 * len(new) > len(text) else text  # most of the content stays
    if found := _P["which"].fullmatch(new):
        return _by(new, found["verb"], found["rest"], found["means"])
    return new


# a clause that names partners is never minor
_PARTNERS = re.compile(r"(?:Worked|Collaborated|Partnered|Teamed up)\b.* with ")


def _is_minor(found: re.Match[str], fit: Callable[[str], float], first: bool) -> bool:
    """Return whether a clause matters less than the rest of the bullet.

    Args:
        found: match of the pattern "first".
        fit: function that scores the relevance of a text to the job.
        first: whether the clause opens the original bullet.
    """
    task, rest = found["task"], found["rest"]
    if (
        _PARTNERS.match(task)
        or _refers(rest)
        or fit(task) > fit(rest)
        or re.search(rf" {VERB}$", task)
    ):
        return False
    # after a comma, a past tense is a second verb only in a list
    if found["join"] == "," and not re.search(rf" and (?:then )?{VERB} ", rest):
        return False
    if _P["errand"].match(task):
        return True
    petty = _P["petty"].search(task) is not None
    if not re.search(r"\d", rest):
        return petty and len(rest) > 2 * len(task)
    minor = re.match(_PARTS["RESULT"], found["verb"]) or len(task.split()) < 8
    return petty or bool(first and found["join"] != "," and _P["routine"].match(task) and minor)


def _by(text: str, verb: str, rest: str, means: str) -> str:
    """Return "VERB rest by doing means"; the bullet itself if this would be wrong or too long."""
    first, _, others = means.partition(" ")
    if not re.fullmatch(VERB, first.lower()) or re.search(r"\b(?:which|its?|them|this)\b", rest):
        return text
    hedged = first in ("Aided", "Assisted", "Contributed", "Helped", "Participated", "Supported")
    if hedged or len(rest.split()) > 12 or rest.count(",") > 1:
        return text
    others = re.sub(
        rf"(?P<join>,? and |, )(?P<verb>{VERB}) ",
        lambda hit: f"{hit['join']}{gerund(hit['verb'])} ",
        others,
    )
    how = "" if first in ("Worked", "Partnered") else "by "
    comma = "," if "," in rest or not how else ""
    return _capital(f"{verb} {rest}{comma} {how}{gerund(first.lower())} {others}")


_VAGUE = ("ask", "ensure", "get", "help", "make", "provide", "support", "keep", "meet", "achieve")


def _moved(found: re.Match[str], phrase: str) -> str:
    """Return "VERBed rest phrase", with the phrase where it fits; the bullet itself if unsure."""
    rest, base, past = found["rest"], found["verb"], past_of_base(found["verb"])
    if base in _VAGUE or re.search(r"\b(?:them|their|it|ones|how|whether)\b", rest):
        return found[0]
    # ", which" would refer to the phrase
    unclear = found.re is _P["with"] and " with " in rest
    if unclear or not is_word(past) or re.search(rf", which (?!{_PARTS['RESULT']})", rest):
        return found[0]
    if phrase and re.match(r"(?:on|to|into) ", rest):  # "agree with them on"
        return _past_list(past, f"{phrase} {rest}", base=True)
    told = _past_list(past, rest, base=True)
    places = (
        place.start()
        for place in _P["place"].finditer(told)
        if " " in told[: place.start()]
        and told[: place.start()].rsplit(" ", 1)[-1].lower() not in GLUE
        and not told.startswith(" for ", place.start())
    )
    at = next(places, len(told))
    if found.re is _P["tool"] and "," in told[:at]:
        return found[0]
    return f"{told[:at]} {phrase}".rstrip() + told[at:]


def _refers(rest: str) -> bool:
    """Return whether words refer back to a clause that would be dropped."""
    return _P["back"].match(rest) is not None


def _lower(text: str) -> str:
    """Return the text with its first letter in lower case, unless it opens with an acronym."""
    return text if re.match(r"[A-Z]\w*[A-Z\d]|\d", text) else text[:1].lower() + text[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# All rules


def reworded(bullet: str, fit: Callable[[str], float] = lambda text: 0.0) -> str:
    """Return a bullet rewritten by all rules; a rule may make another rule applicable.

    >>> reworded("Responsible for testing of pumps and valves in a timely manner.")
    'Tested pumps and valves.'
    """
    if len(bullet) > _LONGEST:
        return bullet
    body = bullet if bullet.endswith("etc.") else bullet.rstrip(".")
    new = body
    pointed = partial(point, fit=fit)
    for rule in (direct, pointed, without_fillers, direct, without_fillers):
        if rule is pointed and new != body:
            continue  # a duty that `direct` has rewritten is the main point already
        after = rule(new)
        least = 2 if rule is direct else 3
        new = after if after == new or _is_sound(after, new, least) else new
    return new + bullet[len(body) :]


def _is_sound(new: str, old: str, least: int) -> bool:
    """Return whether a rewrite still looks like a statement in good English."""
    words, before = (re.findall(r"[^\W\d_]+", text.lower()) for text in (new, old))
    if len(new.split()) < least or not words:
        return False
    last = new.split()[-1].lower()
    cut_off = words[-1:] != before[-1:] and last in GLUE - {"each", "it", "them", "all", "up"}
    if cut_off:
        return False
    if any(word not in before and not is_word(word) for word in words):
        return False
    turned = re.match(rf"{VERB}\b", words[0]) and words[0] != before[0]
    # "Ensured sites are safe", "Traced calls and report them", "Logged faults and following up"
    present = turned and re.search(r"\b(?:is|are|has|have|I)\b(?!-)", new)
    base = turned and " to " in old and any(is_base(word) for word in _P["and_base"].findall(new))
    found = _P["left_over"].match(new) if words[0] not in before else None
    left = found and found["word"] not in FIELDS
    return not (
        present or base or left or any(one.search(new) and not one.search(old) for one in FAULTS)
    )
