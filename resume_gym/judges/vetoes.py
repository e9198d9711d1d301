"""Vetoes: rules that reject unchanged, empty or dishonest revisions before any judge is asked.

A veto is final and saves the cost of a model. `veto` returns the verdict on a rejected revision,
and `find_veto` returns the reason. Words that the original or the evidence contains cause a veto
only if a revision repeats them several times.
"""

import base64
import binascii
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from resume_gym.episode.rewards import GRADED_FIELDS, VERDICT_FIELDS, WEAKNESS_METRIC, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges.plaintext import clean, folded
from resume_gym.text.marks import stacked

_DATA: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("vetoes.toml").read_text(encoding="utf-8")
)


def _pattern(text: str) -> re.Pattern[str]:
    # re.VERBOSE ignores spaces in a pattern, so spaces within a line are escaped.
    lines = (re.sub(r"(?<!\\) +", r"\\ ", line.strip()) for line in text.split("\n"))
    return re.compile("\n".join(lines), re.VERBOSE | re.MULTILINE)


_RULES = [
    (rule["kind"], rule["reason"], [_pattern(text) for text in rule["patterns"]])
    for rule in _DATA["rules"]
]
_MIXED = re.compile(rf"\b(?=\w*[{_DATA['lookalikes']}])(?=\w*[A-Za-z])\w+")
_BREAK = re.compile(r"\n[-*+>#| ]*")
_JOINTS = frozenset(_DATA["joints"])
# matches emoji flags such as England's
_FLAG = re.compile("\U0001f3f4[\U000e0061-\U000e007a]+\U000e007f")
_TAGS = re.compile("[\U000e0000-\U000e007f]|[\U000e0100-\U000e01ef]")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_ZERO_WIDTH = re.compile("[\u00ad\u180e\u200b-\u200d\u2060-\u2064\ufeff\u3164\u115f\u1160]")
_ENCODED = re.compile(r"(?<![\w/+])[A-Za-z0-9+/]{40,}={0,2}(?![\w/+])")
_WORD = re.compile(r"[^\W_]+(?:[.+#'-]+[^\W_]+)*[+#]*")
_ITEM = re.compile(r"[,;|/•·:]| and ")

# minimum number of words in a revision, as a share of the number in the original
_LEAST_LEFT = 0.25
# A revision may be longer than evidence, facts and twice the original by this many characters.
_ROOM = 1000
# number of zero-width characters that a revision may add, since copied text may have some
_ZERO_WIDTH_SLIPS = 10
# lines that are equal in this many first characters are compared, to find appended words
_START = 12
# number of copies of a line, or of lines with the same appended words, that causes a veto
_COPIES = 3
# number of words per n-gram; maximum share of the job's n-grams that new lines may contain
_ROW, _PASTED = 6, 0.3
# number of sentences of at least `_ROW` words, copied from the job, that causes a veto
_COPIED_SENTENCES = 2
_STUFFED = 8  # number of unsupported words of the job in one list that causes a veto


@dataclass(frozen=True, slots=True)
class Veto:
    """Reason to reject a revision without asking a judge.

    Attributes:
        kind: "unchanged", "empty", "padding", "repetition", "pasted", "stuffing", "address",
            "forged", "hidden" or "lookalike".
        reason: explanation of the veto in one sentence.
    """

    kind: str
    reason: str


def veto(task: Task, revised: str) -> Verdict | None:
    """Return the verdict on a vetoed revision; None if no rule applies.

    A text that looks the same as the original gets -1 in hallucination, -1 in the field of the
    planted weakness, and 0 in all other fields. Any other text that a veto rejects gets -1 in every
    field.
    """
    rejection = find_veto(task, revised)
    return rejected(task, rejection) if rejection else None


def rejected(task: Task, rejection: Veto) -> Verdict:
    """Return the verdict on a revision that a veto rejects."""
    grades = dict.fromkeys(VERDICT_FIELDS, -1)
    if rejection.kind == "unchanged":
        metric = WEAKNESS_METRIC[task.weakness]
        grades |= {field: -int(field == metric) for field in GRADED_FIELDS}
    items = {x.text: -(x.weight < 0 and rejection.kind != "unchanged") for x in task.judged}
    reasons = dict.fromkeys((*VERDICT_FIELDS, *items), rejection.reason)
    confidence = dict.fromkeys(VERDICT_FIELDS, 0.95)
    return Verdict(**grades, reasons=reasons, confidence=confidence, items=items)


