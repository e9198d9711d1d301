"""Thresholds of the rubric judge, calibrated on labelled revisions.

`benchmarks/judge.py` and `resume-gym judge calibrate` measure the effect of a change.
"""

HALF = 0.5
"""Share of a line whose order or content must be kept; below it, the line is another one."""

QUARTER = 0.25
"""Maximum share of meaning that a better line may lose; minimum progress that counts as much."""

NEARER = 0.1
"""Minimum progress of a line towards its fix that counts as a gain."""

FEW = 3
"""Number of words that make a small difference between lines, or a meaningful overlap."""

SEVERAL = 2
"""Number of new words, or of needless changes per better one, that is more than a slip."""

WINDOW = 5
"""Size of the context of a verb or a figure, in words on either side."""

ALIKE = 0.4
"""Minimum similarity of a line and its restatement."""

RIVAL = 0.7
"""Minimum share of the best similarity at which another line is about as similar."""

STEP = 0.5
"""Step of the preference per further better or worse change, which raises the confidence."""
