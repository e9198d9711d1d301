"""Thresholds of the rubric judge, calibrated on labelled revisions.

`benchmarks/judge.py` and `resume-gym judge calibrate` measure the effect of a changed threshold.
"""

HALF = 0.5
"""Minimum share of content, and of word order (`order_kept`), that a rewrite must keep."""

QUARTER = 0.25
"""Maximum share of the content that an improved line may lose; also the minimum progress of a line
towards its fix (`rubric.progress`) that counts as large."""

NEARER = 0.1
"""Minimum progress of a line towards its fix (`rubric.progress`) that counts as improvement."""

FEW = 3
"""Maximum number of words in a small difference, and minimum number of words in a real overlap."""

SEVERAL = 2
"""Minimum number of new words that matter; also the maximum number of changes without benefit per
improving change."""

WINDOW = 5
"""Number of words on either side of a verb or a figure that form its context."""

ALIKE = 0.4
"""Minimum similarity of a line to a statement that the line restates."""

RIVAL = 0.7
"""Two revised lines compete for the same original line if the lower of their similarities to this
line is at least this share of the higher similarity."""

STEP = 0.5
"""Amount by which the preference score rises per further improvement and falls per decline."""