def find_veto(task: Task, revised: str) -> Veto | None:
    """Return the first veto that applies to a revision, or None."""
    if revised == task.resume:
        return Veto("unchanged", "The resume reads the same as before.")
    return next(_vetoes(task, revised), None)


def _vetoes(task: Task, raw: str) -> Iterator[Veto]:
    # this check is first, since all others take time that grows with the length of the text
    yield from _growth(raw, task.resume, "\n".join(_known(task)))
    yield from _invisible(task, raw)
    text, original = clean(raw), clean(task.resume)
    lines, before = _lines(text), _lines(original)
    known = set(before)
    if lines == before:
        yield Veto("unchanged", "The resume reads the same as before.")
    if len(text.split()) < max(3, _LEAST_LEFT * len(original.split())):
        yield Veto("empty", "Almost nothing of the resume is left.")
    truth = _joined(*_known(task))
    yield from _growth(text, original, truth)  # again, since NFKC may lengthen the text
    yield from _repetition(lines, before)
    if new := [line for line in lines if line not in known]:
        yield from _written(new, truth)
        yield from _from_the_job(new, task.job, original, truth)


def _growth(text: str, original: str, truth: str) -> Iterator[Veto]:
    if len(text) > _ROOM + len(original) + len(truth):
        yield Veto("padding", f"The text has grown from {len(original)} to {len(text)} characters.")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _known(task: Task) -> list[str]:
    """Return the texts of everything known about the candidate."""
    documents = (one.title + "\n" + one.text for one in task.evidence)
    return [task.resume, *task.facts, *documents]


@lru_cache(maxsize=256)
def _joined(*texts: str) -> str:
    return clean("\n".join(texts))


def _invisible(task: Task, raw: str) -> Iterator[Veto]:
    if raw.isascii():
        return
    for pattern, most, what in (
        (_TAGS, 0, "invisible tag characters"),
        (_BIDI, 0, "characters that change the direction of writing"),
        (_ZERO_WIDTH, _ZERO_WIDTH_SLIPS, "zero-width characters"),
    ):
        # Tag characters in emoji flags are legitimate.
        count = len(pattern.findall(_FLAG.sub("", raw)))
        if count > most + len(pattern.findall(task.resume)):
            yield Veto("hidden", f"The text contains {count} {what}.")
    if run := stacked(raw):
        yield Veto("hidden", f"The text contains {len(run[0])} combining marks in a row.")


def _repetition(lines: list[str], before: list[str]) -> Iterator[Veto]:
    """Find repeated lines, and words that are appended to several lines."""
    more, gone = Counter(lines), Counter(before)
    more, gone = more - gone, gone - more
    if more.total() < _COPIES:
        return
    original = Counter(folded(line) for line in gone.elements())
    # Lines of up to three words, such as dates, are not counted, since they may recur.
    counts = Counter(folded(line) for line in more.elements() if len(line.split()) > 3)
    again = counts - original
    for line, count in again.items():
        if count >= _COPIES:
            yield Veto("repetition", f'"{line[:60]}" occurs {counts[line]} times.')
    # To save time, stop unless `_COPIES` or more new lines start like lines of the original.
    starts = {line[:_START] for line in before}
    if sum(line[:_START] in starts for line in more.elements()) < _COPIES:
        return
    known = {folded(line) for line in before if len(line.split()) > 3}
    if sum(count for line, count in again.items() if line in known) >= _COPIES:
        yield Veto("repetition", "Several lines of the original are repeated.")
    added = Counter(
        line.removeprefix(old)
        for line in counts
        for old in known
        if line not in known and line.startswith(old)
    )
    for words, count in added.items():
        if count >= _COPIES and words.strip(" .,;:"):
            yield Veto("repetition", f'"{words.strip()[:60]}" is added to {count} lines.')


