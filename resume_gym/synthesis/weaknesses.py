"""How a resume is made worse, and the edits that repair it.

Four weaknesses spoil single bullets (`weaken`), one the layout of the whole text (`disorder`),
and one adds what the job does not need (see `procedural`). Each change comes with its fixes.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from random import Random

from resume_gym.synthesis.content import Deed, Story
from resume_gym.synthesis.writing import MONTHS
from resume_gym.tasks import Fix

OPENERS = (
    "Responsible for",
    "Helped with",
    "Worked on",
    "Assisted with",
    "Was involved in",
    "Participated in",
    "Tasked with",
    "In charge of",
    "Was part of the team",
    "Took part in",
    "Contributed to",
    "Was assigned to help with",
    "Played a part in",
    "Supported the team in",
    "Had the task of",
    "Duties included",
    "Was asked to assist in",
    "Involved in",
    "Gave a hand with",
    "Had responsibility for",
)
"""Heads that hide who did the work; a gerund follows."""

MODEST = ("Helped with", "Assisted with", "Supported the team in", "Contributed to", "Took part in")
"""Those of them that are true of somebody who helped."""

MARKERS = ("* ", "+ ")
_LONG_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_MONTH = re.compile(rf"\b({'|'.join(MONTHS)}) (\d{{4}})\b")
_VERBLESS = re.compile(r"(Responsible|Tasked|In charge|Involved) ")


def can_be_spoilt(deed: Deed, weakness: str) -> bool:
    """Whether this deed can carry the weakness and stay a sentence."""
    return deed.one_verb or (
        deed.has_metric if weakness == "no_metrics" else weakness != "weak_verbs"
    )


def weaken(
    story: Story, weakness: str, opener: str, record: str, shown: bool = False
) -> tuple[str, tuple[Fix, ...]]:
    """The bullet in the form that the weakness gives it, and the edits that repair it, in order.

    Args:
        story: the deed.
        weakness: vague_bullets, no_metrics, wrong_emphasis or weak_verbs.
        opener: a head for the gerund, one of `OPENERS`; empty where the deed allows none.
        record: a sentence that states the good form as a fact.
        shown: whether the resume gives the metric elsewhere. Where it does not, and where there
            is none, the bullet opens weakly, which an agent without the evidence can mend.
    """
    facts = (record,)
    if weakness == "vague_bullets":
        return story.vague, (Fix(story.vague, story.plain, facts),)
    if weakness == "wrong_emphasis":
        return story.buried, (Fix(story.buried, story.told, facts),)
    good = story.plain if weakness == "no_metrics" else story.told
    verb, rest = good.split(" ", 1)
    hidden = Fix(f"{opener} {story.gerund}", verb, facts)
    weak = f"{hidden.old} {rest}"
    if weakness == "weak_verbs" or not story.metric:
        return weak, (hidden,)
    measured = Fix(good, story.told, facts, needs_evidence=not shown)
    return (good, (measured,)) if shown or not opener else (weak, (hidden, measured))


def in_first_person(text: str) -> str:
    """A bullet as somebody writes it who says "I"."""
    was = "was " if _VERBLESS.match(text) else ""
    if text.startswith("Duties included"):
        return f"My d{text[1:]}"
    return f"I {was}{text[0].lower()}{text[1:]}" if text else ""


def disorder(text: str, bullets: int, rng: Random) -> tuple[str, list[Fix]]:
    """Break the formatting of some bullets, a heading and the dates of a job; no content.

    Bullets get other markers, final periods and double spaces; a heading becomes bold or upper
    case; months are written in another style.
    """
    lines = text.split("\n")
    headings = [i for i, line in enumerate(lines) if line.startswith("## ")]
    dated = [i for i, line in enumerate(lines) if _MONTH.search(line)]
    listed = [i for i, line in enumerate(lines) if line.startswith("- ")]
    broken = {i: _break_bullet(lines[i], n, rng) for n, i in enumerate(rng.sample(listed, bullets))}
    for i in rng.sample(headings, 1):
        title = lines[i].removeprefix("## ")
        broken[i] = rng.choice((f"**{title}**", title.upper()))
    for i in rng.sample(dated, 1):
        broken[i] = _redate(lines[i], rng)
    messy = "\n".join(broken.get(i, line) for i, line in enumerate(lines))
    return messy, [_narrow(broken[i], lines[i], messy) for i in sorted(broken)]


def deletion(passage: str) -> Fix:
    """The edit that removes whole lines; they are not the first of the text."""
    return Fix("\n" + passage, "")


def _break_bullet(line: str, turn: int, rng: Random) -> str:
    """The bullet with one or two defects, in turn."""
    content = line.removeprefix("- ")
    marker = "- " if turn % 4 == 1 else rng.choice(MARKERS)
    if turn % 4 == 2:
        content = _double_space(content, rng)
    return marker + content + ("." if turn % 4 in (1, 3) else "")


def _double_space(text: str, rng: Random) -> str:
    words = text.split(" ")
    cut = rng.randrange(1, len(words))
    return " ".join(words[:cut]) + "  " + " ".join(words[cut:])


def _redate(line: str, rng: Random) -> str:
    """The line with its months in another style, and "to" between them."""
    styles = (
        lambda hit: f"{MONTHS.index(hit[1]) + 1:02d}/{hit[2]}",
        lambda hit: f"{_LONG_MONTHS[MONTHS.index(hit[1])]} {hit[2]}",
        lambda hit: f"{hit[2]}-{MONTHS.index(hit[1]) + 1:02d}",
    )
    dash = rng.choice((" to ", " -- "))
    return _MONTH.sub(rng.choice(styles), line).replace(" - ", dash)


def _narrow(messy: str, clean: str, document: str) -> Fix:
    """The least edit of a line, in whole words, that is unique in the document.

    Two words stay on either side of the change, so that the place can be recognised.
    """
    before, after = messy.split(" "), clean.split(" ")
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    for context in (2, 4, len(before)):
        start, stop = max(0, head - context), max(0, tail - context)
        old = " ".join(before[start : len(before) - stop])
        if document.count(old) == 1:
            return Fix(old, " ".join(after[start : len(after) - stop]))
    return Fix(messy, clean)


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """How many words at the head of both are the same."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))
    return sum(1 for _ in pairs)
