"""Evidence documents about a candidate: project notes, a performance review and a portfolio.

The documents restate the work behind the bullets in other words and with the true figures. The
documents also contain small talk and lines about other people's work. Some documents say that the
candidate only helped, and some correct a figure of the resume.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from resume_gym.episode.tasks import EVIDENCE_KINDS, Evidence
from resume_gym.synthesis.candidates import Candidate, Job
from resume_gym.synthesis.content import Story, fill, load_frames

# Matches a record in which "I" may replace {Who}: no verb but "was" that follows ends in "s".
_FIRST_PERSON = re.compile(r"\{Who\} (?!(?:no longer |now |still |also )?(?!was\b)\w+s\b)")

_ASIDES = 2  # number of sentences of small talk in a document
_DISTRACTORS = 3  # number of sentences about other people's work in all documents, one per document


@dataclass(frozen=True)
class Done:
    """A piece of the candidate's work, and how the resume presents this work.

    Attributes:
        job: job in which the work was done.
        story: the work with its true figures.
        weak: whether the resume describes the work in a weak bullet.
        shown: whether the results section of the resume states the metric.
        lead: name of the person who led the work if the candidate only helped; empty otherwise.
        wrong: wrong figure on the resume; empty if there is none.
        right: true figure that replaces `wrong`; empty if there is none.
        bare: whether the bullet leaves out the metric without this being a fault. The evidence
            leaves out such work, so that it has no figures that no fix adds.
    """

    job: Job
    story: Story
    weak: bool = False
    shown: bool = False
    lead: str = ""
    wrong: str = ""
    right: str = ""
    bare: bool = False


def write_evidence(
    candidate: Candidate, done: Sequence[Done], split: str, rng: Random
) -> tuple[Evidence, ...]:
    """Write up to three documents, at most one of each kind.

    The documents never describe work with `Done.bare`. They describe all other work whose bullet is
    weak, opens with a hedge ("Helped with") or has a wrong figure. They also describe half of the
    remaining work, so that they do not reveal which bullets are weak.
    """
    told = [deed for deed in done if not deed.bare]
    needed = [deed for deed in told if deed.weak or deed.lead or deed.wrong]
    others = [deed for deed in told if deed not in needed]
    covered = needed + rng.sample(others, (len(others) + 1) // 2)
    shares: dict[str, list[Done]] = {kind: [] for kind in EVIDENCE_KINDS}
    for number, deed in enumerate(rng.sample(covered, len(covered))):
        own = _FIRST_PERSON.search(deed.story.text(deed.story.deed.record))
        kinds = EVIDENCE_KINDS if own else EVIDENCE_KINDS[:2]
        shares[kinds[number % len(kinds)]].append(deed)
    words = candidate.vertical.words
    foreign = [
        fill(line, words)
        for line in rng.sample(candidate.role.lines[split].distractors, _DISTRACTORS)
    ]
    return tuple(
        _write(kind, candidate, share, foreign.pop(), split, rng)
        for kind, share in shares.items()
        if share
    )


def _write(
    kind: str, candidate: Candidate, done: Sequence[Done], foreign: str, split: str, rng: Random
) -> Evidence:
    first, frames = candidate.first_name, load_frames(split)
    who = "I" if kind == "portfolio" else first
    asides = [line.format(first=first) for line in rng.sample(frames[kind], _ASIDES)]
    blocks = []
    for job in candidate.jobs:
        lines = [line for deed in done if deed.job is job for line in _lines(deed, who, split, rng)]
        if lines and kind == "project_notes":
            blocks.append(f"## {job.company}\n\n" + "\n".join(f"- {line}" for line in lines))
        elif lines:
            blocks.append(f"## {job.company}\n\n{' '.join(lines)}")
    # The blocks about jobs concern only the candidate; small talk and other people's work come
    # after.
    blocks += rng.sample([*asides, foreign], _ASIDES + 1)
    title = f"{kind.replace('_', ' ').capitalize()}, {candidate.name}"
    return Evidence(kind, title, "\n\n".join([f"# {title}", *blocks]) + "\n")


def _lines(deed: Done, who: str, split: str, rng: Random) -> list[str]:
    frames, story = load_frames(split), deed.story
    if deed.lead:
        note = rng.choice(frames["helped_record"])
        return [note.format(Lead=deed.lead, first=who, topic=story.text(story.deed.topic))]
    lines = [story.text(story.deed.record).replace("{Who}", who)]
    if deed.wrong:
        lines.append(rng.choice(frames["correction"]).format(right=deed.right, wrong=deed.wrong))
    return lines
