"""Rewrites of a bullet that keep its facts: a direct verb, the main point first, and no fillers.

All rules use only the form of the line and a few word lists. Hedges such as "Helped with" are kept,
since they say that somebody else led the work, and only the candidate knows whether that is true.
Each rule returns a whole new bullet or nothing; a rule that is not sure leaves the bullet alone.
"""

import re
from collections.abc import Callable

from resume_gym.text.lines import GLUE, LEXICON, ways
from resume_gym.text.spelling import is_word
from resume_gym.text.verbs import (
    ERRANDS,
    FIELDS,
    NOUNS,
    PAST_TENSES,
    PLURAL_NOUNS,
    ROUTINE,
    gerund,
    past_of_base,
    past_tense,
)

_TOOLS = frozenset(LEXICON["claims"]["tools"])
VERB = rf"(?:{ways(PAST_TENSES)}|[a-z]+[^e\W]ed)"
"""Pattern of a lower-case past tense."""
_FOG = ways(
    """all aspects of, a variety of, a wide variety of, a wide range of, a number of, various types
    of, various kinds of, different types of, various, multiple, numerous, different, several,
    legacy, low value, comprehensive, all necessary, all related, initiatives, issues, matters,
    processes, improvements, enhancements, activities, tasks, projects, procedures, operations, the
    full cycle of, day to day, policies, opportunities, topics, materials, aspects, resources,
    responsibilities, documents, content, documentation, features, updates, options""".replace("\n", " ").split(", ")
)  # fmt: skip
_ABSTRACT = (
    r"(?:efficien\w+|productiv\w+|quality|satisfaction|outcomes?|performance|success|growth|morale"
    r"|decisions?|decision[- ]making|collaboration|communication|operations?|experience|continuity"
    r"|consistency|accuracy|compliance|visibility|transparency|scalab\w+|maintainab\w+|flexib\w+"
    r"|impact|value|posture|skills|processes|results|engagement|alignment|culture|needs|usability"
    r"|reliability|security|workflows?|process|improvements?|learning|progress|understanding)"
)

# Direct verbs

_DUTY = re.compile(
    r"(?:I |Was |I was |Were )?(?:then |also |mainly |primarily |solely )?"
    r"(?:[Rr]esponsible for|[Tt]asked with|[Cc]harged with|[Ee]ntrusted with|[Ii]n charge of"
    r"|[Ww]orked on|[Tt]ook care of"
    r"|(?:[Hh]ad|[Hh]eld|[Tt]ook on|[Aa]ssumed) (?:(?:the|full|sole|main) ){0,2}"
    r"(?:task|job|duty|role|responsibility)(?: of| for|:)) "
    r"|(?:My |Daily |Main |Key |Core |Other |Job )?"
    r"(?:[Dd]uties|[Tt]asks|[Rr]esponsibilities|[Ww]ork|[Jj]ob|[Rr]ole)"
    r"(?: included| include| consisted of| involved| was|:) "
)
_TO_DO = re.compile(r"(?:My (?:role|job|task|duty) was to|Made sure to) (?P<verb>[a-z]+) ")
_GERUND = re.compile(r"(?P<verb>[a-z-]+ing)\b")
_NOUN = rf"[a-z-]+ing|{ways(NOUNS)}"
_ACTION = re.compile(rf"(?:the )?(?P<verb>{_NOUN}) of ")
_LIGHT = re.compile(
    r"(?:Made|Did|Performed|Conducted|Carried out|Gave|Provided|Completed) "
    r"(?:(?:a|an|the|some|various|several|regular|comprehensive|thorough|day to day) )*"
    rf"(?P<verb>{_NOUN}|{ways(PLURAL_NOUNS)}) (?P<link>of|to|for|with|on) "
)
_TRAIT = re.compile(
    r"(?:Utilized|Used|Demonstrated|Applied|Exercised|Showed|Displayed|Leveraged) (?:my )?"
    r"(?:(?:strong|excellent|great|good|effective) )?(?:[a-z-]+ ){0,3}?"
    r"(?:skills|leadership|creativity|patience|initiative|dedication|attention to detail|approach|awareness|acumen|judgment|commitment|expertise"
    r"|teamwork|ability)"
    r"(?: and [a-z]+| to [a-z]+ [a-z]+)? (?:(?P<how>to|by|in|while|and) )(?P<verb>[a-z]+) "
)
_CHOSEN = re.compile(
    r"(?:(?:Was|Were) (?:hand ?picked|selected|chosen|nominated|asked|given|trained|promoted"
    r"|recognized|invited|tasked|assigned|put)|Hand ?picked"
    r"|(?:Served|Acted) as [a-z -]*(?:contact|liaison|resource|owner|support))"
    rf" (?:(?! of )[^.;\d]){{3,70}}?(?:,? and (?:then )?|, )(?P<verb>{VERB}) "
)
_AS = re.compile(
    r"(?:Served|Acted|Worked) as (?:the |a |an )?(?:[a-z]+ )?(?P<post>lead|leader|chair|manager|coordinator"
    r"|representative|supervisor|moderator|editor|owner) (?:of|for) "
)
_POSTS = dict(
    lead="led", leader="led", chair="chaired", manager="managed", coordinator="coordinated",
    representative="represented", supervisor="supervised", moderator="moderated", editor="edited",
)  # fmt: skip
_ENSURED = re.compile(r"(?:Ensured|Made sure|Promoted)\b [^,;\d]{3,60}? by (?P<verb>[a-z]+ing) ")
_CONTEXT = re.compile(
    rf"As (?:part|a member) of (?:a|an|the|our) [^,\d]{{3,50}}, (?P<verb>{VERB}) "
    rf"|(?:Company|Department|School|Hospital|Store|Team) was [^.;\d]{{3,60}}"
    rf"(?:, during which I| and I) (?P<verb2>{VERB}) "
)
_PASSIVE = re.compile(
    rf"(?P<what>[A-Z][^,;:]{{1,80}}?) (?:was|were) (?P<verb>{VERB})(?P<rest>[ ,](?!by (?:the|a|an|our|my)\b).+)"
)


