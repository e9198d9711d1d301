"""The apprentice: an editor that carries out every kind of edit cleanly and has no taste.

A policy that imitates the apprentice can edit, but does not know which edits are worth making; the
reward has to teach it that. Half of the apprentice's edits repair weaknesses of the page: they are
fixes of the task, or edits of the scripted agent `careful`. The other half is put in on purpose,
since a small model does not bring bad edits along: another function word, another word of a small
table, a good line deleted, a line cut short, and an invented figure or tool. Kinds and lines are
drawn at random, but the edits go from top to bottom and touch each line once. Reviews and submits
come at random times. Figures of repairs are only copied from search results.
"""

from learners.apprentice.editor import act
from learners.apprentice.episodes import episodes, samples
from learners.apprentice.hinted import hinted

__all__ = ["act", "episodes", "hinted", "samples"]
