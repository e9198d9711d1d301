"""`ResumeEditEvidence-v0`: `ResumeEdit-v0` with a tool that searches the candidate's documents.

The documents describe the work in the resume in other words and with the true figures; they also
describe work of other people. Some documents correct a figure of the resume, and some say that the
candidate only helped with a piece of work. The judge receives the task's documents in every
environment; the agent can search them only in `ResumeEditEvidence-v0`. A search costs a turn.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from resume_gym.episode.document import Edit
from resume_gym.episode.editing import Shown
from resume_gym.episode.session import SYSTEM_PROMPT, Session
from resume_gym.episode.tasks import Evidence
from resume_gym.episode.tools import TOOLS, FailedCall, Toolbox, ToolCall, schema

PASSAGES = 3
"""Maximum number of passages that a search shows."""
SEARCH = schema(
    "search",
    f"Show at most {PASSAGES} passages from documents about the candidate, best match first.",
    {"query": {"type": "string", "description": "words of the passage"}},
    ["query"],
)


class Passage(NamedTuple):
    """A passage of a document.

    Attributes:
        name: kind of the document, and number of the passage within it, such as "portfolio 3".
        heading: second-level heading above the passage; empty if there is none.
        text: a sentence of a paragraph or of a list item.
    """

    name: str
    heading: str
    text: str

    def __str__(self) -> str:
        where = f" ({self.heading})" if self.heading else ""
        return f"[{self.name}{where}] {self.text}"


def passages(documents: Sequence[Evidence]) -> list[Passage]:
    """Split documents into passages, in order."""
    found: list[Passage] = []
    for document in documents:
        heading, number = "", 0
        for line in document.text.split("\n"):
            if line.startswith("#"):
                heading = line.lstrip("# ") if line.startswith("## ") else ""
                continue
            for sentence in re.split(r"(?<=[.!?]) +(?=[A-Z])", line.lstrip("-* ").strip()):
                if sentence:
                    number += 1
                    kind = document.kind.replace("_", " ")
                    found.append(Passage(f"{kind} {number}", heading, sentence))
    return found


@lru_cache(maxsize=256)
def _index(documents: tuple[Evidence, ...]) -> tuple[list[Passage], Any]:
    """Return the documents' passages and their BM25 index (None if the passages have no words)."""
    import bm25s  # imported here, since only searches need it

    found = passages(documents)
    words = [_words(f"{one.heading} {one.text}") for one in found]
    index = bm25s.BM25()
    if any(words):
        index.index(words, show_progress=False)
    return found, index if any(words) else None


def search(documents: tuple[Evidence, ...], query: str) -> list[Passage]:
    """Return at most `PASSAGES` passages that share words with a query, best match first.

    Passages are scored by BM25 (Robertson and Zaragoza 2009) over word stems, without stop words.
    """
    found, index = _index(documents)
    words = _words(query)
    if index is None or not words:
        return []
    scores = index.get_scores(words)
    order = sorted(range(len(found)), key=lambda n: -scores[n])
    return [found[n] for n in order[:PASSAGES] if scores[n] > 0]


def _words(text: str) -> list[str]:
    import bm25s
    from snowballstemmer import stemmer

    (words,) = bm25s.tokenize(
        text, stopwords="en", stemmer=stemmer("english").stemWords, return_ids=False,
        show_progress=False,
    )  # fmt: skip
    return list(words)


class EvidenceSession(Session):
    """One episode on one resume, with a search over the task's documents."""

    __slots__ = ()

    system_prompt = (
        f"{SYSTEM_PROMPT} Documents about the candidate hold figures that the resume lacks: search "
        "them, and add only figures that they state about the same work."
    )
    toolbox = Toolbox(TOOLS[0], SEARCH, *TOOLS[1:])

    def act(self, call: ToolCall) -> Edit | Shown | FailedCall:
        """Search the documents, replace text or show the page, depending on the call."""
        if call.name != "search":
            return super().act(call)
        query = call.arguments["query"]
        found = search(self.task.evidence, query)
        return Shown("\n".join(map(str, found)) or "no passage matches", paid=False)
