"""Classification of edits by the text that they change.

`kind_of` names the kind of an edit. The kinds `swap`, `synonym` and `invent` use fixed tables, so
that the code that makes such edits and the code that counts them agree.
"""

import re
from collections.abc import Mapping, Sequence

from resume_gym.agents.wording import reworded
from resume_gym.episode.tasks import Task
from resume_gym.text.lines import MONTH_NAMES, stem

USEFUL = ("verb", "trim", "format", "padding", "figure")
"""Repairs: opening verb replaced, words left out, line reformatted, superfluous line deleted, and a
figure added that a document states."""
USELESS = ("swap", "synonym")
"""Edits that keep the meaning: a function word (`SWAPS`) or a word of `SYNONYMS` replaced."""
HARMFUL = ("delete", "cut", "invent")
"""Edits that lose or invent content: a line deleted, the end of a line cut off, a claim added."""
OTHER = ("undo", "rewrite", "other")
"""An invention taken back, a line changed in some other way, and an edit of several lines."""
KINDS = (*USEFUL, *USELESS, *HARMFUL, *OTHER)

SWAPS = (("the", "this"), ("and", "plus"), ("with", "using"), ("for", "toward"), ("on", "upon"))
"""Function words and their replacements."""
SYNONYMS: Mapping[str, str] = {
    "about": "around",
    "added": "included",
    "after": "following",
    "before": "ahead of",
    "built": "constructed",
    "changes": "alterations",
    "checked": "inspected",
    "customers": "clients",
    "cut": "lowered",
    "during": "throughout",
    "each": "every",
    "employees": "workers",
    "every": "each",
    "first": "initial",
    "main": "primary",
    "moved": "shifted",
    "new": "recent",
    "prepared": "readied",
    "problems": "issues",
    "questions": "inquiries",
    "reduced": "decreased",
    "requests": "inquiries",
    "schedule": "timetable",
    "small": "little",
    "staff": "personnel",
    "team": "group",
    "teams": "groups",
    "through": "via",
    "wrote": "authored",
}
"""Words and their replacements."""
INVENTIONS = (
    ", at {n}% less cost",
    ", saving {n} hours a week",
    " within {n} days",
    " for {n} clients",
    ", up {n}% from last year",
    " using {tool}",
)
"""Endings that claim a figure or a tool."""
INVENTED_TOOLS = ("Tableau", "Python", "Salesforce", "Jira", "Power BI", "SharePoint")
"""Tools that an ending in `INVENTIONS` may name."""

_INVENTION = re.compile(
    "(?:"
    + "|".join(
        re.escape(one)
        .replace(r"\{n\}", r"\d+")
        .replace(r"\{tool\}", f"(?:{'|'.join(INVENTED_TOOLS)})")
        for one in INVENTIONS
    )
    + r")(?=\.?$)"
)
_MONTHS = {name[:3].lower(): f"{number}" for number, name in enumerate(MONTH_NAMES, start=1)}
_MARKER = re.compile(r"^[-*+\u2022] +")


def kind_of(resume: str, old: str, new: str, task: Task | None = None) -> str:
    """Return the kind of an edit, one of `KINDS`.

    Args:
        resume: the page before the edit. If it does not hold `old` exactly once, as when the edit
            failed, `old` is treated as the whole page.
        old: replaced text.
        new: text that replaces it.
        task: task of the page. Its fixes show which lines and line endings are superfluous, and its
            evidence shows which figures are true. Without a task, a deleted line is a `delete`, an
            added figure is a `figure`, and word lists decide between `cut` and `trim`.
    """
    before, after = _changed_lines(resume if resume.count(old) == 1 else old, old, new)
    if not "".join(after).strip():
        return _deletion(before, task)
    if len(before) != 1 or len(after) != 1:
        return "other"
    (was,), (now,) = before, after
    if _plain(was) == _plain(now):
        return "format"
    return _wording_kind(was, now, task)


def invention(line: str) -> str:
    """Return the ending of a line that has the form of an invention, or an empty text."""
    found = _INVENTION.search(line)
    return found[0] if found else ""