def direct(text: str) -> str:
    """Return a bullet that opens with the verb of what was done; the bullet itself if it does.

    Examples of weak openings are duties ("Responsible for sorting"), nouns of action ("Design of"),
    light verbs ("Performed an audit of"), traits ("Used strong skills to"), and the passive voice.

    >>> direct("I was tasked with sorting it"), direct("Design of pump housings for ships")
    ('Sorted it', 'Designed pump housings for ships')
    """
    duty = _DUTY.match(text)
    rest = _lower(text[duty.end() :] if duty else text)
    if found := _TO_DO.match(text):
        return _past_list(past_of_base(found["verb"]), text[found.end() :], base=True)
    # an opening before a colon is a label: "Conversion of the landing pages: up 2 %"
    active = duty or not re.search(r":| (?:was|were) ", text)
    if active and (found := _ACTION.match(rest)) and _acts(found["verb"]):
        return _past_list(_past(found["verb"]), rest[found.end() :])
    found = _GERUND.match(rest)
    if found and _acts(found["verb"], rest[found.end() :]) and _has_object(rest[found.end() :]):
        return _past_list(past_tense(found["verb"]), rest[found.end() + 1 :])
    if (found := _LIGHT.match(text)) and _acts(found["verb"]):
        verb, link = _past(found["verb"]), found["link"]
        if found["verb"] == "training" and link in ("on", "with", "of"):
            return text
        keeps = link in ("to", "for") and "Provided" not in found[0]
        return _capital(f"{verb} {link + ' ' if keeps else ''}{text[found.end() :]}")
    if found := _TRAIT.match(text):
        verb, how = found["verb"], found["how"]
        if how == "to":
            return _past_list(past_of_base(verb), text[found.end() :], base=True)
        if re.fullmatch(VERB, verb) if how == "and" else verb.endswith("ing"):
            told = verb if how == "and" else past_tense(verb)
            return _past_list(told, text[found.end() :])
    if found := _ENSURED.match(text):
        return _past_list(past_tense(found["verb"]), text[found.end() :])
    if (found := _AS.match(text)) and found["post"] in _POSTS:
        return _capital(f"{_POSTS[found['post']]} {text[found.end() :]}")
    if (found := _CHOSEN.match(text) or _CONTEXT.match(text)) and not _refers(text[found.end() :]):
        verb = found["verb"] if found.re is _CHOSEN else found["verb"] or found["verb2"]
        return _capital(f"{verb} {text[found.end() :]}")
    return _active(text)


