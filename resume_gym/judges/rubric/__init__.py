"""Rule-based judge, which is deterministic, works offline and takes a few milliseconds per verdict.

`signals` classifies every change of a line as better, the same or worse. A rewritten line can be
better only if a true statement supports it (`licences`). An unsupported change earns nothing, but
`hallucination` is -1 only for a contradiction or a clearly new claim (`claims`). The judge cannot
tell free paraphrases from false claims in ordinary words, and does not judge irony or taste.
`resume_gym.judges.audit` measures the judge's accuracy.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from resume_gym.episode.rewards import GRADED_FIELDS, LineVerdict, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import JudgeRefused
from resume_gym.judges.rubric.accusations import cut
from resume_gym.judges.rubric.claims import UnsupportedClaim
from resume_gym.judges.rubric.signals import Signals, excess, measure, measure_lines
from resume_gym.judges.vetoes import Veto, find_veto, rejected, veto
from resume_gym.text.reference import Reference, make_reference
from resume_gym.text.thresholds import SEVERAL, STEP

UNSUPPORTED = "a claim without support"
"""Rule that is reported for a change whose only harm is an unsupported claim."""

_ASPECTS = GRADED_FIELDS[:-1]


def _grade(change: float) -> int:
    """Return the sign of a change, or 0 if the magnitude of the change is below 1."""
    return (change >= 1) - (change <= -1)


class RubricJudge:
    """Rule-based judge that uses the word lists of `lexicon.toml`.

    Args:
        fixes: whether the judge may use the task's fixes and their facts. If not, only the evidence
            and other lines of the resume can support an improvement.

    Raises:
        ValueError: `fixes` is not a boolean.
    """

    name = "rubric"

    def __init__(self, fixes: bool = True) -> None:
        if not isinstance(fixes, bool):
            raise ValueError(f"judge 'rubric': fixes: expected true or false, got {fixes!r}")
        self._fixes = fixes
        if not fixes:
            self.name = "rubric without fixes"

    def judge(self, task: Task, revised: str) -> Verdict:
        """Return the verdict on a revised resume; see `Judge`.

        Raises:
            JudgeRefused: the task has rubric items that need a model, or the original is too long.
        """
        task = self._known(task)
        if task.judged:
            raise JudgeRefused(f"the item {task.judged[0].text[:60]!r} needs a model judge")
        if revised != task.resume and (settled := veto(task, revised)):
            return settled
        reference = make_reference(task)
        before = _measured(reference, task.resume)
        if over := excess(revised):  # not a refusal, which would drop the episode
            return rejected(task, Veto("padding", f"The resume exceeds the limit of {over}."))
        after = measure(revised, reference)
        changes = _compare(before, after)
        grades: dict[str, Any] = {field: _grade(changes[field]) for field in GRADED_FIELDS}
        reasons = {field: _reason(field, grades[field], after) for field in GRADED_FIELDS}
        reasons["hallucination"], sure = _support(after.findings)
        confidence = {field: _confidence(changes[field]) for field in GRADED_FIELDS}
        return Verdict(
            hallucination=-1 if after.findings else 1,
            **grades,
            reasons=reasons,
            confidence={**confidence, "hallucination": sure},
        )

    def judge_lines(self, task: Task, revised: str) -> LineVerdict:
        """Count the improved, harmless and worse lines of a revised resume; see `LineVerdict`."""
        task = self._known(task)
        rejection = find_veto(task, revised)
        if rejection and rejection.kind == "unchanged":  # markup and blank lines may differ
            rejection = None
        if not rejection and (over := excess(revised)):
            rejection = Veto("padding", f"The resume exceeds the limit of {over}.")
        if rejection:
            return LineVerdict(rejected=-1, reasons={"rejected": rejection.reason})
        signals = measure_lines(revised, make_reference(task))
        outcomes = [change.outcome for change in signals.changes]
        better, same, worse = (outcomes.count(outcome) for outcome in (1, 0, -1))
        reasons = {
            name: _line_reason(signals, outcome)
            for name, outcome, count in (
                ("improved", 1, better), ("harmless", 0, same), ("worse", -1, worse)
            )
            if count
        }  # fmt: skip
        return LineVerdict(better, -same, -worse, 0, reasons)

    async def compare(self, task: Task, first: str, second: str, draw: int = 0) -> int:
        """Return 1 if the second text is better, -1 if the first is, else 0; see `Pairwise`."""
        grades = await asyncio.to_thread(compare, self._known(task), first, second)
        return grades["preference"]

    async def places(self, task: Task, texts: Sequence[str], draw: int = 0) -> list[int]:
        """Return the place of each text, 1 for the best; see `Listwise`.

        Texts are ordered by preference grade, then by number of better lines minus worse lines.
        """
        reference = make_reference(self._known(task))
        standings = await asyncio.to_thread(lambda: [_standing(reference, one) for one in texts])
        order = sorted(set(standings), reverse=True)
        return [order.index(one) + 1 for one in standings]

    def _known(self, task: Task) -> Task:
        # this removes the facts, too, since they are fields of fixes
        return task if self._fixes else replace(task, fixes=())


def compare(task: Task, first: str, second: str) -> dict[str, int]:
    """Grade each field of the second text against the first: -1, 0 or 1.

    Both texts are measured against the task's original. Exchanging the texts flips every sign.
    """
    reference = make_reference(task)
    changes = _compare(_measured(reference, first), _measured(reference, second))
    return {field: _grade(change) for field, change in changes.items()}


# the same texts recur: originals, and the revisions that pairwise rankings compare
@lru_cache(maxsize=1024)
def _measured(reference: Reference, text: str) -> Signals:
    return measure(text, reference)


def _standing(reference: Reference, text: str) -> tuple[int, int]:
    """Return (preference grade, better minus worse lines) of a text; (-2, 0) if it is too long."""
    if excess(text):
        return -2, 0
    signals = _measured(reference, text)
    better, worse = _better_and_worse(signals)
    return _grade(preference(signals)), better - worse


def _compare(before: Signals, after: Signals) -> dict[str, float]:
    """Return by how much each graded field changes; `_grade` turns each change into a grade."""
    old, new = _totals(before), _totals(after)
    changes = {field: new[field] - old[field] for field in _ASPECTS}
    return {**changes, "preference": preference(after) - preference(before)}


def _totals(signals: Signals) -> Mapping[str, float]:
    """Return, for each field but preference, the number of improving minus worsening changes.

    If there are more than `SEVERAL` needless changes per better change, positive totals become 0.
    """
    totals = {
        field: float(sum((field in c.gains) - (field in c.harms) for c in signals.changes))
        for field in _ASPECTS
    }
    # Without this limit, random edits would be rewarded for improvements made by chance.
    better = sum(change.outcome > 0 for change in signals.changes)
    if signals.needless > better * SEVERAL:
        totals = {field: min(0.0, total) for field, total in totals.items()}
    return totals


def preference(signals: Signals) -> float:
    """Score a recruiter's preference for a text over the original.

    The score is at least 1 if no change is worse and more than half of the changes are better. It
    is at most -1 if at least one change is worse and at least as many changes are worse as are
    better. An unsupported claim counts as a worse change if there is no other worse change.
    """
    better, worse = _better_and_worse(signals)
    if better and not worse and 2 * better > len(signals.changes):
        return 1 + STEP * (better - 1)
    if worse and worse >= better:
        return -1 - STEP * (worse - better)
    # absolute value below 1: this score affects only the confidence
    return 0.1 * max(-5, min(5, better - worse))


def _better_and_worse(signals: Signals) -> tuple[int, int]:
    outcomes = [change.outcome for change in signals.changes]
    worse = outcomes.count(-1)
    return outcomes.count(1), worse + (bool(signals.findings) and not worse)


def _confidence(change: float) -> float:
    """Return a confidence that grows with the distance of `abs(change)` from the threshold 1."""
    size = abs(change)
    return round(0.5 + 0.45 * (1 - size if size < 1 else 1 - 1 / (1 + size)), 3)


def _support(findings: tuple[UnsupportedClaim, ...]) -> tuple[str, float]:
    if not findings:
        return "Nothing contradicts the original or the evidence.", 0.85
    worst = max(findings, key=lambda finding: finding.confidence)
    more = f" (More unsupported claims: {len(findings) - 1}.)" if len(findings) > 1 else ""
    return worst.reason + more, worst.confidence


def _reason(field: str, grade: int, signals: Signals) -> str:
    """Name the rule behind the grade of a field, and the first line to which the rule applies."""
    if grade < 0 and field == "preference" and signals.findings:
        worst = max(signals.findings, key=lambda finding: finding.confidence)
        return f"A claim without support outweighs the rest: {worst.quote!r}."
    if told := moved(signals, field, grade):
        return _sentence(*told)
    if field != "preference" or not signals.changes:
        return "Neither better nor worse than before."
    outcomes = [change.outcome for change in signals.changes]
    better, same, worse = (outcomes.count(outcome) for outcome in (1, 0, -1))
    return f"Better changes: {better}; neutral: {same}; worse: {worse}."


def moved(signals: Signals, field: str, grade: int) -> tuple[str, str] | None:
    """Return a rule that explains the grade of a field, and a line to which it applies; or None."""
    for change in signals.changes:
        rules = change.gains if grade > 0 else change.harms
        if field == "preference" and change.outcome == grade:
            rule = next(iter(rules.values()), UNSUPPORTED)
        else:
            rule = rules.get(field, "")
        if grade and rule:
            return rule, change.new or change.old
    return None


def _sentence(rule: str, line: str) -> str:
    return f'{rule.capitalize()}: "{cut(line)}".'


def _line_reason(signals: Signals, outcome: int) -> str:
    """Return a sentence about a change with this outcome or, for -1, about an unsupported claim."""
    if outcome < 0 and signals.findings:
        return _support(signals.findings)[0]
    if told := moved(signals, "preference", outcome):
        return _sentence(*told)
    same = next((change for change in signals.changes if change.outcome == outcome), None)
    if same and same.new:
        return f'"{cut(same.new)}" is neither better nor worse than "{cut(same.old)}".'
    return f'"{cut(same.old) if same else ""}" is hardly missed.'
