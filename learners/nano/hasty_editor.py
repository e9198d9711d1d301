"""The habits that the nano policy starts from: a hasty editor, much like the source's base model.

It knows the tools and the craft (short exact quotes, verbs for duties, points told at once, no
fillers, one style of bullets and headings, deletion of what has no room), and it has the faults
that reinforcement learning is there to mend: it quotes too little, invents figures, cuts what had
room, and forgets to submit.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from random import Random

from resume_gym import Session, tool_call
from resume_gym.agents.wording import FILLER, FILLERS, point, weak_head
from resume_gym.synthesis.weaknesses import OPENERS
from resume_gym.text.verbs import past_tense

Edit = tuple[str, str]
"""What to replace, and by what."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How often the editor does what, as probabilities.

    Attributes:
        review: it reviews first.
        submit: it submits in its last turn.
        stop: it submits in another turn, if the page is not too long and nothing on it asks for
            an edit; in all other turns to stop early would be the first thing that reinforcement
            learning finds.
        misquote: an edit quotes no more than its first word, mostly a bullet's marker.
        fumble: the same where nothing asks for an edit.
        invent: an edit adds a figure that nobody has measured.
        kinds: weights of the kinds of honest edits.
    """

    review: float
    submit: float
    stop: float
    misquote: float
    fumble: float
    invent: float
    kinds: Mapping[str, float]


HASTY = Habits(
    review=0.95,
    submit=0.35,
    stop=0.3,
    misquote=0.15,
    fumble=0.45,
    invent=0.1,
    kinds={
        # what only some pages have comes first: many bullets together outweigh one filler, and
        # a policy that samples at a temperature below 1 would never choose it
        "filler": 12,
        "format": 12,
        "point": 8,
        "head": 4,
        "cut": 0.1,
        "cut figure": 0.02,
    },
)

_INVENTED = (
    ", at {n}% less cost,",
    ", saving {n} hours a week,",
    ", within {n} days,",
    ", for {n} clients,",
    ", with a team of {n},",
    ", on a ${n}K budget,",
)
VERBS = """accelerating accepting achieving acquiring adapting adding adjusting administering
adopting advising agreeing aligning allocating analyzing announcing answering applying appointing
approving archiving arranging assembling assessing assigning assuring attending attracting auditing
authoring automating awarding backing balancing banning benchmarking billing blocking booking
boosting branding briefing bringing broadening brokering budgeting building buying calculating
calibrating calling canceling capping capturing carrying catching chairing championing changing
charting checking choosing circulating citing clarifying classifying cleaning clearing closing
coaching coding collaborating collecting combining commissioning comparing compiling completing
composing compressing computing conducting configuring connecting consolidating constructing
consulting contacting containing contracting contributing controlling converting convincing
coordinating copying correcting counting covering crafting creating cultivating curating
customizing cutting debugging decorating decreasing defending defining delegating delivering
demonstrating deploying deriving describing designing detailing detecting determining developing
devising diagnosing digitizing directing discovering dispatching displaying distributing diverting
dividing docking documenting doing doubling drafting drawing drilling driving dropping duplicating
easing editing educating eliminating embedding enabling encoding encrypting ending enforcing
engineering enlarging enriching ensuring entering equipping erecting escalating establishing
estimating evaluating examining exchanging executing expanding explaining exploring exporting
extending extracting fabricating facilitating feeding fighting filing filling filming filtering
financing finding finishing fitting fixing flagging following forecasting forging forming
formulating fortifying fostering founding framing freezing fulfilling funding gaining gathering
gauging generating giving grading granting grouping growing guarding guiding halving handing
hardening harmonizing harvesting heading hiring holding hosting identifying illustrating
implementing importing improving incorporating increasing indexing influencing informing initiating
inspecting installing instructing insuring integrating interpreting interviewing introducing
inventing investigating inviting isolating issuing joining judging keeping labeling launching
laying leading leasing lecturing leveling leveraging liaising licensing lifting limiting linking
listing loading lobbying localizing locating locking logging lowering maintaining making managing
manufacturing mapping marketing marking matching maximizing measuring mediating meeting mending
mentoring merging migrating minimizing mixing mobilizing modeling moderating modernizing modifying
monitoring motivating mounting moving naming narrowing navigating negotiating nominating noticing
observing obtaining offering onboarding opening operating optimizing orchestrating ordering
organizing outlining outsourcing overhauling overseeing packaging packing painting pairing
partnering passing patching paying performing persuading photographing picking piloting pioneering
pitching placing planning planting plotting polishing polling pooling porting posting predicting
preparing presenting preserving pressing preventing pricing printing prioritizing probing
processing procuring producing profiling programming projecting promoting proofreading proposing
protecting prototyping providing provisioning pruning publishing pulling purchasing pursuing
pushing qualifying quantifying querying questioning quoting raising ranking rating reading
rearranging reassigning rebranding rebuilding recalculating receiving recommending reconciling
recording recovering recruiting recycling redesigning redirecting reducing refactoring refining
reforming refreshing registering regulating rehearsing reimbursing releasing relocating removing
renaming renegotiating renewing renovating reordering reorganizing repairing replacing reporting
representing requesting rescheduling rescuing researching resizing resolving responding restoring
restructuring retaining retiring retrieving returning revealing reviewing revising reviving
rewarding rewording reworking rewriting ringing rolling rotating routing running sampling saving
scaling scanning scheduling scoping scoring screening scripting sealing searching securing seeding
segmenting selecting selling sending separating serving setting settling shadowing shaping sharing
shielding shifting shipping shooting shortening showing shrinking signing simplifying simulating
sizing sketching smoothing solving sorting sourcing speaking specifying speeding splitting
sponsoring spotting stabilizing staffing staging standardizing starting steering stitching stocking
stopping storing streamlining strengthening structuring studying submitting substituting suggesting
summarizing supervising supplying surfacing surveying sustaining swapping switching synchronizing
synthesizing tackling tagging tailoring taking targeting teaching telling testing throwing tidying
tightening timing touring tracing tracking trading training transcribing transferring transforming
translating transporting treating triaging trialing trimming tripling troubleshooting tuning
turning tutoring typing uncovering unifying unlocking updating upgrading uploading using utilizing
validating verifying vetting visiting visualizing volunteering warning washing watching weighing
welcoming widening winning wiring withdrawing wording wrapping writing"""
"""Common verbs, for weak heads and for what they become."""
_FAULTS = ("head", "filler", "point", "marker")
"""What a strange page's bullets may suffer from."""
_TRIFLES = "a list, an eye, some notes, a folder, old files, a shelf, the minutes, a seat"
_CLAUSES = "in which, on which, after which, during which, with which, where, so that, while"
_FRAME = """because been from instance meanwhile namely notably particular particularly since
specifically such that then thereby these those until were when where whereby whereupon which while
whom with"""
_WORD_OR_FILLER = re.compile(rf"{FILLER.pattern}|(?P<word>[A-Z]?[a-z]{{4,}})")
_BULLET = re.compile(r"([-*+]) (?=\S)")