def _active(text: str) -> str:
    """Return a bullet in the passive voice as an active one, or the bullet itself."""
    found = _PASSIVE.fullmatch(text)
    if not found or re.search(r"\b(?:was|were|which|that|who|is|are)\b", found["what"]):
        return text
    rest, what = found["rest"], found["what"]
    stranded = re.match(r" (?:on|with|for|about|by|to|at) (?:with|by|to|and)\b", rest)
    if stranded or re.search(r"\b(?:was|were) (?:[a-z]+ed|put|made|set)\b", rest):
        return text
    first = re.match(r"[A-Za-z]*", what)[0].lower()  # type: ignore[index]
    if re.fullmatch(VERB, first) and not re.match(r"\w+ [a-z]+s\b", what):
        return text
    common = what[1:2].islower() and is_word(first) and first not in _TOOLS
    particle = re.match(r" (?:up|out|down|off|over|back)\b(?! to\b)", rest)
    verb = found["verb"].capitalize() + (particle[0] if particle else "")
    rest = rest[particle.end() :] if particle else rest
    return f"{verb} {_lower(what) if common or len(first) == 1 else what}{rest}"


def _acts(word: str, rest: str = "") -> bool:
    """Return whether an -ing form or a noun names an action, given the words after it."""
    if word in NOUNS or word in PLURAL_NOUNS:
        return True
    bare = word not in FIELDS or re.match(r" (?:a|an|the|of|\d+) ", rest)
    return bool(bare) and word.endswith("ing") and is_word(past_tense(word))


def _has_object(rest: str) -> bool:
    """Return whether the words after an -ing form can be its object, so that it is a verb."""
    return re.match(r" (?!(?:of|and|or|is|was|in|at|by|skills?|experience)\b)[\w$]", rest) is not None


def _past(word: str) -> str:
    return NOUNS.get(word) or PLURAL_NOUNS.get(word) or past_tense(word)


_SERIES = re.compile(r"^[^,]*, [a-z]+ing [^,]*,? and [a-z]+ing\b")


def _past_list(verb: str, rest: str, base: bool = False) -> str:
    """Return "VERB rest", where further -ing forms and nouns of action of a list become verbs.

    If `base` is true, base forms after "and" become verbs, too.
    """

    def bare(found: re.Match[str]) -> str:
        return f"{found['join']}{past_of_base(found['word'])} "

    def told(found: re.Match[str]) -> str:
        word, after = found["word"], found.string[found.end() - 1 :]
        return found["join"] + _past(word) + " " if _acts(word, after) else found[0]

    series = _SERIES.match(rest)
    if series or "," not in rest.partition(" and ")[0]:
        rest = re.sub(r"(?P<join>,? and )(?P<word>[a-z]+ing) (?!of\b|and\b|skills?\b)", told, rest)
    if base:
        rest = re.sub(
            r"(?P<join>,? and )(?P<word>(?!how|what)[a-z]+) (?=(?:the|a|an|them|it|each|every|its|their|all|what)\b)",
            bare,
            rest,
        )
    rest = re.sub(rf"(?P<join>,? and )(?P<word>{_NOUN}) of ", told, rest)
    if series:
        rest = re.sub(r"(?P<join>, )(?P<word>[a-z]+ing) ", told, rest)
    return _capital(f"{verb} {rest}")


# Fillers

