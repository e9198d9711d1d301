"""Diagnose the main weakness of a resume, for tasks without a planted weakness.

`diagnose` assigns at most one weakness to each bullet, and computes the share of the bullets with
each weakness and the share of inconsistently formatted lines. A resume that is longer than the page
is too_long. For any other resume, the share of each weakness is divided by its mean share in tasks
that were generated with this weakness (`USUAL`); the weakness with the largest quotient is
reported. A resume that is not in English is diagnosed by its length alone. The method identifies
the planted weakness of eight in ten of the 200 bundled tasks. In most errors, vague_bullets is the
diagnosis, since every resume has some vague bullets.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from resume_gym.agents.wording import point
from resume_gym.episode.document import wrapped_lines
from resume_gym.episode.editing import Rules
from resume_gym.episode.tasks import Task
from resume_gym.text.languages import is_english
from resume_gym.text.lines import Line
from resume_gym.text.reference import Reference, make_reference
from resume_gym.text.style import fillers, format_faults, habits, head, is_weak

USUAL: Mapping[str, float] = {
    "vague_bullets": 0.36,
    "no_metrics": 1.0,
    "wrong_emphasis": 0.31,
    "weak_verbs": 0.23,
    "formatting_inconsistent": 0.26,
}
"""Mean share of the bullets (or lines) with a weakness in tasks generated with this weakness.

The value of no_metrics is set above the measured mean, 0.51, so that no_metrics is the diagnosis
only if no other weakness stands out: in any resume, about half of the bullets have no figure.
"""

_PAGE = Rules()
NO_BULLETS = "not fit for the rubric judge: no bullets were found in it"
"""Note for the user on a resume without bullets."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Weaknesses found in a resume.

    Attributes:
        weakness: main weakness of the resume.
        clear: whether the resume shows any weakness at all.
        lines: number of lines after wrapping; above 55 lines the weakness is too_long.
        bullets: number of bullets.
        shares: for each weakness, the share of the bullets that have it (of all lines for
            formatting_inconsistent); empty if the resume is not in English.
        bare: share of the bullets that have no figure, whatever their weakness.
    """

    weakness: str
    clear: bool
    lines: int
    bullets: int
    shares: Mapping[str, float]
    bare: float


def diagnose(resume: str, job: str) -> Diagnosis:
    """Diagnose a resume written for the given job."""
    reference = _reference(resume, job)
    lines = reference.lines
    bullets = [(unit, line) for unit, line in enumerate(lines) if line.kind == "bullet"]
    bare = sum(not line.content.figures for _, line in bullets) / max(1, len(bullets))
    height = wrapped_lines(resume, _PAGE.page_width)
    shares: dict[str, float] = {}
    if is_english(resume):
        counts = Counter(_fault(line, unit in reference.spare) for unit, line in bullets)
        shares = {name: counts[name] / max(1, len(bullets)) for name in USUAL}
        usual = habits(lines)
        odd = sum(format_faults(line, usual) > 0 for line in lines)
        shares["formatting_inconsistent"] = odd / max(1, len(lines))
    clear = any(shares.values()) or height > _PAGE.page_lines
    worst = "wrong_emphasis"  # the fallback weakness, which any resume may have
    if height > _PAGE.page_lines:
        worst = "too_long"
    elif clear:
        worst = max(USUAL, key=lambda name: shares[name] / USUAL[name])
    return Diagnosis(worst, clear, height, len(bullets), shares, bare)


def fit(resume: str, job: str) -> float:
    """Return the IDF-weighted share, in [0, 1], of the job's word stems that the resume has."""
    reference = _reference(resume, job)
    weights = reference.job_weights
    shown = {stem for line in reference.lines for stem in line.content.stems}
    whole = math.fsum(weights.values())
    return math.fsum(weights[stem] for stem in weights if stem in shown) / (whole or 1.0)


def _reference(resume: str, job: str) -> Reference:
    # `Task` requires a weakness; any weakness except wrong_emphasis gives the same reference.
    return make_reference(Task("diagnosis", job, resume, "weak_verbs"))


def _fault(line: Line, spare: bool) -> str:
    """Return the name of a bullet's weakness, or an empty string if the bullet has none."""
    content = line.content
    weak = is_weak(content) and head(content).kind == "weak"  # "Helped with" may be true: no fault
    # Search for fillers only after a weak opening: "Tasks included" counts as weak_verbs.
    told = " ".join(content.tokens[head(content).at :]) if weak else line.body
    if fillers(told) or (spare and not weak):
        return "vague_bullets"
    if point(line.body) != line.body:
        return "wrong_emphasis"
    if weak:
        return "weak_verbs"
    return "" if content.figures else "no_metrics"
