"""The apprentice: an editor that carries out every kind of edit cleanly and has no taste.

A policy that imitates the apprentice can edit, but does not know which edits are worth making; the
reward has to teach it that. Half of the apprentice's edits repair weaknesses of the page: they are
fixes of the task, or edits of the scripted agent `careful`. The other half is put in on purpose,
since a small model does not bring bad edits along: another function word, another word of a small
table, a good line deleted, a line cut short, and an invented figure or tool. Kinds and lines are
drawn at random, but the edits go from top to bottom and touch each line once. Reviews and submits
come at random times. Figures of repairs are only copied from search results.

`hinted` returns a hint about the page and the call that follows it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from learners.demonstrations import demonstrations, renamed, shortened, shorter
from learners.rollouts.tokens import ChatTokens
from learners.training.models import load_tokenizer
from learners.training.rows import Sample
from resume_gym import Fix, Rules, Session, Task, ToolCall, tool_call
from resume_gym.agents.careful import line_edits
from resume_gym.agents.edit_kinds import (
    INVENTED_TOOLS,
    INVENTIONS,
    SWAPS,
    SYNONYMS,
    figures,
    invention,
    is_in_order,
    kind_of,
)
from resume_gym.episode import hints
from resume_gym.episode.evidence import EvidenceSession
from resume_gym.episode.feedback import FeedbackSession
from resume_gym.judges.critique import Defect, defects
from resume_gym.synthesis.procedural import generate_task

REPAIRS = 0.55
"""Probability of a repair; about half of all edits are repairs, since some pages allow none."""
_FIRST_REVIEW, _LATER_REVIEW = 0.7, 0.04
_EARLY_SUBMIT, _LAST_SUBMIT, _IDLE_SUBMIT = 0.04, 0.5, 0.5
_SEARCH, _FEEDBACK = 0.5, 0.3
_FOLLOWED = 0.85  # probability that the reply to a search or to feedback is used
_FOREIGN = 0.1  # share of hints that quote a line of another page
_DELETED = 75  # maximum length of a deleted line; models garble longer quotations
_QUOTED = 160  # maximum length of any other quotation
_WEIGHTS = {"swap": 1.0, "synonym": 1.0, "delete": 0.8, "cut": 1.3, "invent": 1.0}
_BULLET = re.compile(r"[-*+\u2022] +(?=\S)")
_DIFF = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


class Edit(NamedTuple):
    """An edit that the page allows.

    Attributes:
        kind: kind of the edit; see `edit_kinds.kind_of`.
        line: index of its first line on the page.
        old: text to replace, which occurs once on the page.
        new: text that replaces it.
    """

    kind: str
    line: int
    old: str
    new: str

    @property
    def call(self) -> str:
        """The tool call that makes the edit."""
        return tool_call("str_replace", old=self.old, new=self.new)


def act(session: Session, rng: Random) -> str:
    """Return the next action of the apprentice."""
    left = session.rules.max_turns - session.turns
    if session.turns == 0 and rng.random() < _FIRST_REVIEW:
        return tool_call("review")
    if rng.random() < (_LAST_SUBMIT if left == 1 else _EARLY_SUBMIT):
        return tool_call("submit")
    if rng.random() < _LATER_REVIEW:
        return tool_call("review")
    if call := _with_tools(session, rng):
        return call
    if edit := choose(session, rng):
        return edit.call
    return tool_call("submit" if rng.random() < _IDLE_SUBMIT else "review")


# Edits


def choose(
    session: Session, rng: Random, repairs: float = REPAIRS, barred: Iterable[int] = ()
) -> Edit | None:
    """Draw an edit below the last one.

    Args:
        session: running session.
        rng: random generator.
        repairs: probability of a repair; with 1, no other edit is made.
        barred: indices of lines that must not be edited.

    Returns:
        The edit, or None if no line is left.
    """
    resume, task = session.resume, session.task
    first, barred = _below(session), set(barred)
    lines = [n for n in range(first, resume.count("\n") + 1) if n not in barred]
    most = max(1, session.rules.max_turns - session.turns - 1)
    found = {
        kind: [one for one in many if one.line in lines]
        for kind, many in _repairs(resume, task).items()
    }
    useful = [kind for kind, many in found.items() if many]
    if useful and rng.random() < repairs:
        return _topmost(found[rng.choice(useful)], most, rng)
    if repairs == 1:
        return None
    kinds = list(_WEIGHTS)
    while kinds:
        kind = rng.choices(kinds, [_WEIGHTS[one] for one in kinds])[0]
        if edits := list(_others(kind, resume, task, lines, rng)):
            return _topmost(edits, most, rng)
        kinds.remove(kind)
    return _topmost(found[rng.choice(useful)], most, rng) if useful else None


def _topmost(edits: Sequence[Edit], most: int, rng: Random) -> Edit:
    """Return the topmost of up to `most` random edits, so that others can follow below."""
    drawn = rng.sample(edits, min(len(edits), rng.randint(max(1, most - 1), most)))
    return min(drawn, key=lambda one: one.line)


def _below(session: Session) -> int:
    """Return the index of the first line below the last successful edit."""
    for _, step in reversed(session.state.transcript):
        if found := _DIFF.match(step.observation):
            first, lines = int(found[1]), int(found[2] or 1)  # of no lines, the line above is named
            return first + max(0, lines - 1)
    return 0


def _clean(resume: str, old: str, new: str, task: Task) -> Edit | None:
    """Return an edit with a short quotation, or None if a policy could not learn to make it."""
    quote, instead = shortened(resume, old, new)
    longest = _QUOTED if instead else _DELETED
    if resume.count(quote) != 1 or not quote.strip() or len(quote.lstrip("\n")) > longest:
        return None
    above = resume[: resume.index(quote)] + quote[: len(quote) - len(quote.lstrip("\n"))]
    return Edit(kind_of(resume, quote, instead, task), above.count("\n"), quote, instead)


def _repairs(resume: str, task: Task) -> dict[str, list[Edit]]:
    """Return the repairs that a page allows, by kind, without those that need a document."""
    found: dict[str, list[Edit]] = {}
    for edit in _repairs_of(resume, task.job, task.fixes):
        found.setdefault(edit.kind, []).append(edit)
    return found


@lru_cache(maxsize=64)
def _repairs_of(resume: str, job: str, fixes: tuple[Fix, ...]) -> tuple[Edit, ...]:
    task = Task("page", job, resume, "weak_verbs", fixes=fixes)
    ready = [
        (fix.old, fix.new)
        for fix in fixes
        # A fix that only extends `old` leaves `old` on the page.
        if not fix.needs_evidence
        and resume.count(fix.old) == 1
        and not (fix.new and fix.new in resume)
    ]
    edits = dict.fromkeys(
        edit
        for old, new in (*ready, *line_edits(resume, job))
        for part in _parts(resume, old, new)
        if (edit := _clean(resume, old, part, task))
        # small models garble sentences that they rearrange, and invent figures that they move
        and (
            edit.kind in ("format", "padding")
            or (
                edit.kind in ("verb", "trim")
                and is_in_order(old, new)
                and figures(new) <= figures(old)
            )
        )
    )
    return tuple(edits)


def _parts(resume: str, old: str, new: str) -> Iterator[str]:
    """Yield `new`, or the changed marker and the changed ending of a line, each by itself.

    Otherwise, an edit of both ends would quote the whole line.
    """
    marker, other = _BULLET.match(old), _BULLET.match(new)
    if "\n" in old or not marker or not other or kind_of(old, old, new) != "format":
        yield new
        return
    body, body_now = old[marker.end() :], new[other.end() :]
    if marker[0] != other[0]:
        yield other[0] + body
    if body != body_now:
        yield marker[0] + body_now


def _others(
    kind: str, resume: str, task: Task, lines: Sequence[int], rng: Random
) -> Iterator[Edit]:
    """Yield a useless or harmful edit of this kind for each of these lines that allows one."""
    page = resume.split("\n")
    for number in lines:
        line = page[number]
        if not (marker := _BULLET.match(line)):
            continue
        made = _MAKERS[kind](line[marker.end() :], rng) if kind != "delete" else None
        if kind == "delete":
            edit = _clean(resume, f"\n{line}", "", task) if number else None
        else:
            edit = _clean(resume, line, marker[0] + made, task) if made else None
        if edit and edit.kind == kind:
            yield edit


def _swapped(body: str, rng: Random) -> str:
    pairs = [(old, new) for old, new in SWAPS if f" {old} " in body]
    if not pairs:
        return ""
    old, new = rng.choice(pairs)
    return body.replace(f" {old} ", f" {new} ", 1)


def _renamed(body: str, rng: Random) -> str:
    words = body.split(" ")
    places = [n for n, word in enumerate(words) if word.lower() in SYNONYMS]
    if not places:
        return ""
    place = rng.choice(places)
    other = SYNONYMS[words[place].lower()]
    words[place] = other.capitalize() if words[place][0].isupper() else other
    return " ".join(words)


def _cut(body: str, rng: Random) -> str:
    words = body.split(" ")
    most = min(6, len(words) - 4)
    return " ".join(words[: -rng.randint(2, most)]).rstrip(",;") if most >= 2 else ""


def _invented(body: str, rng: Random) -> str:
    bare = body.rstrip(".")
    ending = rng.choice(INVENTIONS).format(n=rng.randint(2, 99), tool=rng.choice(INVENTED_TOOLS))
    return bare + ending + body[len(bare) :] if bare[-1:].isalpha() else ""


_MAKERS: dict[str, Callable[[str, Random], str]] = {
    "swap": _swapped,
    "synonym": _renamed,
    "cut": _cut,
    "invent": _invented,
}


# Tools


def _with_tools(session: Session, rng: Random) -> str | None:
    """Return a search, a request for feedback, or an edit that uses their reply; or None."""
    tools = {tool["function"]["name"] for tool in session.tools}
    last = _last_call(session)
    if last and last.name in ("search", "feedback") and rng.random() < _FOLLOWED:
        edit = _with_figure(session) if last.name == "search" else _remarked(session, rng)
        if edit:
            return edit.call
    if session.rules.max_turns - session.turns < 3 or (last and last.name == "feedback"):
        return None
    if "search" in tools and rng.random() < _SEARCH and (query := _query(session, rng)):
        return tool_call("search", query=query)
    if "feedback" in tools and rng.random() < _FEEDBACK:
        return tool_call("feedback")
    return None


def _last_call(session: Session) -> ToolCall | None:
    """Return the last call, if there is one and it did not fail."""
    if not session.state.transcript:
        return None
    text, step = session.state.transcript[-1]
    call = session.toolbox.read(text)
    return call if isinstance(call, ToolCall) and step.error == "none" else None


def _query(session: Session, rng: Random) -> str:
    """Return some words of a line below the last edit, mostly of one that lacks a figure."""
    resume, first = session.resume, _below(session)
    calls = [session.toolbox.read(text) for text, _ in session.state.transcript]
    asked = [
        one.arguments["query"]
        for one in calls
        if isinstance(one, ToolCall) and "query" in one.arguments
    ]
    page = resume.split("\n")
    lacking = [
        line
        for fix in session.task.fixes
        if fix.needs_evidence
        for line in page[first:]
        if fix.old in line
    ]
    plain = [line for line in page[first:] if _BULLET.match(line) and not figures(line)]
    lines = lacking if lacking and rng.random() < _FOLLOWED else plain
    lines = [line for line in lines if not any(query in line for query in asked)]
    if not lines:
        return ""
    words = _BULLET.sub("", rng.choice(lines)).rstrip(".").split(" ")
    length = min(len(words), rng.randint(3, 6))
    start = rng.randint(0, len(words) - length)
    return " " + " ".join(words[start : start + length])


def _with_figure(session: Session) -> Edit | None:
    """Return an edit that adds a figure of the last search's reply to the line it was about."""
    text, step = session.state.transcript[-1]
    call = session.toolbox.read(text)
    query = call.arguments["query"] if isinstance(call, ToolCall) else ""
    resume, page = session.resume, session.resume.split("\n")
    for fix in session.task.fixes:
        added = figures(fix.new) - figures(fix.old)
        if fix.needs_evidence and resume.count(fix.old) == 1 and added <= figures(step.observation):
            edit = _clean(resume, fix.old, fix.new, session.task)
            if (
                edit
                and edit.kind == "figure"
                and edit.line >= _below(session)
                and query in page[edit.line]
            ):
                return edit
    return None


