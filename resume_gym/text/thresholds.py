"""Thresholds of the rubric judge, calibrated on labelled revisions.

`benchmarks/judge.py` and `resume-gym judge calibrate` measure the effect of a changed threshold.
"""

HALF = 0.5
"""Minimum share of a line's word order or content that a rewrite of the line must keep."""

QUARTER = 0.25
"""Maximum share of content that a better line may lose; minimum progress that counts as large."""

NEARER = 0.1
"""Minimum progress of a line towards its fix that counts as a gain."""

FEW = 3
"""Maximum number of words in a small difference; minimum number of words in a real overlap."""

SEVERAL = 2
"""Minimum number of new words that matter; maximum number of needless changes per better one."""

WINDOW = 5
"""Size of the context of a verb or a figure, in words on either side."""

ALIKE = 0.4
"""Minimum similarity of a line to a statement that the line restates."""

RIVAL = 0.7
"""Two lines compete for an original line if their similarities to it have at least this ratio."""

STEP = 0.5
"""Amount by which each additional better (worse) change raises (lowers) the preference score."""