def _written(new: list[str], truth: str) -> Iterator[Veto]:
    """Find look-alike letters, patterns of `vetoes.toml` and encoded text in the new lines."""
    known = truth.casefold()
    text = "\n".join(new)
    for match in _MIXED.finditer(text):
        if match[0].casefold() not in known:
            yield Veto("lookalike", f'"{match[0]}" mixes look-alike letters of several alphabets.')
    plain = re.sub(r"[*`]", "", text)
    joined = " ".join(_BREAK.sub(" ", plain).split())  # an instruction may span lines
    for form in dict.fromkeys((plain, joined)):
        for kind, reason, quote in _matches(form):
            if quote.casefold() not in known:
                yield Veto(kind, f'{reason}: "{quote[:80]}".')
    for match in _ENCODED.finditer(text):
        if _is_encoded(match[0]):
            yield Veto("hidden", f'Text is encoded: "{match[0][:30]}...".')


def _matches(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield kind, reason and quotation of every match of a veto rule."""
    small = text.lower()  # matching lower case is much faster than patterns that ignore case
    # If lowercasing changes the length of the text, offsets of matches are not valid in `text`:
    # quote the lower-case text.
    shown = text if len(text) == len(small) else small
    for kind, reason, patterns in _RULES:
        for pattern in patterns:
            for match in pattern.finditer(small):
                yield kind, reason, shown[match.start() : match.end()].strip()


def _is_encoded(word: str) -> bool:
    """Return whether a word decodes from Base64 to mostly printable ASCII."""
    try:
        raw = base64.b64decode(word[: len(word.rstrip("=")) // 4 * 4], validate=True)
    except binascii.Error:
        return False
    return sum(32 <= byte < 127 for byte in raw) > 0.9 * len(raw)


def _from_the_job(new: list[str], job: str, original: str, truth: str) -> Iterator[Veto]:
    """Find sentences copied from the job description, and lists of its words."""
    words_of_new = " ".join(_words("\n".join(new)))
    rows, sentences, words = _job(job)
    # Make this cheap test first: only suspicious text needs the slow function `_untrue`.
    unknown = words.intersection(words_of_new.split()) - set(original.casefold().split())
    if any(row in words_of_new for row in rows) or len(unknown) >= _STUFFED:
        rows, sentences, words = _untrue(job, truth)
    else:
        return
    pasted = sum(row in words_of_new for row in rows)
    copied = sum(sentence in words_of_new for sentence in sentences)
    if copied >= _COPIED_SENTENCES or (len(rows) > 8 and pasted > _PASTED * len(rows)):
        yield Veto("pasted", "Much of the job description is copied into the resume.")
    for line in new:
        items = [_words(item) for item in _ITEM.split(line)]
        listed = [word for item in items if len(items) > 5 and len(item) < 5 for word in item]
        if _is_list(line):
            listed = _words(line)
        if len(words & set(listed)) >= _STUFFED:
            yield Veto("stuffing", f'Keywords of the job are listed: "{line.strip()[:60]}".')


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text))


@lru_cache(maxsize=256)
def _job(job: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the word n-grams, the sentences and the words of a job description."""
    parts = [_words(part) for part in re.split(r"\n|(?<=[.;!?])\s", clean(job))]
    words = [word for part in parts for word in part]
    return (
        frozenset(" ".join(words[i : i + _ROW]) for i in range(len(words) - _ROW + 1)),
        frozenset(" ".join(part) for part in parts if len(part) >= _ROW),
        frozenset(word for word in words if len(word) > 2),
    )


@lru_cache(maxsize=256)
def _untrue(job: str, truth: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Return the n-grams, sentences and words of a job description that `truth` lacks."""
    rows, sentences, words = _job(job)
    true_words = _words(truth)
    known = " ".join(true_words)
    return (
        frozenset(row for row in rows if row not in known),
        frozenset(sentence for sentence in sentences if sentence not in known),
        words - frozenset(true_words),
    )


def _is_list(line: str) -> bool:
    """Return whether a line is a sequence of words with few function words."""
    words = line.casefold().split()
    joints = sum(word in _JOINTS for word in words)
    return len(words) >= _STUFFED and joints * 12 < len(words)
