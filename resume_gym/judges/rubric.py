"""The rubric judge: deterministic, offline, a few milliseconds a verdict.

It finds unsupported claims (`claims`), compares what can be counted (`signals`), and says why.
What it cannot see: an invention in common words that takes the place of as many others, irony,
taste. `calibration` says how often it is right.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from resume_gym.judges.claims import cut
from resume_gym.judges.lines import LEXICON
from resume_gym.judges.reference import Reference, make_reference
from resume_gym.judges.signals import Signals, measure
from resume_gym.judges.vetoes import veto
from resume_gym.rewards import GRADED_FIELDS, Verdict
from resume_gym.tasks import Task

_THRESHOLDS: Mapping[str, float] = LEXICON["thresholds"]
_WEIGHTS: Mapping[str, float] = LEXICON["weights"]
_ASPECTS = GRADED_FIELDS[:-1]
_WHAT = {
    "clarity": ("is easier to read", "is harder to read"),
    "quantification": ("has more grounded figures", "has fewer grounded figures"),
    "jd_alignment": ("fits the job better", "fits the job less"),
    "action_verbs": ("opens with a stronger verb", "opens with a weaker verb"),
    "substance": ("says more", "says less"),
}
_SAME = {
    "clarity": "The resume is as easy to read as it was",
    "quantification": "Grounded figures are as many as they were",
    "jd_alignment": "The resume fits the job as it did",
    "action_verbs": "The verbs that open the bullets are as strong as they were",
    "substance": "The resume says what it said",
}
# Where no single line accounts for the grade: better, worse.
_ELSEWHERE = {
    "clarity": ("The resume is freed of lines that repeat others", "New lines repeat or clutter"),
    "quantification": ("More bullets have figures", "Fewer bullets have figures"),
    "jd_alignment": (
        "The bullets that fit the job best have moved up",
        "The bullets that fit the job best have moved down",
    ),
    "action_verbs": ("The verbs vary more", "The verbs vary less"),
    "substance": ("The resume says more", "The resume says less"),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The second text against the first: changes in units of their thresholds.

    Attributes:
        changes: of the four aspects; at 1 or -1 the field is graded.
        preference: the same for the whole.
        substance: the change in what the resume says, likewise.
        claims: unsupported claims of the second text, less those of the first.
        junk: the same for lines that nobody asked for.
    """

    changes: Mapping[str, float]
    preference: float
    substance: float
    claims: float
    junk: float

    def grade(self, field: str) -> int:
        """-1, 0 or 1."""
        return _sign(self.preference if field == "preference" else self.changes[field])


class RubricJudge:
    """Judges by rule, with the lexicon, weights and thresholds of `lexicon.toml`."""

    name = "rubric"

    def judge(self, task: Task, revised: str) -> Verdict:
        """The verdict on a revised resume; see `Judge`."""
        if revised != task.resume and (settled := veto(task, revised)):
            return settled
        reference = make_reference(task)
        before, after = _measured(reference, task.resume), measure(revised, reference)
        comparison = _compare(before, after)
        grades = {field: comparison.grade(field) for field in GRADED_FIELDS}
        reasons = {field: _reason(field, grades[field], before, after) for field in _ASPECTS}
        reasons["preference"] = _preference_reason(grades["preference"], comparison, before, after)
        sizes = {**comparison.changes, "preference": comparison.preference}
        confidence = {field: _confidence(sizes[field]) for field in GRADED_FIELDS}
        reasons["hallucination"], confidence["hallucination"] = _support(before, after)
        supported = -1 if after.findings else 1
        return Verdict(hallucination=supported, **grades, reasons=reasons, confidence=confidence)


def compare(task: Task, first: str, second: str) -> Comparison:
    """The second text against the first, by what is true in the task.

    Its changes have the opposite sign when the texts change places: what is true stays.
    """
    reference = make_reference(task)
    return _compare(_measured(reference, first), _measured(reference, second))


@lru_cache(maxsize=1024)  # originals, and contestants that meet often
def _measured(reference: Reference, text: str) -> Signals:
    return measure(text, reference)


