"""Rules by which the rewording of a line makes it better or worse.

Each rule yields the graded field that it concerns, and a text that says what has changed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from resume_gym.judges.rubric.damage import halved, torn
from resume_gym.judges.rubric.grammar import broken
from resume_gym.judges.rubric.licences import STEWARDS, Rewrite
from resume_gym.judges.rubric.phrasing import (
    is_verbless,
    named,
    placed,
    result_first,
    shorn,
    unpraised,
)
from resume_gym.judges.rubric.progress import missing, wordier
from resume_gym.text.lines import GLUE, LEXICON, Content, Line, any_of
from resume_gym.text.reference import Reference
from resume_gym.text.spelling import strange
from resume_gym.text.style import (
    Formatting,
    empties,
    fillers,
    format_faults,
    gerund,
    head,
    is_weak,
    light,
    passive,
)
from resume_gym.text.thresholds import FEW, HALF, NEARER, QUARTER
from resume_gym.text.verbs import VERB_STEMS

_QUANTIFIER = any_of(LEXICON["words"]["quantifiers"])
SUBSTANCE = "substance"
"""Key in `Change.harms` for harm to the resume's content, which no graded field covers."""
FORM = {1: "formatted like the rest", -1: "formatted unlike the rest"}


class Page(NamedTuple):
    """A revision, its alignment with the original (`origins`), and the formatting of both texts."""

    lines: tuple[Line, ...]
    origins: tuple[tuple[int, ...], ...]
    reference: Reference
    before: Formatting
    after: Formatting

    def faults(self, line: Line) -> float:
        """Return the number of formatting faults of a line.

        The line is compared with the formatting of both texts, and the lower number is returned.
        """
        return min(format_faults(line, self.before), format_faults(line, self.after))


def harms_of(
    page: Page,
    originals: Sequence[Line],
    old: Content,
    line: Line,
    whole: Content,
    rewording: Rewrite,
    fixed: Sequence[Content],
) -> Iterator[tuple[str, str]]:
    """Yield each field that a rewritten line makes worse, and the rule that applies.

    `whole` is the content of the line, joined with a line split off from it (`signals._whole`).
    """
    new = line.content
    praise = originals[0].kind == "text" and (
        shorn(old, new, page.reference.knows) or unpraised(old, new)
    )
    # An unsupported new verb does harm if little else has changed or no word list has the verb. But
    # a summary needs no verb.
    opens = originals[0].kind == "bullet" or not (praise or is_verbless(old))
    swapped = opens and rewording.verb == "swapped" and not named(old, new)
    if swapped and rewording.nearer < QUARTER:
        bare = not is_weak(old) and len(frozenset(old.keys) ^ frozenset(new.keys)) <= FEW
        shorter = not rewording.lost and wordier(old, new) < 0
        if (bare or new.keys[head(new).at] not in VERB_STEMS) and not shorter:
            yield "action_verbs", "the new verb has no support"
    weaker = rewording.verb == "weak" and not is_weak(old) and rewording.nearer < QUARTER
    weaker = weaker and new.keys[0] not in old.keys
    passed = passive(new) > 0 and old.keys[head(old).at] == new.keys[passive(new)]
    if weaker or passed or (gerund(new) and head(old).kind == "plain" and _past_form(old, new)):
        yield "action_verbs", "opens weakly"
    if not praise and rewording.lost > HALF and rewording.nearer <= 0:
        yield SUBSTANCE, "more than half of the content is gone"
    # Added fillers do no harm if the source contains fillers, too.
    wordy = wordier(old, new) > 0 and not (rewording.source and fillers(rewording.source.body))
    untidy = format_faults(line, page.after) > max(map(page.faults, originals))
    unclear = (
        ("joins lines", len(originals) > 1),
        ("wordier", wordy),
        (FORM[-1], untidy),
        ("ungrammatical", broken(old, new)),
        ("part of a filler is left", halved(old, new) == "torn"),
    )
    yield from (("clarity", rule) for rule, broke in unclear if broke)
    if fault := torn(old, new, (*fixed, *filter(None, [rewording.source]))):
        yield "clarity", fault
    # a false claim is no fault of clarity
    if rewording.fresh and not rewording.claims and _inserted(old, new, rewording.fresh):
        yield "clarity", "adds words without support"
    if word := strange(new, page.reference.spelt):
        yield "clarity", f'"{word}" is no English word'
    wanted = (rewording.source or old).values
    if not rewording.corrected and any(one.value in wanted for one in missing(old, whole)):
        yield "quantification", "a figure is gone"


