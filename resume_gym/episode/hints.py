"""Hints: short advice for the next call, added to the end of an observation.

Each function makes one kind of hint, in one of several wordings. A hint quotes only the page, never
the text of a fix or of a failed call. No environment shows hints by itself: they are for
demonstrations, and for training techniques that compare a policy with and without a hint.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from resume_gym.judges.critique import Defect, quoted

_FAILED = (
    "the last call failed ({error}).",
    "your call was not carried out: {error}.",
    "that call had an error, {error}.",
    "this did not work ({error}). Try again.",
)
_NEAREST = (
    " The page has {text}.",
    " Copy exactly: {text}.",
    " The nearest text of the resume is {text}.",
    " What the page says is {text}.",
)
_GOOD = (
    "This line was good: {line}.",
    "{line} was good as it stood.",
    "Leave {line} as it is.",
    "Nothing is wrong with {line}.",
    "{line} needs no edit.",
)
_UNSUPPORTED = (
    "This claim has no support: {claim}.",
    "Nothing supports {claim} in {line}.",
    "Nobody knows where {claim} comes from.",
    "Take {claim} back: it is invented.",
    "{line} claims more than is known: {claim}.",
)
_WEAK: Mapping[str, Sequence[str]] = {
    "aside": (
        "{line} dwells on what this employer does not ask about.",
        "The main point of {line} comes too late.",
        "{line} begins with something minor.",
    ),
    "opening": (
        "{line} opens without saying what was done.",
        "The opening of {line} is weak.",
        "{line} needs a direct verb.",
    ),
    "vague": (
        "{line} says little that is definite.",
        "Some words of {line} say nothing.",
        "{line} has fillers.",
    ),
    "figure": (
        "{line} does not say how much or how many.",
        "{line} lacks a figure.",
        "A document may hold a figure for {line}.",
    ),
    "spare": (
        "{line} tells this employer little and could go.",
        "The page can do without {line}.",
        "{line} only takes up room.",
    ),
    "form": (
        "{line} does not look like the other lines of its kind.",
        "The format of {line} differs from the rest.",
        "{line} is written in another style.",
    ),
}
_LEFT = (
    "Faults are left on the page.",
    "Do not submit yet: some lines are still weak.",
    "There is more to repair.",
    "The resume still has faults.",
)
WEAK_KINDS = tuple(_WEAK)
"""Kinds of defects, as `critique` names them, for which `weak_line` has words."""
Kind = Literal["failed_call", "good_line", "unsupported", "weak_line", "faults_left"]
"""Name of a function that makes a hint."""
KINDS: tuple[Kind, ...] = get_args(Kind)


def failed_call(error: str, page: str, old: str = "", form: int = 0) -> str:
    """Return a hint after a failed call.

    Args:
        error: error code of the call, such as "not_found".
        page: current text of the page.
        old: text that the call wanted to replace; empty if it is unknown.
        form: number that selects the wording, modulo the number of wordings.
    """
    near = nearest(page, old)
    place = _pick(_NEAREST, form // len(_FAILED)).format(text=quoted(near)) if near else ""
    return _hint(_pick(_FAILED, form).format(error=error) + place)


def good_line(line: str, form: int = 0) -> str:
    """Return a hint that a line of the page was good before an edit, or is good."""
    return _hint(_pick(_GOOD, form).format(line=quoted(line)))


def unsupported(line: str, claim: str, form: int = 0) -> str:
    """Return a hint that nothing supports a claim, which is a part of the line."""
    told = f'"{claim.strip(" ,.;")}"'
    return _hint(_pick(_UNSUPPORTED, form).format(line=quoted(line), claim=told))


def weak_line(defect: Defect, form: int = 0) -> str:
    """Return a hint about a line that is still weak, given a defect that `critique` has found.

    Raises:
        KeyError: The kind of the defect is not one of `WEAK_KINDS`.
    """
    return _hint(_pick(_WEAK[defect.kind], form).format(line=quoted(defect.line)))


def faults_left(form: int = 0) -> str:
    """Return a hint that the page still has faults, for an agent that is about to submit."""
    return _hint(_pick(_LEFT, form))


def beneath(observation: str, hint: str) -> str:
    """Return an observation with a hint as its last line."""
    return f"{observation}\n{hint}"


def quotation(call: str) -> str:
    """Return the text that a call wants to replace, even if the call is malformed, or ""."""
    quote = re.search(r'"old"\s*:\s*"((?:[^"\\]|\\.)*)', call)
    return quote[1].replace("\\n", "\n") if quote else ""


def nearest(page: str, old: str) -> str:
    """Return the words of the page that resemble `old` most: successive words of one line.

    The result has at most as many words as `old`. It is empty if no line shares at least two words
    with `old`, or one word if `old` has only one.
    """
    wanted = Counter(re.findall(r"\w+", old.lower()))
    if not wanted:
        return ""
    length = len(old.split())
    best, most = "", min(1, wanted.total() - 1)
    for line in page.split("\n"):
        words = list(re.finditer(r"(?![-*+#\u2022]+ )\S+", line))
        for first in range(max(1, len(words) - length + 1)) if words else ():
            stop = words[min(first + length, len(words)) - 1].end()
            run = line[words[first].start() : stop]
            shared = (Counter(re.findall(r"\w+", run.lower())) & wanted).total()
            if shared > most:
                best, most = run, shared
    return best


def _pick(forms: Sequence[str], form: int) -> str:
    return forms[form % len(forms)]


def _hint(text: str) -> str:
    return f"Hint: {text[:1].upper()}{text[1:]}"