def _compare(before: Signals, after: Signals) -> Comparison:
    changes = {field: math.fsum(_delta(field, before, after)) for field in _ASPECTS}
    changes["jd_alignment"] += LEXICON["job"]["order"] * (after.order - before.order)
    parts = {field: change / _THRESHOLDS[field] for field, change in changes.items()}
    substance = math.fsum(_delta("substance", before, after)) / _THRESHOLDS["substance"]
    claims = _gravity(after) - _gravity(before)
    junk = after.junk - before.junk
    total = [_WEIGHTS[field] * _part(parts[field], _WEIGHTS["limit"]) for field in _ASPECTS]
    total.append(_WEIGHTS["substance"] * _part(substance, _WEIGHTS["substance_limit"]))
    total += [-_WEIGHTS["fabrication"] * claims, -_WEIGHTS["junk"] * junk]
    preference = math.fsum(total) / _THRESHOLDS["preference"]
    return Comparison(parts, preference, substance, claims, junk)


def _delta(field: str, before: Signals, after: Signals) -> list[float]:
    old, new = getattr(before, field), getattr(after, field)
    return [b - a for a, b in zip(old, new, strict=True)]


def _part(change: float, limit: float) -> float:
    """A change as it counts for preference: one below its threshold hardly does."""
    return max(-limit, min(limit, change if abs(change) >= 1 else change**3))


def _gravity(signals: Signals) -> float:
    """The weight of the unsupported claims: the first is the worst."""
    count = len(signals.findings)
    return 0.0 if not count else 1.0 + 0.4 * (count - 1)


def _sign(change: float) -> int:
    return (change > 1 - 1e-9) - (change < -1 + 1e-9)


def _confidence(change: float) -> float:
    """High far from the threshold, on either side of it."""
    size = abs(change)
    sure = 1 - size if size < 1 else 1 - 1 / (1 + (size - 1))
    return round(0.5 + 0.45 * sure, 3)


def _support(before: Signals, after: Signals) -> tuple[str, float]:
    if not after.findings:
        quote = cut(after.shown[_changed(before, after)])
        return f'Every figure, name and title has support, also in "{quote}".', 0.85
    worst = max(after.findings, key=lambda finding: finding.confidence)
    more = len(after.findings) - 1
    tail = f" (More of this kind: {more}.)" if more else ""
    return worst.reason + tail, worst.confidence


def _changed(before: Signals, after: Signals) -> int:
    """A line of the original that reads otherwise now, if there is one that is not gone."""
    pairs = enumerate(zip(before.shown, after.shown, strict=True))
    return next((unit for unit, (old, new) in pairs if new and old != new), 0)


def _reason(field: str, grade: int, before: Signals, after: Signals) -> str:
    """A sentence on the line that changed most in the direction of the grade."""
    deltas = _delta(field, before, after)[: len(before.shown)]
    better, worse = _WHAT[field]
    if not grade:
        unit = max(range(len(deltas)), key=lambda u: abs(deltas[u]))
        unit = unit if deltas[unit] else _changed(before, after)
        return f'{_SAME[field]}, also in "{cut(after.shown[unit] or before.shown[unit])}".'
    unit = max(range(len(deltas)), key=lambda u: grade * deltas[u])
    old, new = cut(before.shown[unit]), cut(after.shown[unit])
    if grade * deltas[unit] <= 0:
        return f"{_ELSEWHERE[field][grade < 0]}."
    if not new:
        return f'"{old}" is gone{" and leaves room" if grade > 0 else ""}.'
    if old == new:
        return f'"{new}" {better if grade > 0 else worse}, by its layout or its place.'
    return f'"{new}" {better if grade > 0 else worse} than "{old}".'


def _preference_reason(grade: int, comparison: Comparison, before: Signals, after: Signals) -> str:
    """What weighs most in the whole."""
    if grade < 0 and comparison.claims > 0:
        return f"A claim without support outweighs the rest: {after.findings[0].quote!r}."
    if grade < 0 and comparison.substance <= -1:
        return _reason("substance", grade, before, after)
    if grade < 0 and comparison.junk > 0:
        return "Lines that repeat others, or address the reader, speak against it."
    field = max(_ASPECTS, key=lambda name: (grade or 1) * comparison.changes[name])
    return _reason(field, grade, before, after)
