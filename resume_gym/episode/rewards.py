"""Reward tables, judges' verdicts, and pure functions that compute reward terms.

Every reward in this module is a multiple of 0.25, so that floating-point sums are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

GRADED_FIELDS = ("clarity", "quantification", "jd_alignment", "action_verbs", "preference")
VERDICT_FIELDS = ("hallucination", *GRADED_FIELDS)

TOOL_REWARDS: Mapping[str, float] = {
    "edit": 0.25,
    "failed_edit": -0.25,
    "malformed": -0.25,
    "review": 1.0,
    "submit": 1.0,
    "no_submit": -1.0,
}
"""Rewards of tool calls; only the first `review` of an episode is rewarded."""
TOOL_TERMS = tuple(TOOL_REWARDS)
LAYOUT = 1.0
VERDICT_WEIGHTS: Mapping[str, float] = {
    "hallucination": 1.0,
    "clarity": 0.25,
    "quantification": 0.25,
    "jd_alignment": 0.25,
    "action_verbs": 0.25,
    "preference": 1.0,
}
LINE_WEIGHTS: Mapping[str, float] = {
    "improved": 0.5,
    "harmless": 0.25,
    "worse": 1.0,
    "rejected": 2.0,
}
"""Reward weights of the fields of a `LineVerdict`."""
LINE_TOOL_REWARDS: Mapping[str, float] = {
    "edit": 0.0,
    "failed_edit": -0.25,
    "malformed": -0.25,
    "review": 0.0,
    "submit": 0.25,
    "no_submit": -0.5,
}
"""Rewards of tool calls in environments that reward changed lines; an edit itself earns nothing."""
WEAKNESS_METRIC: Mapping[str, str] = {
    "vague_bullets": "clarity",
    "too_long": "clarity",
    "formatting_inconsistent": "clarity",
    "no_metrics": "quantification",
    "wrong_emphasis": "jd_alignment",
    "weak_verbs": "action_verbs",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's comparison of a revised resume with the original.

    Grades and confidences are converted to `int` and `float`: JSON cannot represent NumPy's types.

    Attributes:
        hallucination: -1 if the revision makes claims that neither the original nor the evidence
            supports, else +1.
        clarity: clarity of the text: -1 worse, 0 same, +1 better (also in the next four fields).
        quantification: how well the revision uses supported figures.
        jd_alignment: how well the revision fits the job description.
        action_verbs: strength of the verbs that open the bullets.
        preference: which of the two resumes a recruiter would prefer.
        reasons: reason for the grade of each field, in one sentence.
        confidence: the judge's confidence in the grade of each field, in [0, 1].
        items: grade of each rubric item, keyed by the item's text. If the revision adds the item
            (see `resume_gym.text.items`), the grade is the sign of the item's weight, +1 or -1;
            otherwise it is 0.

    Raises:
        ValueError: A grade has a value that its field does not allow.
    """

    hallucination: int
    clarity: int
    quantification: int
    jd_alignment: int
    action_verbs: int
    preference: int
    reasons: Mapping[str, str] = field(default_factory=dict)
    confidence: Mapping[str, float] = field(default_factory=dict)
    items: Mapping[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in VERDICT_FIELDS:
            value, binary = getattr(self, name), name == "hallucination"
            if value not in ((-1, 1) if binary else (-1, 0, 1)):
                told = "-1 or +1" if binary else "-1, 0 or +1"
                raise ValueError(f"{name}: expected {told}, got {value!r}")
            object.__setattr__(self, name, int(value))
        for text, grade in self.items.items():
            if grade not in (-1, 0, 1):
                raise ValueError(f"items: {text!r}: expected -1, 0 or +1, got {grade!r}")
        object.__setattr__(self, "items", {text: int(grade) for text, grade in self.items.items()})
        confidence = {name: float(value) for name, value in self.confidence.items()}
        object.__setattr__(self, "confidence", confidence)


@dataclass(frozen=True, slots=True)
class LineVerdict:
    """A judge's numbers of improved and worse lines among the changed lines of a resume.

    Deleted and added lines count as changed. Numbers of lines that cost reward are negative. For a
    page of n lines that are not blank, at most n lines are improved and 2 n harmless or worse.

    Attributes:
        improved: number of lines that are better than in the original.
        harmless: minus the number of changed lines that are neither better nor worse.
        worse: minus the number of lines that are worse or make an unsupported claim.
        rejected: -1 if the judge rejects the whole text, whose lines then do not count; else 0.
        reasons: a sentence for each field that is not 0.
    """

    improved: int = 0
    harmless: int = 0
    worse: int = 0
    rejected: int = 0
    reasons: Mapping[str, str] = field(default_factory=dict)


def verdict_ledger(
    verdict: object, weights: Mapping[str, float] = VERDICT_WEIGHTS
) -> dict[str, float]:
    """Return the reward terms of a verdict: each field that has a weight, times the weight."""
    return {name: weight * getattr(verdict, name) for name, weight in weights.items()}


def unedited_ledger(weakness: str) -> dict[str, float]:
    """Return the reward terms for the content of an unedited resume, which no judge grades."""
    ledger = dict.fromkeys(VERDICT_FIELDS, 0.0)
    ledger["hallucination"] = -VERDICT_WEIGHTS["hallucination"]
    metric = WEAKNESS_METRIC[weakness]
    ledger[metric] = -VERDICT_WEIGHTS[metric]
    return ledger


def reward_bounds(
    max_turns: int,
    weights: Mapping[str, float] = VERDICT_WEIGHTS,
    tools: Mapping[str, float] = TOOL_REWARDS,
) -> tuple[float, float]:
    """Return the minimum and maximum reward of a graded episode; (-7, +8) for ten turns.

    The minimum is the reward of an episode with one edit that makes every field worse, failed edits
    in all other turns, no submit and an overflowing page. The maximum is that of an episode with a
    review, a submit, successful edits in all other turns, a page that fits and the best grades.
    """
    verdict = sum(weights.values()) + LAYOUT
    least = (max_turns - 1) * tools["failed_edit"] + tools["edit"] + tools["no_submit"] - verdict
    greatest = tools["review"] + tools["submit"] + (max_turns - 2) * tools["edit"] + verdict
    return least, greatest


def components(terms: Mapping[str, float]) -> dict[str, float]:
    """Sum reward terms in three groups: tool syntax, layout, and content (all other terms)."""
    parts = dict.fromkeys(("tool_syntax", "layout", "content"), 0.0)
    for name, value in terms.items():
        part = "tool_syntax" if name in TOOL_TERMS else name if name == "layout" else "content"
        parts[part] += value
    return parts
