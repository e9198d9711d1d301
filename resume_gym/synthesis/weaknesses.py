"""Planted faults of a resume, and the fixes that repair them.

`weaken` writes weak bullets, `disorder` draws a mixed formatting, and `differences` returns the
fixes that repair it. The modules `procedural` and `drafts` apply too_long by adding content.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random

from resume_gym.episode.tasks import Fix
from resume_gym.synthesis.candidates import Job
from resume_gym.synthesis.content import Story, load_forms, without_metric
from resume_gym.synthesis.writing import Look, draw_dates

HEDGES: Sequence[str] = load_forms()["hedges"]
"""Openings that truthfully say that the candidate only helped."""

_OPENINGS: Sequence[str] = load_forms()["openings"]
_OPENING = re.compile(rf"(?:{'|'.join(_OPENINGS)}) (?=[a-z]+ing )")


def weaken(
    story: Story, form: str, metric: str, fact: str, rng: Random
) -> tuple[str, tuple[Fix, ...]]:
    """Return a weak bullet and the fixes that repair it, in order.

    Args:
        story: the piece of work that the bullet describes.
        form: weakness of the wording, a key of `FORMS`; empty if there is none.
        metric: "missing" if only the evidence states the metric of the work, "elsewhere" if the
            resume states it in another place, "untold" if nothing does; empty if the bullet states
            it or there is none.
        fact: sentence that states what the good form of the bullet says.
        rng: random generator that draws one of the deed's weak forms.
    """
    text = story.plain if metric else story.told
    fixes: tuple[Fix, ...] = ()
    if metric in ("missing", "elsewhere"):
        fixes = (Fix(story.plain, story.told, (fact,), needs_evidence=metric == "missing"),)
    if form:
        pair = rng.choice(story.deed.forms[form])
        text, good = (story.text(without_metric(one) if metric else one) for one in pair)
        text = _OPENING.sub(f"{rng.choice(_OPENINGS)} ", text, count=1)
        fixes = (Fix(text, good, (fact,)), *fixes)
    return text, fixes


def disorder(look: Look, jobs: Sequence[Job], spots: int, rng: Random) -> Look:
    """Return a layout that differs from `look` in at most `spots` lines.

    An earlier job looks as if pasted from another document: its list items and its dates have
    another style. One or two headings differ from the others, too.
    """
    total = sum(len(job.bullets) for job in jobs)
    able = [n for n, job in enumerate(jobs) if n and 2 * len(job.bullets) < total]
    if not able:
        return look
    old = max(able, key=lambda n: len(jobs[n].bullets))
    marker, end = rng.choice((("*", ""), ("*", "."), ("\u2022", ""), ("\u2022", "."), ("-", ".")))
    dates = draw_dates(rng, months=True, not_month=look.dates.month)
    if look.dates.dash == "to":  # otherwise, a repair would add the word "to"
        dates = dates._replace(dash="to")
    pasted = look._replace(dates=dates)
    if (left := spots - 1 - len(jobs[old].bullets)) >= 0:
        pasted = pasted._replace(marker=marker, end=end)
    else:
        left = spots - 1
    # fewer than half of the headings, since the style of most lines is the right one
    odd = rng.sample(("experience", "skills", "education"), min(left, 1 if total < 10 else 2))
    return look._replace(old=old, pasted=pasted, odd=odd, odd_style=rng.choice(("**{}**", "{}")))


def differences(messy: str, clean: str) -> Iterator[Fix]:
    """Yield the fixes that change the lines of one text into those of another."""
    for old, new in zip(messy.split("\n"), clean.split("\n"), strict=True):
        if old != new:
            yield Fix(old, new)


def deletion(passage: str) -> Fix:
    """Return the fix that deletes `passage`: whole lines below the first line of the resume."""
    return Fix("\n" + passage, "")