def act(session: Session, rng: Random, habits: Habits = HASTY) -> str:
    """The text of the next turn."""
    turns_left = session.rules.max_turns - session.state.turns
    if session.state.turns == 0 and rng.random() < habits.review:
        return tool_call("review")
    over = session.state.document.lines > session.rules.page_lines
    crafts: dict[str, list[Edit]] = {}
    for kind, edit in _crafts(session.task.resume, session.resume):
        crafts.setdefault(kind, []).append(edit)
    idle = not over and crafts.keys() <= {"cut", "cut figure"}
    ready = habits.submit if turns_left == 1 else habits.stop * idle
    if rng.random() < ready:
        return tool_call("submit")
    kinds = [kind for kind in habits.kinds if crafts.get(kind)]
    weights = [
        habits.kinds[kind] * (600 if over and kind.startswith("cut") else 1) for kind in kinds
    ]
    if not kinds or rng.random() < habits.invent:
        old, new = _invent(session.task.resume, session.resume, rng)
    else:
        old, new = rng.choice(crafts[rng.choices(kinds, weights)[0]])
    if rng.random() < (habits.fumble if idle else habits.misquote):
        old = re.split(r"(?<=.) ", old)[0] + " "
    return tool_call("str_replace", old=old, new=new)


def estrange(resume: str, rng: Random) -> str:
    """A resume whose bullets say less than they did, or nothing: other words, at a random rate.

    Weak heads, fillers, the frames of clauses and figures stay; verbs become other verbs, and some
    bullets get a fault, of one or two kinds on a page. Whoever has to edit such pages cannot know
    their lines by heart, as it can those of a bank of a few hundred bullets, nor tell from a line's
    words with which word it starts, and so has to read.
    """
    words: list[str] = re.findall(r"\b[a-z]{4,}\b", resume)
    verbs = VERBS.split()
    regular = [past for past in map(past_tense, verbs) if past.endswith("ed")]
    rate = rng.random() ** 0.5

    def word(match: re.Match[str]) -> str:
        if not match["word"] or match[0] in _FRAME.split() or rng.random() > rate:
            return match[0]
        if match[0].endswith("ing"):
            new = rng.choice(verbs)
        elif match[0].endswith("ed"):
            new = rng.choice(regular)
        else:
            new = rng.choice(words)
            if rng.random() < 0.5:
                new = new[: rng.randint(1, 5)] + rng.choice(words)[-rng.randint(1, 5) :]
        return new.capitalize() if match[0][0].isupper() else new

    faults = rng.sample(_FAULTS, rng.randint(1, 2))
    share = rng.random() ** 0.5
    lines = resume.split("\n")
    for number, line in enumerate(lines):
        if _BULLET.match(line):
            if rng.random() < share:
                line = _spoilt(line, rng.choice(faults), rng)
            hedge = weak_head(line[2:])[0].rpartition(" ")[0]
            start = 2 + len(hedge)
            lines[number] = line[:start] + _WORD_OR_FILLER.sub(word, line[start:])
    return "\n".join(lines)


