"""Credit by edit: what each turn of an episode earns if an edit is paid for what it changes.

The worth of a document is the reward for content and layout of an episode that ends with it. An
edit earns by how much it changes the worth, as in potential-based reward shaping. This takes a
verdict on each draft, of which an episode has several, so the judge must not call a model.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from learners.rollouts.journal import Faults
from resume_gym.episode.document import Document
from resume_gym.episode.editing import AnySession, Ledger, State, measure
from resume_gym.episode.rewards import LAYOUT, TOOL_TERMS
from resume_gym.evaluation import grade
from resume_gym.judges import Judge

_KNOWN = 20_000  # number of texts whose terms are kept


class Drafts:
    """Grader of drafts, which grades each text of a task once.

    Args:
        judge: the judge of the final documents.
        timeout_s: time limit for a verdict in seconds, including retries; see `grade`.
        threads: executor that runs the judge.
        faults: log that reports failures of the judge to the journal.
    """

    def __init__(self, judge: Judge, timeout_s: float, threads: Executor, faults: Faults) -> None:
        self._judge, self._limits, self._faults = judge, (timeout_s, threads), faults
        # members of a group often write the same draft, even at the same time
        self._known: dict[tuple[str, str], asyncio.Future[Ledger | None]] = {}

    async def earned(self, session: AnySession) -> list[Ledger]:
        """Return what each turn of a graded session earned; see the function `earned`."""
        documents = drafts(session)
        new = {one.text: one for one in documents}
        for text in (session.original, session.text):
            new.pop(text, None)
        terms = await asyncio.gather(*(self._terms(session, one) for one in new.values()))
        pairs = zip(new, terms, strict=True)
        return earned(session, documents, {text: one for text, one in pairs if one is not None})

    async def _terms(self, session: AnySession, draft: Document) -> Ledger | None:
        key = session.task.task_id, draft.text
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = asyncio.ensure_future(self._grade(session, draft))
        # shielded, since other episodes may wait for the same verdict
        if (found := await asyncio.shield(self._known[key])) is None:
            self._known.pop(key, None)  # the judge may succeed the next time
        return found

    async def _grade(self, session: AnySession, draft: Document) -> Ledger | None:
        """Return the verdict's terms for a draft; None if the judge fails."""
        twin = session.fork()
        twin.restore(State(draft, done=True))
        (error,) = await grade([twin], self._judge, *self._limits)
        if error is not None:
            self._faults.report(f"A draft of {session.task.task_id} has no verdict", error)
            return None
        return twin.grade(twin.verdict)  # the session's method, which returns the terms


def drafts(session: AnySession) -> list[Document]:
    """Return the original document and the document after each turn [turns + 1], by a replay."""
    twin = type(session)(session.task, session.rules)
    documents = [twin.state.document]
    for text, _ in session.state.transcript:
        twin.step(text)
        documents.append(twin.state.document)
    return documents


def earned(
    session: AnySession, documents: Sequence[Document], graded: Mapping[str, Ledger]
) -> list[Ledger]:
    """Return what each turn of a finished, graded session earned, by reward term.

    A turn earns the rewards of its tool call and, if it changes the document, the change of each
    term for content and layout. The terms of all turns sum to the reward of the episode minus the
    worth of the original document. A turn that changes no text, such as `submit`, earns only tool
    rewards, whereas the session's own ledger adds the terms of the final document to the last turn.

    Args:
        session: the session.
        documents: documents from `drafts`.
        graded: the verdict's reward terms for the drafts, by text; the terms of the original and
            of the final document are known without it. If a draft is missing, because the judge
            failed, its content counts as that of the draft before.
    """
    original, final = session.original, session.text
    untouched = {**dict.fromkeys(session.weights, 0.0), **session.unchanged()}
    last = session.ledgers[-1]
    known = {**graded, final: {name: last[name] for name in session.weights}, original: untouched}
    turns: list[Ledger] = []
    worth = start = {**untouched, "layout": _layout(session, documents[0])}
    for document, (_, step) in zip(documents[1:], session.state.transcript, strict=True):
        content = known.get(document.text, worth)
        after = {**worth, **content, "layout": _layout(session, document)}
        changes = {name: after[name] - worth[name] for name in after if after[name] != worth[name]}
        tools = {name: value for name, value in step.ledger.items() if name in TOOL_TERMS}
        turns.append({**tools, **changes})
        worth = after
    total = sum(value for turn in turns for value in turn.values())
    assert math.isclose(total, session.reward - sum(start.values()), abs_tol=1e-6), (
        f"{session.task.task_id}: the turns earned {total}, the episode {session.reward}"
    )
    return turns


def _layout(session: AnySession, document: Document) -> float:
    """Return the reward for the layout of an episode that ends with this document."""
    rules = session.rules
    if rules.layout_reward == "binary":
        return LAYOUT if document.lines <= rules.page_lines else -LAYOUT
    potential = rules.layout_potential
    return potential(document) - potential(measure(session.original, rules.page_width))


def changes(turns: Sequence[Ledger]) -> list[float]:
    """Return by how much each successful edit of an episode changed the worth of its document."""
    return [
        sum(value for name, value in turn.items() if name not in TOOL_TERMS)
        for turn in turns
        if "edit" in turn
    ]


def measures(episodes: Sequence[Sequence[Ledger]]) -> dict[str, float]:
    """Return measures of what the edits of a step's episodes earned.

    Returns:
        edit_change: mean change of a document's worth by a successful edit.
        edits_better: share of the successful edits that raised the worth.
        edits_worse: share of the successful edits that lowered it.
    """
    found = [change for turns in episodes for change in changes(turns)]
    if not found:
        return {}
    return {
        "edit_change": sum(found) / len(found),
        "edits_better": sum(one > 0 for one in found) / len(found),
        "edits_worse": sum(one < 0 for one in found) / len(found),
    }
