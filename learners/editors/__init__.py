"""Scripted editors of resumes, which policies imitate.

`apprentice` carries out every kind of edit cleanly and has no taste. A policy that imitates it can
edit, but does not know which edits are worth making; the reward has to teach it that. Half of the
apprentice's edits repair weaknesses of the page: they are fixes of the task, or edits of the
scripted agent `careful`. The other half is put in on purpose, since a small model does not bring
bad edits along: another function word, another word of a small table, a good line deleted, a line
cut short, and an invented figure or tool. Kinds and lines are drawn at random, but the edits go
from top to bottom and touch each line once. Reviews and submits come at random times. Figures of
repairs are only copied from search results.

The other editors are for comparison: `repairs` is an apprentice that makes no useless and no
harmful edits, `careful` makes the edits of the scripted agent, and `fixes` those of the task that
need no search.
"""

from learners.editors.apprentice import apprentice, repairs
from learners.editors.episodes import EDITORS, edits_of_pages, episodes, samples
from learners.editors.hinted import hinted
from learners.editors.scripted import careful, fixes

__all__ = [
    "EDITORS",
    "apprentice",
    "careful",
    "edits_of_pages",
    "episodes",
    "fixes",
    "hinted",
    "repairs",
    "samples",
]