_TO_END = r"(?P<tail>(?:(?!\d|\bby\b|\bwithout\b)[^;.])*)"
_PURPOSE = re.compile(
    rf",? (?:for the purpose of [a-z]+ing\b|(?:in order|so as|in an effort) to [a-z]+\b|to (?:ensure|guarantee)\b){_TO_END}$"
    r"|,? to meet (?:all |the |their )[a-z ]*(?:needs|requirements|expectations|deadlines|goals)$"
    rf"|,? to (?:help )?(?:support|improve|promote|enhance|foster|drive|facilitate|maximize|optimize"
    rf"|boost|increase|streamline|achieve)\b(?:(?!\d)[^;.,]){{1,60}}?\b{_ABSTRACT}\b(?:(?!\d)[^;.,])*$"
)
_RESULT = re.compile(
    r"(?:,? (?:resulting in|leading to|allowing for|contributing to|ensuring|thereby|ultimately"
    r"|which|that)\b)(?P<tail>(?:(?!\d)[^;.])*?)\b"
    rf"(?:{_ABSTRACT}|satisf\w+)\b(?:(?!\d)[^;.])*$"
)
_RESULT_VERB = re.compile(
    r",? (?:which|that) (?:ha[sd] an? |greatly |significantly |further |also |helped |in turn )*"
    r"(?:improv|enhanc|boost|increas|ensur|strengthen|streamlin|positive|help|support|promot|result"
    r"|led to|contribut|reduc)"
)
_DROPPED = tuple(
    re.compile(pattern)
    for pattern in (
        r",? in an? (?:[a-z]+(?:,? and |, ))*[a-z]+ (?:manner|fashion)\b",
        r",? on an? (?:daily|regular|continuous|ongoing|continual|consistent|as needed|day[- ]to[- ]day"
        r"|frequent) basis\b",
        r" (?:and )?as (?:needed|required|necessary)(?: and (?:required|needed))?$",
        r",? in accordance with (?:industry |company |all )*(?:best )?(?:practices|standards|policies)"
        r"(?: and (?:procedures|standards))?$",
        r",? as part of the overall [a-z ]+$",
        r",? in a fast[- ]paced[a-z ,-]* environment\b",
        r",? (?:while )?working closely with [a-z -]*(?:stakeholders|teams|departments)[a-z ]*$",
        r",? (?:and|as well as|in addition to)(?: any)? other (?:[a-z-]+ ){0,4}?(?:tasks|duties|matters"
        r"|issues|stakeholders|projects|activities|needs|responsibilities|users|measures|requests|items|partners|parties|factors)"
        r"(?: as (?:needed|required|assigned))?(?=$|,| (?:to|for|with|in|on) )",
        r",? for (?:multiple|various|different|key) (?:stakeholders|departments|teams)$",
        r",? etc\b\.?(?=$|,)",
        r",? (?:and|as well as) (?:so on|the like)$",
        r",? and (?:all|other|any) (?:related|relevant) [a-z]+$",
        r",? in (?:line|compliance) with (?:industry |company )*(?:standards|policies|best practices)$",
        r", (?:creating|opening up|helping|making|providing|fostering)\b(?:(?!\d)[^;.])*\b(?:positive"
        r"|opportunit\w+|potential|smooth\w*|better|improved|efficient|environment)\b(?:(?!\d)[^;.])*$",
    )
)
_INSIDE = (
    # "on matters such as hiring" -> "on hiring"
    (re.compile(rf"\b(on|with|for|of|in) (?:(?:{_FOG}) )*(?:matters|topics|issues|things|areas|items),?"
                r" (?:such as|like|including) "), r"\1 "),
    (re.compile(r"(?:(?:key|important|different|various) )+(?:[a-z]+ )?(?:information|materials) such as "), ""),
    (re.compile(r"\ball aspects of "), ""),
    (re.compile(r"\b(?:various|different|multiple|several|many) (?:different )?(?:types|kinds|sorts) of "), ""),
    (re.compile(r"\ba (?:wide )?(?:variety|range|number) of (?:different )?"), ""),
    (re.compile(r"(?<!at )(?<!in )(?<!from )(?<!across )\b(?:various|numerous|multiple|many different) (?=[a-z])"), ""),
)  # fmt: skip
_ADVERB = re.compile(
    r"(?:Successfully|Effectively|Efficiently|Diligently|Proactively|Actively|Significantly|Greatly"
    r"|Efficiently and effectively|Effectively and efficiently) (?P<verb>[a-z]+) "
)
_CYCLE = re.compile(
    r"(?:Involved in|(?:Was )?[Ii]n charge of|Was responsible for|Handled|Managed|Led|Oversaw|Supported|Streamlined|Conducted|Performed) [^,;\d]*\b(?:all aspects"
    r"|full|every phase|activities|cycle|start to finish|day to day)\b[^,;\d]*,"
    rf" (?:(?P<verb>{VERB})|(?P<doing>(?!including|following)[a-z]+ing)) (?P<rest>.+)"
)
_UMBRELLA = re.compile(
    rf"(?P<verb>[A-Z][a-z]+) (?P<what>[^,;\d]{{0,70}}?\b(?:{_FOG})\b[^,;\d]{{0,50}}?),?"
    r" (?:including|such as|mainly|namely|specifically|like) (?P<rest>.+)"
)
_EMPTY = frozenset(
    """Worked Handled Managed Led Drove Oversaw Performed Completed Made Did Supported Maintained
    Coordinated Carried Provided Automated Took Addressed Resolved Executed Implemented""".split()
)