def _spoilt(line: str, fault: str, rng: Random) -> str:
    """A bullet with a fault that the editor mends; as it is where the fault does not suit it."""
    marker, text = line[:2], line[2:]
    first, *words = text.split(" ")
    if fault == "marker":
        return f"{rng.choice('*+')} {text}"
    if first == "I" or weak_head(text)[0] or len(words) < 6:
        return line
    place = rng.randint(1, 4)
    before, after = " ".join([first, *words[:place]]), " ".join(words[place:])
    if fault == "head":
        return f"{marker}{rng.choice(OPENERS)} {rng.choice(VERBS.split())} {' '.join(words)}"
    if fault == "filler":
        return f"{marker}{before} {rng.choice(FILLERS)} {after}"
    if fault == "point" and first.endswith("ed"):
        beside = rng.choice([word for word in words if word.isalpha()] or ["others"])
        told = f"{' '.join(words[:place])} was {first.lower()} {after}"
        return f"{marker}Kept {_one(_TRIFLES, rng)} for {beside}, {_one(_CLAUSES, rng)} {told}"
    return line


def _one(phrases: str, rng: Random) -> str:
    return rng.choice(re.split(r",\s", phrases))


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
    for line in lines:
        if not _BULLET.match(line):
            heading = re.fullmatch(r"\*\*([^*]+)\*\*|([A-Z][A-Z &]{3,})", line)
            if heading and resume.count(line) == 1:
                yield "format", (line, f"## {heading[1] or heading[2].title()}")
            continue
        if line in untouched:
            yield from _wording(line, resume)
        if line[0] != marker and (old := _first_words(line, 2, resume)):
            yield "format", (old, marker + old[1:])
        # a line with a figure is seldom the one to lose
        if resume.count(line + "\n") == 1:
            yield "cut" if not re.search(r"\d", line) else "cut figure", (line + "\n", "")


def _wording(line: str, resume: str) -> Iterator[tuple[str, Edit]]:
    """Plainer words for one bullet."""
    marker, text = line[:2], line[2:]
    weak, verb = weak_head(text)
    if weak and (old := _first_words(line, len(weak.split()), resume)):
        verb = verb.removeprefix("I ")
        new = f"{marker}{verb[0].upper()}{verb[1:]}"
        yield "head", (old, old.replace(marker + weak, new, 1))
    if (told := point(text)) and not weak:
        words = zip(reversed(text.split(" ")), reversed(told.split(" ")), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], words))
        rest = "".join(f" {word}" for word in text.split(" ")[len(text.split(" ")) - same :])
        yield "point", (marker + text.removesuffix(rest), marker + told.removesuffix(rest))
    for filler in FILLER.finditer(line):
        start = line.rfind(" ", 0, filler.start())
        quotes = (line[first : filler.end()] for first in (filler.start(), start))
        if old := next((quote for quote in quotes if resume.count(quote) == 1), ""):
            yield "filler", (old, old.removesuffix(filler[0]))


def _first_words(line: str, least: int, resume: str) -> str:
    """The shortest head of a bullet, of at least so many words, that occurs once; or nothing."""
    words = line.split(" ")
    heads = (" ".join(words[:n]) for n in range(least + 1, min(least + 4, len(words)) + 1))
    return next((head for head in heads if resume.count(head) == 1), "")


def _invent(original: str, resume: str, rng: Random) -> Edit:
    """A figure that nobody has ever measured, after a bullet's first words."""
    untouched = set(original.split("\n"))
    bullets = [line for line in resume.split("\n") if _BULLET.match(line) and line in untouched]
    line = rng.choice(bullets) if bullets else resume
    head = _first_words(line, 1, resume) or line
    return head, head + rng.choice(_INVENTED).format(n=rng.randint(2, 99))
