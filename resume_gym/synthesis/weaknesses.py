"""Planted weaknesses of a resume, and the fixes that repair them.

`weaken` applies the four weaknesses of single bullets, and `disorder` applies
formatting_inconsistent. The modules `procedural` and `drafts` apply too_long by adding content.
"""

import re
from collections.abc import Sequence
from random import Random

from rapidfuzz.distance import Postfix, Prefix

from resume_gym.episode.tasks import Fix
from resume_gym.synthesis.content import Deed, Story, load_forms
from resume_gym.synthesis.writing import MONTHS
from resume_gym.text.lines import MONTH_NAMES

OPENERS: Sequence[str] = load_forms()["openers"]
"""Openings, such as "Responsible for", that present the work as a mere duty."""

HEDGES: Sequence[str] = load_forms()["hedges"]
"""Openings that truthfully say that the candidate only helped."""

_MONTH = re.compile(rf"\b({'|'.join(MONTHS)}) (\d{{4}})\b")
# In the first person, these openings become "I was responsible for ..." (_VERBLESS) and "My duties
# included ..." (_OF_MINE).
_VERBLESS = re.compile(r"(Responsible|Tasked|In charge|Entrusted|Involved) ")
_OF_MINE = re.compile(r"(Duties|Tasks|Responsibilities|Work) (included|consisted) ")


def can_be_spoilt(deed: Deed, weakness: str) -> bool:
    """Return whether a deed can have a true and grammatical bullet with the given weakness."""
    return deed.is_duty or (
        deed.has_metric if weakness == "no_metrics" else weakness != "weak_verbs"
    )


def weaken(
    story: Story, weakness: str, opener: str, record: str, shown: bool = False
) -> tuple[str, tuple[Fix, ...]]:
    """Return the weak form of a bullet and the fixes that repair it, in order.

    Args:
        story: texts about the piece of work that the bullet describes.
        weakness: vague_bullets, no_metrics, wrong_emphasis or weak_verbs.
        opener: weak opening, one of `OPENERS`; empty if none fits the work.
        record: sentence that states, as a fact, what the good form of the bullet says.
        shown: whether the results section states the metric. If not, a no_metrics bullet
            opens with `opener`, a flaw that an agent can repair without the evidence.
    """
    facts = (record,)
    if weakness == "vague_bullets":
        return story.vague, (Fix(story.vague, story.plain, facts),)
    if weakness == "wrong_emphasis":
        return story.buried, (Fix(story.buried, story.told, facts),)
    good = story.plain if weakness == "no_metrics" else story.told
    verb, rest = good.split(" ", 1)
    hidden = Fix(f"{opener} {story.gerund}", verb, facts)
    weak = f"{hidden.old} {rest}"
    if weakness == "weak_verbs" or not story.metric:
        return weak, (hidden,)
    measured = Fix(good, story.told, facts, needs_evidence=not shown)
    return (good, (measured,)) if shown or not opener else (weak, (hidden, measured))


def in_first_person(text: str) -> str:
    """Rewrite a bullet in the first person."""
    if not text or text.startswith("My "):
        return text
    lower = f"{text[0].lower()}{text[1:]}"
    if _OF_MINE.match(text):
        return f"My {lower}"
    return f"I {'was ' if _VERBLESS.match(text) else ''}{lower}"


def disorder(text: str, bullets: int, rng: Random) -> tuple[str, list[Fix]]:
    """Break the formatting of `bullets` bullets, one heading and the dates of one job.

    Bullets get another marker, a final period or a double space; the heading becomes bold or upper
    case; the months get another style. Only the formatting changes, not the content.

    Returns:
        The resume and its fixes, in the order of the lines.
    """
    lines = text.split("\n")
    headings = [i for i, line in enumerate(lines) if line.startswith("## ")]
    dated = [i for i, line in enumerate(lines) if _MONTH.search(line)]
    listed = [i for i, line in enumerate(lines) if line.startswith("- ")]
    broken = {i: _break_bullet(lines[i], n, rng) for n, i in enumerate(rng.sample(listed, bullets))}
    for i in rng.sample(headings, 1):
        title = lines[i].removeprefix("## ")
        broken[i] = rng.choice((f"**{title}**", title.upper()))
    for i in rng.sample(dated, 1):
        broken[i] = _redate(lines[i], rng)
    messy = "\n".join(broken.get(i, line) for i, line in enumerate(lines))
    return messy, [_narrow(broken[i], lines[i], messy) for i in sorted(broken)]


def deletion(passage: str) -> Fix:
    """Return the fix that deletes `passage`, which consists of whole lines, but not the first."""
    return Fix("\n" + passage, "")


def _break_bullet(line: str, turn: int, rng: Random) -> str:
    """Return the bullet with one or two formatting defects; `turn` modulo 4 selects which."""
    content = line.removeprefix("- ")
    marker = "- " if turn % 4 == 1 else rng.choice(("* ", "+ "))
    if turn % 4 == 2:
        words = content.split(" ")
        cut = rng.randrange(1, len(words))
        content = " ".join(words[:cut]) + "  " + " ".join(words[cut:])
    return marker + content + ("." if turn % 4 in (1, 3) else "")


def _redate(line: str, rng: Random) -> str:
    """Rewrite the months of a line in another style, with "to" or "--" between them."""
    styles = (
        lambda hit: f"{MONTHS.index(hit[1]) + 1:02d}/{hit[2]}",
        lambda hit: f"{MONTH_NAMES[MONTHS.index(hit[1])]} {hit[2]}",
        lambda hit: f"{hit[2]}-{MONTHS.index(hit[1]) + 1:02d}",
    )
    dash = rng.choice((" to ", " -- "))
    return _MONTH.sub(rng.choice(styles), line).replace(" - ", dash)


def _narrow(messy: str, clean: str, document: str) -> Fix:
    """Return a short fix that turns `messy` into `clean`; its `old` occurs once in `document`."""
    # Include some unchanged words on both sides, which show where the fix belongs.
    before, after = messy.split(" "), clean.split(" ")
    head = Prefix.similarity(before, after)
    tail = Postfix.similarity(before[head:], after[head:])
    for context in (2, 4, len(before)):
        start, stop = max(0, head - context), max(0, tail - context)
        old = " ".join(before[start : len(before) - stop])
        if document.count(old) == 1:
            return Fix(old, " ".join(after[start : len(after) - stop]))
    return Fix(messy, clean)
