"""Scripted editors of resumes, which policies imitate.

`apprentice` makes edits of every kind without errors, but does not judge their value. A policy that
imitates it can edit, but does not know which edits are worth making; it must learn that from
rewards. Half of the apprentice's edits repair weaknesses of the page: they are fixes of the task,
or edits of the scripted agent `careful`. The other half is useless or harmful on purpose, since a
small model would not sample such edits by itself: an exchanged function word, a synonym from a
small table, a deleted good line, a line cut short, and an invented figure or tool. Kinds and lines
are drawn at random, but the edits go from top to bottom and touch each line once. Reviews and
submits come at random times. Repairs add only figures that are copied from search results.

The other editors are for comparison: `repairs` is an apprentice that makes no useless and no
harmful edits, `careful` makes the edits of the scripted agent, and `fixes` applies the fixes of the
task that need no search.
"""

from learners.editors.apprentice import apprentice, repairs
from learners.editors.episodes import (
    EDITORS,
    chat_of,
    edits_of_pages,
    episodes,
    samples,
    session_for,
    session_of,
)
from learners.editors.hinted import hinted
from learners.editors.scripted import careful, fixes

__all__ = [
    "EDITORS",
    "apprentice",
    "careful",
    "chat_of",
    "edits_of_pages",
    "episodes",
    "fixes",
    "hinted",
    "repairs",
    "samples",
    "session_for",
    "session_of",
]
