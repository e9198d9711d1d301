"""Extraction of statements about the candidate from evidence documents."""

import re
from collections.abc import Iterable, Iterator

from resume_gym.episode.tasks import Evidence
from resume_gym.text.lines import LEXICON, Content, plain, read

_MINE = frozenset(("i", "my", "me", "i'm", "i've"))
_OTHERS = frozenset(LEXICON["words"]["others"])


def statements(evidence: Iterable[Evidence], name: str) -> Iterator[Content]:
    """Yield the statements about the candidate in evidence documents.

    A passage is a line of a document. Every passage that mentions the candidate, by name or as "I"
    or "my", is used. A passage that does not mention the candidate is skipped in two cases: if one
    of its first five words names another subject ("team"), or if at least three passages of the
    document, and at least half of all its passages, mention the candidate. In the second case, the
    other passages are probably about other people.
    """
    own = frozenset(word.lower() for word in name.split()) | _MINE
    for document in evidence:
        bodies = [
            plain(line.strip().lstrip("-* "))
            for line in document.text.split("\n")
            if line.strip() and not line.startswith("#")
        ]
        mine = [not own.isdisjoint(_words(body)) for body in bodies]
        usual = sum(mine) > 2 and 2 * sum(mine) >= len(mine)
        for body, named in zip(bodies, mine, strict=True):
            foreign = usual or not _OTHERS.isdisjoint(_words(body)[:5])
            if named or not foreign:
                yield from map(read, _sentences(body, own if named else frozenset()))


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


def _sentences(body: str, own: frozenset[str]) -> list[str]:
    """Split a passage into sentences.

    Unless `own` is empty, a sentence without a word of `own` is joined to the previous one.
    """
    found: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+", body):
        if found and own and own.isdisjoint(_words(sentence)):
            found[-1] += f" {sentence}"
        else:
            found.append(sentence)
    return found