def _remarked(session: Session, rng: Random) -> Edit | None:
    """Return a repair of a line that the last feedback quotes."""
    reply = session.state.transcript[-1][1].observation
    quotes = [one.removesuffix("...") for one in re.findall(r'"([^"]+)"', reply)]
    page = session.resume.split("\n")
    quoted = [n for n, line in enumerate(page) if any(one in line for one in quotes)]
    return choose(session, rng, repairs=1, barred=set(range(len(page))) - set(quoted))


# Hints


class HintedCall(NamedTuple):
    """A hint at the end of an observation, and the call that follows it."""

    hint: str
    call: str


def hinted(session: Session, rng: Random, intended: str = "") -> HintedCall | None:
    """Return a hint about the page as it is, and a call that follows it; None if none fits.

    One hint in ten quotes a line of another page; the call that follows ignores it.

    Args:
        session: running session.
        rng: random generator.
        intended: what the last call, which failed, was meant to be; empty if it did not fail.
    """
    form = rng.randrange(1 << 16)
    if rng.random() < _FOREIGN:
        line = rng.choice(_foreign_lines())
        if line in session.resume:
            return None
        defect = Defect(rng.choice(hints.WEAK_KINDS), line)
        ending = " ".join(line.split(" ")[-3:])
        hint = rng.choice(
            (
                hints.good_line(line, form),
                hints.weak_line(defect, form),
                hints.unsupported(line, ending, form),
            )
        )
        return HintedCall(hint, act(session, rng))
    if intended and rng.random() < _FOLLOWED:
        text, step = session.state.transcript[-1]
        quote = re.search(r'"old": "((?:[^"\\]|\\.)*)', text)
        old = quote[1].replace("\\n", "\n") if quote else ""
        return HintedCall(hints.failed_call(step.error, session.resume, old, form), intended)
    for make in rng.sample(_HINTS, len(_HINTS)):
        if found := make(session, rng, form):
            return found
    return None