def tidied(
    line: Line, old: Content, new: Content, rewording: Rewrite, reference: Reference
) -> Iterator[tuple[str, str]]:
    """Yield each field that a line improves by reordering or omitting words, and the rule."""
    if rewording.claims:
        return
    if line.kind == "text" and (shorn(old, new, reference.knows) or unpraised(old, new)):
        yield "clarity", "praise without content is gone"
    runs = bool(head(old).charge) and new.keys[0] in STEWARDS
    if runs and line.kind == "text" and rewording.plain and not rewording.lost:
        yield "action_verbs", "opens with what was done"
    if rewording.fresh or line.kind != "bullet" or rewording.lost > QUARTER or missing(old, new):
        return
    if rewording.verb in ("kept", "licensed") and placed(old, new):
        yield "clarity", "the figure stands with what it counts"
    if rewording.verb == "licensed" and result_first(old, new):
        yield "clarity", "states the result first"
    active = passive(old) > 0 > passive(new) and old.keys[passive(old)] == new.keys[head(new).at]
    if active or named(old, new) or runs:
        yield "action_verbs", "opens with what was done"


def _inserted(old: Content, new: Content, fresh: Sequence[str]) -> bool:
    """Return whether a line is its original with unsupported words put in between."""
    kept = LCSseq.similarity(old.tokens, new.tokens)
    added = {*(Counter(new.tokens) - Counter(old.tokens))} - GLUE
    plain = any(len(word) > FEW and not word.endswith("ly") for word in added)  # not "one", "can"
    return kept == len(old.tokens) and plain and added <= {*fresh}


def _past_form(old: Content, new: Content) -> bool:
    """Return whether `old` opens with the past tense of the verb that opens `new`."""
    return not gerund(old) and old.keys[head(old).at] == new.keys[0]


def _shortened(old: Content, new: Content) -> bool:
    """Return whether `new` is `old` without some fillers or phrases, but with all quantifiers."""
    codes = SequenceMatcher(None, old.tokens, new.tokens, autojunk=False).get_opcodes()
    changed = [(old.tokens[a:b], new.tokens[c:d]) for kind, a, b, c, d in codes if kind != "equal"]
    return all(
        # "and" may be added: a list that loses "and so on" needs "and" before its last item
        {*added} <= {"and"} and (added or fillers(" ".join(gone)) or not GLUE.issuperset(gone))
        for gone, added in changed
    ) and not any(_QUANTIFIER.search(" ".join(gone)) for gone, _ in changed if gone != ("various",))


def gains_of(page: Page, old: Line, line: Line, rewording: Rewrite) -> Iterator[tuple[str, str]]:
    """Yield each field that a supported line improves, and the rule that applies."""
    new, was = line.content, old.content
    kept = rewording.lost <= QUARTER or rewording.nearer >= QUARTER
    bare = (gerund(was) or was.tokens[1:2] == ("of",)) and was.keys[0] == new.keys[0]
    bare = bare and not gerund(new) and was.tokens[0] != new.tokens[0]
    acts = rewording.verb == "licensed" and not new.tokens[head(new).at].endswith("ing")
    acts = acts or (bare and rewording.verb == "kept")
    noun = head(was).kind == "noun" or was.tokens[1:2] == ("of",)
    weak = is_weak(was) or passive(was) > 0 or light(was) or bare
    weak = (weak or noun) and head(new).kind == "plain" and passive(new) < 0 and not light(new)
    weak = weak or bare
    if old.kind == "bullet" and weak and acts and kept:
        yield "action_verbs", "opens with what was done"
        if len(new.tokens) < len(was.tokens):
            yield "clarity", "says it in fewer words"
    rid = empties(new.body) < empties(was.body) and rewording.plain
    if (
        not rewording.lost
        and not halved(was, new)
        and (rid or (wordier(was, new) < 0 and _shortened(was, new)))
    ):
        yield "clarity", "filler is gone"
    if rewording.nearer >= NEARER and kept:
        yield "clarity", "states the point plainly"
        if page.reference.aside:
            yield "jd_alignment", "what the job asks for is no longer said in passing"
    tells = rewording.told > 0 and old.kind == "bullet" and (kept or rewording.nearer >= NEARER)
    if rewording.corrected or tells:
        yield "quantification", "states a known figure"
    tidier = format_faults(line, page.after) < page.faults(old)
    if tidier and sorted(new.tokens) == sorted(was.tokens):
        yield "clarity", FORM[1]
