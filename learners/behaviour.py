"""The habits that the nano policy starts from: a hasty editor, much like the source's base model.

It knows the tools and the craft (short exact quotes, verbs for hedges, uniform formatting,
deletion of what has no room), and it has the faults that reinforcement learning is there to mend:
it quotes too little, invents figures, cuts what had room, and forgets to submit.
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
        stop: it submits in another turn, if the page is not too long; seldom, or to stop early
            would be the first thing that reinforcement learning finds.
        misquote: an edit quotes no more than its first word, mostly a bullet's marker.
        kinds: weights of the kinds of edits that it makes on purpose.
    """

    review: float
    submit: float
    stop: float
    misquote: float
    kinds: Mapping[str, float]


HASTY = Habits(
    review=0.95,
    submit=0.4,
    stop=0.01,
    misquote=0.12,
    kinds={"head": 4, "format": 4, "cut": 0.3, "cut figure": 0.1, "verb": 4, "invent": 0.6},
)

_PLAIN = {
    "Worked on": "Developed",
    "Worked with": "Consulted",
    "Contributed to": "Furthered",
    "Dealt with": "Resolved",
    "Took care of": "Managed",
    "Took part in": "Furthered",
    "Did some": "Produced",
    "Did a": "Produced a",
    "Looked into": "Investigated",
    "Looked at": "Analyzed",
    "Looked after": "Managed",
    "Made changes to": "Revised",
    "Made improvements to": "Enhanced",
    "Made adjustments to": "Adjusted",
    "Made a": "Produced a",
    "Made some": "Produced",
    "Made the": "Produced the",
    "Helped with": "Delivered",
    "Helped the": "Advised the",
    "Assisted with": "Delivered",
    "Participated in": "Furthered",
    "Was involved in": "Furthered",
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
_SYNONYMS = """Adapted:Tailored Added:Introduced Agreed:Negotiated Analyzed:Examined
Answered:Resolved Archived:Stored Attended:Joined Audited:Examined Automated:Streamlined
Backfilled:Filled Blocked:Prevented Booked:Secured Brought:Delivered Built:Engineered
Canceled:Terminated Caught:Identified Changed:Redesigned Checked:Verified Cleared:Resolved
Closed:Concluded Coached:Mentored Codified:Formalized Collected:Compiled Compared:Benchmarked
Completed:Finished Consolidated:Unified Converted:Transformed Corrected:Rectified Cut:Reduced
Deleted:Eliminated Delivered:Produced Designed:Engineered Discovered:Uncovered
Documented:Codified Drafted:Authored Drew:Sketched Drilled:Trained Encrypted:Secured
Enforced:Applied Established:Founded Estimated:Calculated Filed:Archived Fixed:Resolved
Forwarded:Relayed Found:Identified Greeted:Received Held:Hosted Hired:Recruited
Hosted:Organized Identified:Pinpointed Installed:Deployed Interviewed:Assessed
Introduced:Launched Invited:Recruited Joined:Entered Kept:Sustained Launched:Introduced
Led:Directed Lifted:Increased Localized:Translated Lowered:Reduced Made:Produced
Maintained:Sustained Managed:Directed Mapped:Charted Matched:Aligned Measured:Quantified
Mediated:Resolved Migrated:Transferred Modeled:Simulated Moderated:Facilitated
Monitored:Tracked Moved:Shifted Negotiated:Brokered Opened:Established Ordered:Procured
Owned:Managed Paired:Matched Performed:Executed Persuaded:Convinced Placed:Positioned
Predicted:Projected Prepared:Produced Presented:Delivered Priced:Valued Printed:Produced
Projected:Estimated Prototyped:Piloted Raised:Increased Ran:Directed Ranked:Prioritized
Read:Examined Rebuilt:Redesigned Reconciled:Settled Recorded:Logged Recovered:Restored
Recruited:Hired Redacted:Masked Redesigned:Reworked Reduced:Lowered Refreshed:Renewed
Rehearsed:Practiced Removed:Eliminated Renegotiated:Revised Reorganized:Restructured
Replaced:Superseded Reported:Presented Represented:Championed Resolved:Solved
Retired:Decommissioned Reviewed:Audited Revived:Restored Rewrote:Revised Saved:Conserved
Scripted:Automated Segmented:Divided Sent:Delivered Shipped:Released Shortened:Reduced
Shrank:Reduced Signed:Secured Simulated:Modeled Sorted:Organized Split:Divided
Standardized:Unified Submitted:Delivered Supervised:Directed Surveyed:Polled Taught:Trained
Tested:Validated Traced:Pinpointed Tracked:Traced Trained:Instructed Trimmed:Reduced
Tuned:Optimized Uncovered:Revealed Upgraded:Modernized Visited:Toured Welcomed:Hosted
Wrote:Authored"""
_STRONGER = dict(pair.split(":") for pair in _SYNONYMS.split())
_STRONGER |= {"Set up": "Established", "Rolled out": "Released"}
_GENERIC = ("Achieved", "Delivered", "Executed", "Produced", "Realized")
"""For bullets that start with a word of which no synonym is known."""
_INVENTED = (
    ", at {n}% less cost,",
    ", saving {n} hours a week,",
    ", within {n} days,",
    ", for {n} clients,",
    ", with a team of {n},",
    ", on a ${n}K budget,",
)
_BULLET = re.compile(r"([-*+]) (?=\S)")


def act(session: Session, rng: Random, habits: Habits = HASTY) -> str:
    """The text of the next turn."""
    turns_left = session.rules.max_turns - session.state.turns
    if session.state.turns == 0 and rng.random() < habits.review:
        return tool_call("review")
    over = session.state.document.lines > session.rules.page_lines
    ready = habits.submit if turns_left == 1 else habits.stop * (not over)
    if rng.random() < ready:
        return tool_call("submit")
    old, new = _edit(session.task.resume, session.resume, over, rng, habits)
    return tool_call("str_replace", old=old, new=new)


def estrange(resume: str, rng: Random) -> str:
    """A resume whose bullets say less than they did, or nothing: other words, at a random rate.

    Weak heads, form and figures stay. Whoever has to edit such pages cannot know their lines by
    heart, as it can those of a bank of a few hundred bullets, nor tell from a line's words with
    which word it starts, and so has to read.
    """
    words: list[str] = re.findall(r"\b[a-z]{4,}\b", resume)
    rate = rng.random() ** 0.5

    def invented() -> str:
        start, end = rng.choice(words), rng.choice(words)
        return start[: rng.randint(1, 5)] + end[-rng.randint(1, 5) :]

    def word(match: re.Match[str]) -> str:
        if rng.random() > rate:
            return match[0]
        new = rng.choice(words) if rng.random() < 0.5 else invented()
        return new.capitalize() if match[0][0].isupper() else new

    lines = resume.split("\n")
    for number, line in enumerate(lines):
        if _BULLET.match(line):
            start = 2 + len(_weak(line[2:])[0])
            rest = re.sub(r"[A-Z]?[a-z]{4,}", word, line[start:])
            if start == 2 and rng.random() < 0.75:
                first = rng.choice(list(_STRONGER)) if rng.random() < 0.5 else invented()
                rest = re.sub(r"^\w+", first.capitalize(), rest)
            lines[number] = line[:start] + rest
    return "\n".join(lines)


def _edit(original: str, resume: str, over: bool, rng: Random, habits: Habits) -> Edit:
    crafts: dict[str, list[Edit]] = {}
    for kind, edit in _crafts(original, resume):
        crafts.setdefault(kind, []).append(edit)
    crafts["invent"] = [_invent(original, resume, rng)]
    kinds = [kind for kind in habits.kinds if crafts.get(kind)]
    weights = [
        habits.kinds[kind] * (60 if over and kind.startswith("cut") else 1) for kind in kinds
    ]
    old, new = rng.choice(crafts[rng.choices(kinds, weights)[0]])
    if rng.random() < habits.misquote:
        return old.split(" ")[0] + " ", new
    return old, new


def _crafts(original: str, resume: str) -> Iterator[tuple[str, Edit]]:
    """Honest edits whose quotes occur once: kind, and what to replace by what.

    A line that already has another wording keeps its head.
    """
    lines = resume.split("\n")
    untouched = set(original.split("\n"))
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
        if line in untouched:
            yield from _heads(line, resume)
        if line[0] != marker and (old := _first_words(line, 2, resume)):
            yield "format", (old, marker + old[1:])
        if line.endswith(".") and not period and (old := _last_words(line, 1, resume)):
            yield "format", (old, old[:-1])
        for gap in re.finditer(r"  \S+", line):
            if resume.count(gap[0]) == 1:
                yield "format", (gap[0], gap[0][1:])
        # a line with a figure is seldom the one to lose
        if resume.count(line + "\n") == 1:
            yield "cut" if not re.search(r"\d", line) else "cut figure", (line + "\n", "")


def _heads(line: str, resume: str) -> Iterator[tuple[str, Edit]]:
    """Better heads for one bullet."""
    marker, text = line[:2], line[2:]
    hedge, verb = _weak(text)
    if hedge and (old := _first_words(line, len(hedge.split()), resume)):
        yield "head", (old, old.replace(marker + hedge, marker + verb, 1))
    weaker = next((one for one in _STRONGER if text.startswith(one + " ")), text.split(" ")[0])
    if not hedge and (old := _first_words(line, len(weaker.split()), resume)):
        stronger = _STRONGER.get(weaker) or _GENERIC[len(line) % len(_GENERIC)]
        if stronger != weaker:
            yield "verb", (old, old.replace(marker + weaker, marker + stronger, 1))


def _weak(text: str) -> tuple[str, str]:
    """The weak head of a bullet and what to say instead; both empty if it has none."""
    hedge, verb = weak_head(text)
    plain = max((one for one in _PLAIN if text.startswith(one + " ")), key=len, default="")
    return (hedge, verb) if hedge or not plain else (plain, _PLAIN[plain])


def _first_words(line: str, least: int, resume: str) -> str:
    """The shortest head of a bullet, of at least so many words, that occurs once; or nothing."""
    words = line.split(" ")
    heads = (" ".join(words[:n]) for n in range(least + 1, min(least + 4, len(words)) + 1))
    return next((head for head in heads if resume.count(head) == 1), "")


def _last_words(line: str, least: int, resume: str) -> str:
    words = line.split(" ")
    tails = (" " + " ".join(words[-n:]) for n in range(least, min(least + 3, len(words) - 1)))
    return next((tail for tail in tails if resume.count(tail) == 1), "")


def _invent(original: str, resume: str, rng: Random) -> Edit:
    """A figure that nobody has ever measured, after a bullet's first words."""
    untouched = set(original.split("\n"))
    bullets = [line for line in resume.split("\n") if _BULLET.match(line) and line in untouched]
    line = rng.choice(bullets) if bullets else resume
    head = _first_words(line, 1, resume) or line
    return head, head + rng.choice(_INVENTED).format(n=rng.randint(2, 99))