def without_fillers(text: str) -> str:
    """Return a bullet without words that add nothing.

    >>> without_fillers("Successfully closed work orders in a timely and efficient manner")
    'Closed work orders'
    """
    new = text
    if (found := _ADVERB.match(new)) and re.fullmatch(VERB, found["verb"]):
        new = _capital(new[found.start("verb") :])
    if found := _CYCLE.fullmatch(new):
        verb = found["verb"] or past_tense(found["doing"])
        new = _past_list(verb, found["rest"]) if found["doing"] else _capital(f"{verb} {found['rest']}")
    elif found := _UMBRELLA.fullmatch(new):
        new = _specific(found) or new
    for pattern, instead in _INSIDE:
        new = pattern.sub(instead, new)
    new = re.sub(
        r",? as well as (?P<verb>[a-z]+ing) ",
        lambda hit: f" and {past_tense(hit['verb'])} " if _acts(hit["verb"]) else hit[0],
        new,
    )
    for pattern in _DROPPED:
        new = pattern.sub("", new)
    if (found := _RESULT.search(new)) and (
        not re.match(r",? (?:which|that)\b", found[0]) or _RESULT_VERB.match(found[0])
    ):
        new = new[: found.start()]
    if found := _PURPOSE.search(new):
        new = new[: found.start()]
    new = _capital(new.strip(" ,"))
    # what is left must still be a statement
    last = new.rsplit(" ", 1)[-1].lower()
    whole = len(new.split()) >= min(4, len(text.split())) and last not in GLUE
    return new if whole else text


def _specific(found: re.Match[str]) -> str:
    """Return a bullet without the umbrella term before its items."""
    rest = found["rest"]
    if " by " in found["what"]:
        return ""
    if found["what"].split(" ", 1)[0] in GLUE - {"a", "all"} and found["verb"] != "Worked":
        return ""
    doing = _GERUND.match(rest)
    if doing and _acts(doing["verb"]) and _has_object(rest[doing.end() :]):
        if found["verb"] not in _EMPTY:
            return ""
        return _past_list(past_tense(doing["verb"]), rest[doing.end() + 1 :])
    if found["verb"] in ("Worked", "Led", "Drove", "Handled", "Oversaw", "Addressed") or doing:
        return ""
    if "," in found[0][: found.start("rest")]:
        rest = re.sub(r"^([^,]+), (?=with |to |for |in )", r"\1 ", rest)  # "processes, mainly X, with"
    return f"{found['verb']} {rest}"


# Main point first

_RESULTS = ways(
    """cut, reduced, saved, grew, increased, raised, lowered, brought, freed, improved, dropped,
    shortened, cleared, removed, ended, moved, doubled, halved, won, recovered, decreased,
    eliminated, uncovered, spared, found, hired, passed, closed, renewed, caught, traced, negotiated,
    promoted, migrated, opened, fixed, trained, built, automated, filled, shortened""".replace("\n", " ").replace("    ", "").split(", ")
)
_WHICH = re.compile(rf"(?P<means>[A-Z][^;]*?),? (?:which|and this) (?P<verb>{_RESULTS}) (?P<rest>[^;]*\d[^;]*)")
_SAVINGS = re.compile(
    r"(?P<means>[A-Z][^;]*?), resulting in (?P<noun>savings of|a reduction of|an increase of) (?P<rest>\$?\d[^;]*)"
)
_WITH = re.compile(
    r"(?:Worked|Collaborated|Partnered|Liaised|Coordinated|Interfaced|Communicated|Met)(?: closely| directly)? with"
    r" (?P<who>(?:(?! to )[^;\d]){2,60}?)(?: on an? [a-z]+ basis| as needed)? (?:in order )?to (?P<verb>[a-z]+) (?P<rest>[^;]+)"
)
_TOOL = re.compile(
    r"(?:Used|Utilized|Leveraged) (?P<tool>[^;,]{2,40}?) to (?P<verb>[a-z]+) (?P<rest>[^;]+)"
)
_NEXT = rf"\b[^;:\d]{{0,80}}?(?:,? and then|,? and|, then|,) (?P<verb>{VERB}) (?P<rest>(?!by |from |in ).+)"
_COURSE = r"Completed (?:[\w-]+ ){0,5}?(?:training|course|class|certification|workshop|program)"
_ERRAND = re.compile(rf"(?:{ways(ERRANDS)}|{_COURSE}){_NEXT}")
_ROUTINE = re.compile(rf"(?:{ways(ROUTINE)}){_NEXT}")
_NOBODY = re.compile(
    r"(?:the |our |my )?(?:various |multiple |different |other |cross[- ]functional |internal |key )*"
    r"(?:teams?|departments|stakeholders|trades|partners|parties|groups)$"
)


