"""The habits that the nano policy starts from: a hasty editor, much like the source's base model.

It knows the tools and the craft (short exact quotes, verbs for hedges, uniform formatting,
deletion of what has no room), and it has the faults that reinforcement learning is there to mend:
it often skips the review, quotes from memory, invents figures, and forgets to submit.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from resume_gym import Session, tool_call
from resume_gym.careful import weak_head

Edit = tuple[str, str]
"""What to replace, and by what."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How often the editor does what, as probabilities.

    Attributes:
        review: it reviews first.
        submit: it submits in its last turn.
        stop: it submits in an earlier turn, each.
        misquote: an edit quotes what is not there, or not once.
        kinds: weights of the kinds of edits that it makes on purpose.
    """

    review: float
    submit: float
    stop: float
    misquote: float
    kinds: Mapping[str, float]


HASTY = Habits(
    review=0.5,
    submit=0.33,
    stop=0.02,
    misquote=0.25,
    kinds={"head": 4, "format": 4, "cut": 2, "cut figure": 0.5, "verb": 2, "invent": 4},
)

_PLAIN = {
    "Worked on": "Developed",
    "Worked with": "Consulted",
    "Contributed to": "Advanced",
    "Dealt with": "Resolved",
    "Took care of": "Managed",
    "Took part in": "Advanced",
    "Did some": "Produced",
    "Did a": "Produced a",
    "Looked into": "Investigated",
    "Looked at": "Analyzed",
    "Looked after": "Managed",
    "Made changes to": "Revised",
    "Made improvements to": "Improved",
    "Made adjustments to": "Adjusted",
    "Made a": "Created a",
    "Made some": "Created",
    "Made the": "Created the",
    "Helped with": "Delivered",
    "Helped the": "Advised the",
    "Assisted with": "Delivered",
    "Participated in": "Advanced",
    "Was involved in": "Advanced",
    "Handled": "Managed",
    "Supported": "Advised",
    "Cleaned up": "Streamlined",
    "Tidied up": "Streamlined",
    "Tried out": "Piloted",
    "Spent time on": "Developed",
    "Changed": "Redesigned",
    "Improved": "Strengthened",
    "Paid attention to": "Managed",
    "Put together": "Assembled",
    "Gave input on": "Advised on",
    "Talked to": "Consulted",
    "Kept track of": "Tracked",
    "Updated": "Refreshed",
    "Created some": "Produced",
}
_STRONGER = {
    "Prepared": "Produced",
    "Reviewed": "Audited",
    "Documented": "Codified",
    "Tested": "Validated",
    "Checked": "Verified",
    "Moved": "Shifted",
    "Wrote": "Authored",
    "Set up": "Established",
    "Added": "Introduced",
    "Fixed": "Resolved",
    "Found": "Identified",
    "Cut": "Reduced",
    "Shortened": "Reduced",
    "Held": "Hosted",
    "Collected": "Compiled",
    "Reported": "Presented",
    "Changed": "Redesigned",
    "Built": "Engineered",
    "Sent": "Delivered",
    "Monitored": "Tracked",
    "Rebuilt": "Redesigned",
    "Trimmed": "Reduced",
    "Shrank": "Reduced",
    "Caught": "Identified",
    "Traced": "Pinpointed",
    "Taught": "Trained",
    "Coached": "Mentored",
    "Persuaded": "Convinced",
    "Rewrote": "Revised",
    "Mapped": "Charted",
    "Raised": "Increased",
    "Lifted": "Increased",
    "Brought": "Delivered",
    "Answered": "Resolved",
    "Measured": "Quantified",
    "Ran": "Directed",
    "Made": "Created",
}
_INVENTED = (
    " by {n}%",
    ", saving {n} hours a week",
    ", cutting costs by {n}%",
    " for {n} clients",
    " with a team of {n}",
    ", saving ${n}K",
)
_STOCK = ("- Responsible for", "- Worked on", "- Helped with", "- Involved in", "## Summary", "- ")
_BULLET = re.compile(r"([-*+]) (?=\S)")


def act(session: Session, rng: Random, habits: Habits = HASTY) -> str:
    """The text of the next turn."""
    turns_left = session.rules.max_turns - session.state.turns
    if session.state.turns == 0 and rng.random() < habits.review:
        return tool_call("review")
    last = turns_left == 1
    if session.state.turns and rng.random() < (habits.submit if last else habits.stop):
        return tool_call("submit")
    over = session.state.document.lines > session.rules.page_lines
    old, new = _edit(session.resume, over, rng, habits)
    return tool_call("str_replace", old=old, new=new)


def _edit(resume: str, over: bool, rng: Random, habits: Habits) -> Edit:
    crafts: dict[str, list[Edit]] = {}
    for kind, edit in _crafts(resume):
        crafts.setdefault(kind, []).append(edit)
    crafts["invent"] = [_invent(resume, rng)]
    kinds = [kind for kind in habits.kinds if crafts.get(kind)]
    weights = [habits.kinds[kind] * (4 if over and kind.startswith("cut") else 1) for kind in kinds]
    old, new = rng.choice(crafts[rng.choices(kinds, weights)[0]])
    if rng.random() < habits.misquote:
        old = _misquote(old, resume, rng)
    return old, new


def _crafts(resume: str) -> Iterator[tuple[str, Edit]]:
    """Honest edits whose quotes occur once: kind, and what to replace by what."""
    lines = resume.split("\n")
    bullets = [line for line in lines if _BULLET.match(line)]
    if not bullets:
        return
    marker = Counter(line[0] for line in bullets).most_common(1)[0][0]
    period = sum(line.endswith(".") for line in bullets) > len(bullets) / 2
    for line in lines:
        if not _BULLET.match(line):
            heading = re.fullmatch(r"\*\*([^*]+)\*\*|([A-Z][A-Z &]{3,})", line)
            if heading and resume.count(line) == 1:
                yield "format", (line, f"## {heading[1] or heading[2].title()}")
            continue
        yield from _heads(line, resume)
        if line[0] != marker and (old := _first_words(line, 2, resume)):
            yield "format", (old, marker + old[1:])
        if line.endswith(".") and not period and (old := _last_words(line, 1, resume)):
            yield "format", (old, old[:-1])
        for gap in re.finditer(r"( \S+)  (\S+)", line):
            if resume.count(gap[0]) == 1:
                yield "format", (gap[0], f"{gap[1]} {gap[2]}")
        # a line with a figure is seldom the one to lose
        if resume.count(line + "\n") == 1:
            yield "cut" if not re.search(r"\d", line) else "cut figure", (line + "\n", "")


def _heads(line: str, resume: str) -> Iterator[tuple[str, Edit]]:
    """Better heads for one bullet."""
    marker, text = line[:2], line[2:]
    hedge, verb = weak_head(text)
    plain = max((one for one in _PLAIN if text.startswith(one + " ")), key=len, default="")
    if not hedge and plain:
        hedge, verb = plain, _PLAIN[plain]
    if hedge and (old := _first_words(line, len(hedge.split()), resume)):
        yield "head", (old, old.replace(marker + hedge, marker + verb, 1))
    weaker = next((one for one in _STRONGER if text.startswith(one + " ")), "")
    if weaker and not hedge and (old := _first_words(line, len(weaker.split()), resume)):
        yield "verb", (old, old.replace(marker + weaker, marker + _STRONGER[weaker], 1))


def _first_words(line: str, least: int, resume: str) -> str:
    """The shortest head of a bullet, of at least so many words, that occurs once; or nothing."""
    words = line.split(" ")
    heads = (" ".join(words[:n]) for n in range(least + 1, min(least + 4, len(words)) + 1))
    return next((head for head in heads if resume.count(head) == 1), "")


def _last_words(line: str, least: int, resume: str) -> str:
    words = line.split(" ")
    tails = (" " + " ".join(words[-n:]) for n in range(least, min(least + 3, len(words) - 1)))
    return next((tail for tail in tails if resume.count(tail) == 1), "")


def _invent(resume: str, rng: Random) -> Edit:
    """A figure that nobody has ever measured, at the end of a bullet."""
    bullets = [line for line in resume.split("\n") if _BULLET.match(line)]
    line = rng.choice(bullets) if bullets else resume
    tail = _last_words(line, 2, resume) or line
    return tail, tail.rstrip(".") + rng.choice(_INVENTED).format(n=rng.randint(2, 99))


def _misquote(old: str, resume: str, rng: Random) -> str:
    """A quote from memory: a stock phrase, or one word wrong."""
    if rng.random() < 0.4:
        return rng.choice(_STOCK)
    words = old.rstrip("\n").split(" ")
    place = rng.randrange(1, len(words)) if len(words) > 1 else 0
    words[place] = rng.choice(re.findall(r"[A-Za-z]+", resume))
    return " ".join(words)