def _about_good_line(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint that a line is good; the edit that follows leaves it alone."""
    page, first = session.resume.split("\n"), _below(session)
    repairs = _repairs(session.resume, session.task)
    weak = {one.line for many in repairs.values() for one in many}
    good = [n for n in range(first, len(page)) if _BULLET.match(page[n]) and n not in weak]
    if not good:
        return None
    number = rng.choice(good)
    edit = choose(session, rng, barred=[number])
    return HintedCall(hints.good_line(page[number], form), edit.call) if edit else None


def _about_claim(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint that an invention has no support; the edit that follows takes it back."""
    page, before = session.resume.split("\n"), session.original.split("\n")
    invented = [n for n, line in enumerate(page) if invention(line) and line not in before]
    if not invented:
        return None
    line = page[rng.choice(invented)]
    claim = invention(line)
    edit = _clean(session.resume, line, line.replace(claim, ""), session.task)
    return HintedCall(hints.unsupported(line, claim, form), edit.call) if edit else None


def _about_weak_line(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint at a line that is still weak, above or below the last edit; a repair of it follows."""
    page, repairs = session.resume.split("\n"), _repairs(session.resume, session.task)
    edits = [one for many in repairs.values() for one in many]
    seen = [one for one in defects(session.task, session.resume) if one.kind in hints.WEAK_KINDS]
    pairs = [(one, edit) for one in seen for edit in edits if page[edit.line] == one.line]
    if not pairs:
        return None
    defect, edit = rng.choice(pairs)
    return HintedCall(hints.weak_line(defect, form), edit.call)


def _about_faults_left(session: Session, rng: Random, form: int) -> HintedCall | None:
    """Hint that faults are left; a repair follows, not a submit."""
    edit = choose(session, rng, repairs=1)
    return HintedCall(hints.faults_left(form), edit.call) if edit else None


_HINTS = (_about_good_line, _about_claim, _about_weak_line, _about_faults_left)


@lru_cache(maxsize=1)
def _foreign_lines() -> list[str]:
    """Return the list items of 100 generated pages."""
    pages = (generate_task(0, number, "train", "mini").resume for number in range(100))
    return [line for page in pages for line in page.split("\n") if _BULLET.match(line)]


# Sessions


def episodes(
    numbers: Iterable[int],
    seed: int,
    size: str,
    rules: Rules,
    short: bool,
    model: str,
    each: int,
    replies: float,
) -> Iterator[list[Sample]]:
    """Yield the training samples of an episode on each generated task.

    Args:
        numbers: numbers of the tasks.
        seed: seed of the tasks and of the apprentice.
        size: size of the pages; one in `_LARGE` mini pages is replaced by a full one, since a model
            that never saw a token beyond the length of mini episodes cannot play full-size pages.
        rules: limits of an episode on a page of this size.
        short: whether lines that no fix needs are left out.
        model: model or folder whose tokenizer is used.
        each: number of actions that are drawn in each state.
        replies: weight of the tokens of replies; see `demonstrations`.
    """
    tokenizer = load_tokenizer(model)
    for number in numbers:
        large = size == "mini" and number % _LARGE == 0 and not short
        task = generate_task(seed, number, "train", "full" if large else size)
        task = renamed(task, Random(f"{seed}:{task.task_id}"))
        if short:
            task = shorter(task, Random(f"{seed}:{task.task_id}"))
        yield from samples(tokenizer, task, Rules() if large else rules, each, replies, f"{seed}")


def samples(
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    rules: Rules,
    each: int,
    replies: float,
    seed: str,
) -> Iterator[list[Sample]]:
    """Yield the training samples of the apprentice's turns in one episode on a task."""
    session = session_for(task, rules, Random(f"{seed}:{task.task_id}"))
    chat = _chat(tokenizer, type(session))
    yield from demonstrations(chat, [session], act, each, f"{seed}:{task.task_id}", replies, hinted)


@lru_cache(maxsize=8)
def _chat(tokenizer: PreTrainedTokenizerBase, kind: type[Session]) -> ChatTokens:
    return ChatTokens(tokenizer, kind.toolbox.schemas)


def session_for(task: Task, rules: Rules, rng: Random) -> Session:
    """Return a session on a task: mostly a plain one, sometimes one with search or feedback.

    Most pages that lack figures are given a search. Lines that also need another repair before
    their figure can be added have it already on half of these pages.
    """
    lacks = any(fix.needs_evidence for fix in task.fixes)
    if task.evidence and rng.random() < (_EVIDENCE_LACKING if lacks else _EVIDENCE):
        return EvidenceSession(_worded(task) if rng.random() < 0.7 else task, rules)
    return (FeedbackSession if rng.random() < _WITH_FEEDBACK else Session)(task, rules)


_EVIDENCE_LACKING, _EVIDENCE, _WITH_FEEDBACK = 0.6, 0.06, 0.08
_LARGE = 20


def _worded(task: Task) -> Task:
    """Return a task whose lines that lack a figure have been reworded already."""
    plain = {fix.old for fix in task.fixes if fix.needs_evidence}
    done = [fix for fix in task.fixes if fix.new in plain and task.resume.count(fix.old) == 1]
    resume = task.resume
    for fix in done:
        resume = resume.replace(fix.old, fix.new)
    return replace(task, resume=resume, fixes=tuple(fix for fix in task.fixes if fix not in done))