def point(text: str, fit: Callable[[str], float] = lambda text: 0.0) -> str:
    """Return a bullet with its main point first; the bullet itself if no rule applies.

    Args:
        text: text of the bullet.
        fit: function that scores the relevance of a text to the job. A first clause about an errand
            (see `ERRANDS`) is dropped only if its score is at most 0.

    >>> point("Used Excel to find duplicate charges"), point("Moved hours, which cut costs by 9%")
    ('Found duplicate charges with Excel', 'Cut costs by 9% by moving hours')
    """
    if found := _SAVINGS.fullmatch(text):
        verb = {"savings of": "saved"}.get(found["noun"], "")
        return _by(text, verb, found["rest"], found["means"]) if verb else text
    if found := _WITH.fullmatch(text):
        who = "" if _NOBODY.match(found["who"]) else f"with {found['who']}"
        return _moved(found, who)
    if found := _TOOL.fullmatch(text):
        return _moved(found, f"with {found['tool']}")
    if found := _WHICH.fullmatch(text):
        return _by(text, found["verb"], found["rest"], found["means"])
    new = text
    # a list may have several errands before the main point
    while found := _ERRAND.fullmatch(new) or _ROUTINE.fullmatch(new):
        result = re.match(_RESULTS, found["verb"]) and re.search(r"\d", found["rest"])
        first = new[: found.start("verb")]
        result = result or (first.endswith("and ") and len(found["rest"]) > 2 * len(first))
        if _refers(found["rest"]) or fit(new[: found.start("verb")]) > 0:
            break
        if found.re is _ROUTINE and not result:
            break
        new = _capital(f"{found['verb']} {found['rest']}")
    return new


def _by(text: str, verb: str, rest: str, means: str) -> str:
    """Return "VERB rest by doing means", or the bullet itself if the means open with no verb."""
    first, _, others = means.partition(" ")
    if not re.fullmatch(VERB, first.lower()) or re.search(r"\b(?:which|it|them|this)\b", rest):
        return text
    if len(rest.split()) > 12 or rest.count(",") > 1:
        return text
    others = re.sub(
        rf"(?P<join>,? and |, )(?P<verb>{VERB}) ",
        lambda hit: f"{hit['join']}{gerund(hit['verb'])} ",
        others,
    )
    how = "" if first in ("Worked", "Partnered") else "by "
    comma = "," if not how else ""
    return _capital(f"{verb} {rest}{comma} {how}{gerund(first.lower())} {others}")


def _moved(found: re.Match[str], phrase: str) -> str:
    """Return "VERBed rest phrase", with the phrase before the first comma or second clause."""
    rest = found["rest"]
    past = past_of_base(found["verb"])
    vague = ("ensure", "get", "help", "make", "provide", "support", "keep", "meet", "achieve")
    if found["verb"] in vague or re.search(r"\b(?:them|their|it)\b", rest) or not is_word(past) or found["verb"] in GLUE:
        return found[0]
    second = re.search(rf" and (?:{VERB}) |, | which | so that | before | instead ", rest)
    at = second.start() if second else len(rest)
    told = f"{rest[:at]} {phrase}".rstrip() + rest[at:]
    return _past_list(past, told, base=True)


def _refers(rest: str) -> bool:
    """Return whether words refer back to a clause that would be dropped."""
    return re.match(r"(?:\S+ ){0,3}?(?:its|their|it|them|this|that|ones?|him|her|these|those)\b", rest) is not None


def _lower(text: str) -> str:
    """Return the text with its first letter in lower case, unless it opens with an acronym."""
    return text if re.match(r"[A-Z]\w*[A-Z\d]|\d", text) else text[:1].lower() + text[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
