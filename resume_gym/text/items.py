"""Grade the rubric items of a task, most of them by rules.

An item of negative weight holds if the revision contains the item and the original does not. An
item of positive weight also needs support: a skill or a figure must be stated by the evidence or a
fact, and the heading of a section must have a true line below it that is new or was moved there. If
the revision has an unsupported claim, no item of positive weight holds. A "judged" item of positive
weight also fails if its words were copied into the resume.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from rapidfuzz import fuzz
from rapidfuzz.distance import LCSseq

from resume_gym.episode.rewards import Verdict
from resume_gym.episode.tasks import Item, Task
from resume_gym.text.alignment import align
from resume_gym.text.lines import GLUE, Content, Line, parse, plain, read
from resume_gym.text.reference import Reference, make_reference
from resume_gym.text.thresholds import FEW, SEVERAL

_MOST = 600  # maximum number of lines of a revision, as for the rubric judge
_SAME = 80.0  # similarity in percent above which a line counts as a copy of another line


def grade_items(task: Task, revised: str, verdict: Verdict) -> Verdict:
    """Return `verdict`, the verdict on the resume `revised`, with the grades of all rubric items.

    Raises:
        ValueError: The grade of a judged item is missing, or has the wrong sign.
    """
    items: dict[str, int] = {}
    reasons = dict(verdict.reasons)
    for item in task.rubric:
        if item.kind == "judged":
            grade, reason = _judged(item, task, revised, verdict)
        else:
            grade, reason = _by_rule(item, task, revised)
        if grade > 0 and verdict.hallucination < 0:
            grade, reason = 0, "An unsupported claim in the resume cancels all positive items."
        items[item.text] = grade
        reasons |= {item.text: reason} if reason else {}
    return replace(verdict, items=items, reasons=reasons)


def _judged(item: Item, task: Task, revised: str, verdict: Verdict) -> tuple[int, str]:
    grade, met = verdict.items.get(item.text), 1 if item.weight > 0 else -1
    if grade not in (0, met):
        raise ValueError(f"items: {item.text!r}: expected 0 or {met:+} from the judge, got {grade}")
    words = read(plain(item.text)).words
    pasted = len(words) > FEW and _has(revised, words) and not _has(task.resume, words)
    if pasted and grade > 0:
        return 0, "The resume repeats the words of the item."
    return grade, verdict.reasons.get(item.text, "")


def _has(text: str, words: Sequence[str]) -> bool:
    """Return whether the words occur consecutively in a text, whatever its punctuation."""
    found = " ".join([word for line in parse(text) for word in line.content.words])
    return f" {' '.join(words)} " in f" {found} "


def _by_rule(item: Item, task: Task, revised: str) -> tuple[int, str]:
    reference, lines = make_reference(task), parse(revised)
    if _places(item, reference.lines):
        return 0, "The original already has it."
    if not (places := _places(item, lines)):
        return 0, "The revision does not have it."
    if item.weight < 0:
        return -1, f'"{places[0].body[:60]}" has it.'
    # if some passages mention the candidate, use only those: the rest may be about other people
    candidate = {*read(plain(reference.name)).words, "i", "my"}
    mine = [one for one in reference.evidence if not candidate.isdisjoint(one.words)]
    true = [*(mine or reference.evidence), *(read(plain(fact)) for fact in task.facts)]
    if item.kind == "skill":
        earned = any(_name(item.text).search(one.body.casefold()) for one in true)
    elif item.kind == "figure":
        known = [one for one in true if _states(one, item)]
        own = read(plain(item.text)).stems  # the figure alone does not identify an achievement
        earned = any(
            reference.tells(line.content, one)
            and len((line.content.stems & one.stems) - own) >= SEVERAL
            for line in places
            for one in known
        )
    else:
        earned = any(_is_filled(lines, lines.index(place), reference) for place in places)
    if not earned:
        return 0, "It has no new true line." if item.kind == "section" else "Nothing supports it."
    return 1, f'"{places[0].body[:60]}" has it.'


def _places(item: Item, lines: Sequence[Line]) -> list[Line]:
    """Return the lines that contain an item: its figures, its skill, or its heading."""
    if item.kind == "figure":
        return [line for line in lines if _states(line.content, item)]
    if item.kind == "skill":
        return [line for line in lines if _name(item.text).search(line.body.casefold())]
    heads, title = ("heading", "entry"), plain(item.text).casefold()
    return [x for x in lines if x.kind in heads and x.body.casefold().rstrip(" :") == title]


def _states(content: Content, item: Item) -> bool:
    """Return whether a line states all figures of an item."""
    wanted = read(plain(item.text)).numbers
    return all(any(number.backs(one) for number in content.numbers) for one in wanted)


def _name(text: str) -> re.Pattern[str]:
    """Compile a pattern for a name in a case-folded line; "C" does not match "C++"."""
    name = re.escape(plain(text).casefold())
    return re.compile(rf"(?<![\w&+#])(?<!\w[.-]){name}(?![\w+#]|[&.-]\w)")


def _is_filled(lines: Sequence[Line], head: int, reference: Reference) -> bool:
    """Return whether a heading has a new or moved line with true content below it."""
    if len(lines) > _MOST:
        return False
    units = [told[0] if told else -1 for told in align(lines, reference)]
    # a line that is not in the longest common subsequence with the original is new or was moved
    edits = LCSseq.editops(range(len(reference.lines)), units)
    put = {edit.dest_pos for edit in edits if edit.tag == "insert"}
    for place in range(head + 1, len(lines)):
        if lines[place].kind == "heading":
            return False
        words, body = set(lines[place].content.words) - GLUE, lines[place].body
        if place in put and sum(map(reference.knows, words)) >= FEW:
            others = (line.body for line in lines if line is not lines[place])
            if not any(fuzz.ratio(body, other) > _SAME for other in others):
                return True
    return False