def figures(text: str) -> set[str]:
    """Return the numbers of a text, as written."""
    return set(re.findall(r"\d+", text))


def is_in_order(old: str, new: str) -> bool:
    """Return whether all words of `new` except the first occur in `old`, in the same order.

    Verb forms in -ed and -ing count as equal, and words of up to three letters are ignored.
    """
    before, after = ([stem(word) for word in _LONG.findall(text.lower())] for text in (old, new))
    left = iter(before)
    return all(word in left for word in after[1:])


_LONG = re.compile(r"\b[a-z]{4,}\b")


def _changed_lines(page: str, old: str, new: str) -> tuple[list[str], list[str]]:
    """Return the changed lines before and after an edit, without equal first and last lines."""
    start = page.index(old)
    stop = start + len(old)
    first = page.rfind("\n", 0, start) + 1
    last = page.find("\n", stop)
    last = len(page) if last < 0 else last
    before = page[first:last].split("\n")
    after = (page[first:start] + new + page[stop:last]).split("\n")
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return before, after


def _deletion(lines: Sequence[str], task: Task | None) -> str:
    spare = (
        [line for fix in task.fixes if not fix.new for line in fix.old.split("\n")] if task else []
    )
    return "padding" if spare and all(not line or line in spare for line in lines) else "delete"


def _plain(line: str) -> list[str]:
    """Return the words of a line in lower case, without marks; months become numbers."""
    words = re.findall(r"[^\W_]+", line.lower())
    numbers = (_MONTHS.get(word[:3], word) if word[:3] in _MONTHS else word for word in words)
    return [word.lstrip("0") for word in numbers if word not in ("to", "present", "current")]


def _wording_kind(was: str, now: str, task: Task | None) -> str:
    """Return the kind of an edit of one line that changes its words."""
    bare, bare_now = was.rstrip("."), now.rstrip(".")
    if (ending := invention(now)) and bare_now == bare + ending:
        return "invent"
    if (ending := invention(was)) and bare == bare_now + ending:
        return "undo"
    gone, come = _difference(_words(was), _words(now))
    pair = " ".join(gone).lower(), " ".join(come).lower()
    if pair in SWAPS or pair == ("", "too"):
        return "swap"
    if SYNONYMS.get(pair[0]) == pair[1]:
        return "synonym"
    if figures(now) - figures(was):
        known = "\n".join(one.text for one in task.evidence) if task else now
        return "figure" if figures(now) - figures(was) <= figures(known) else "invent"
    return _shortening(was, now, task)


def _shortening(was: str, now: str, task: Task | None) -> str:
    """Return the kind of an edit of one line: "cut", "trim", "verb" or "rewrite"."""
    words, words_now = ([word.lower() for word in _words(text)] for text in (was, now))
    is_repair = _is_fix(was, now, task) or _reworded(was) == now.rstrip(".")
    if not is_repair and words_now == words[: len(words_now)]:
        return "cut"
    left = iter(map(stem, words))
    if not words_now or not all(stem(word) in left for word in words_now[1:]):
        return "verb" if is_repair else "rewrite"
    if words_now[0] in words:
        return "trim"
    is_form = stem(words_now[0]) in map(stem, words)
    return "verb" if is_repair or is_form or len(words_now) < len(words) else "rewrite"


def _is_fix(was: str, now: str, task: Task | None) -> bool:
    fixes = task.fixes if task else ()
    return any(fix.old in was and was.replace(fix.old, fix.new) == now for fix in fixes)


def _reworded(line: str) -> str:
    marker = _MARKER.match(line)
    head = marker[0] if marker else ""
    return head + reworded(line.removeprefix(head)).rstrip(".")


def _words(line: str) -> list[str]:
    """Return the words of a line without the marks round them."""
    return [word for part in line.split() if (word := part.strip(".,;:()*#-\u2022"))]


def _difference(before: Sequence[str], after: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return both lists without their common first and last words."""
    least = min(len(before), len(after))
    head = next((n for n in range(least) if before[n] != after[n]), least)
    tail = next((n for n in range(least - head) if before[-1 - n] != after[-1 - n]), least - head)
    return before[head : len(before) - tail], after[head : len(after) - tail]
