"""Thresholds of the rubric judge, calibrated on labelled revisions.

`benchmarks/judge.py` and `resume-gym judge calibrate` measure the effect of a change.
"""

HALF = 0.5
"""Minimum share of a line's order or content that a rewrite of the line must keep."""

QUARTER = 0.25
"""Maximum share of content that a better line may lose; least progress that counts as large."""

NEARER = 0.1
"""Minimum progress of a line towards its fix that counts as a gain."""

FEW = 3
"""Number of words up to which lines differ little, or from which lines overlap meaningfully."""

SEVERAL = 2
"""Minimum number of new words that matter; maximum of needless changes per better change."""

WINDOW = 5
"""Size of the context of a verb or a figure, in words on either side."""

ALIKE = 0.4
"""Minimum similarity of a line and a statement that it restates."""

RIVAL = 0.7
"""Minimum share of a line's similarity to a unit that makes another line a rival for the unit."""

STEP = 0.5
"""Step of the preference per additional better or worse change; it raises the confidence."""
