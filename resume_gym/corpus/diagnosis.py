"""Which weakness a resume shows most, for tasks that nobody has planted one in.

Each bullet is put to one weakness at most, the lines out of form to another, and the shares are
measured against those that generated tasks with that weakness have on average. On the 200 bundled
tasks, that names the planted one in nine of ten; a point that is hidden in a way that no rule
knows is taken for no_metrics.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from resume_gym.careful import point
from resume_gym.document import wrapped_lines
from resume_gym.judges.lines import Line
from resume_gym.judges.reference import make_reference
from resume_gym.judges.style import fillers, format_faults, habits, is_weak
from resume_gym.tasks import Task

PAGE_LINES, PAGE_WIDTH = 55, 165
USUAL: Mapping[str, float] = {
    "vague_bullets": 0.60,
    "no_metrics": 0.65,
    "wrong_emphasis": 0.17,
    "weak_verbs": 0.68,
    "formatting_inconsistent": 0.31,
}
"""Mean shares in generated tasks that have the weakness planted.

That of no_metrics is higher, since a third of the bullets of any resume has no figure: it is what
is left where nothing else shows.
"""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a resume shows.

    Attributes:
        weakness: the one that shows most.
        clear: whether any shows at all.
        lines: page lines; more than 55 are too long, whatever else shows.
        bullets: their number.
        shares: of the bullets (of the lines, for formatting_inconsistent), by weakness.
    """

    weakness: str
    clear: bool
    lines: int
    bullets: int
    shares: Mapping[str, float]


def diagnose(resume: str, job: str) -> Diagnosis:
    """The weakness that a resume shows most, as one for this job."""
    # Any weakness but wrong_emphasis: that one makes the reference favour side aspects.
    reference = make_reference(Task("diagnosis", job, resume, "weak_verbs"))
    spare = reference.spare
    lines = reference.lines
    bullets = [(unit, line) for unit, line in enumerate(lines) if line.kind == "bullet"]
    counts = Counter(_fault(line, unit in spare) for unit, line in bullets)
    shares = {name: counts[name] / max(1, len(bullets)) for name in USUAL}
    usual = habits(lines)
    odd = sum(format_faults(line, usual) > 0 for line in lines)
    shares["formatting_inconsistent"] = odd / max(1, len(lines))
    height = wrapped_lines(resume, PAGE_WIDTH)
    clear = any(shares.values()) or height > PAGE_LINES
    worst = max(USUAL, key=lambda name: shares[name] / USUAL[name])
    if height > PAGE_LINES:
        worst = "too_long"
    elif not clear:
        worst = "wrong_emphasis"  # what any resume can have beside some job
    return Diagnosis(worst, clear, height, len(bullets), shares)


def _fault(line: Line, spare: bool) -> str:
    """The weakness that a bullet shows; empty if none."""
    content = line.content
    if fillers(line.body) or (spare and not is_weak(content)):
        return "vague_bullets"
    if point(line.body):
        return "wrong_emphasis"
    if is_weak(content):
        return "weak_verbs"
    return "" if content.figures else "no_metrics"
