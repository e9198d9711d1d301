"""What the rubric judge takes for much, little and near; calibrated on labelled revisions.

`benchmarks/judge.py` and `resume-gym judge calibrate` show what a change of them does.
"""

HALF = 0.5
"""Share of a line that has to be in order, kept, or in its source; below, it is another line."""

QUARTER = 0.25
"""Share of its meaning that a better line may lose; progress from which a line says much more."""

NEARER = 0.1
"""Least progress of a line towards its fix."""

FEW = 3
"""Words in which two lines differ little: an exchanged verb, a phrase by the way, half a word."""

SEVERAL = 2
"""New words, or needless changes per better one, from which it is no slip."""

WINDOW = 5
"""Words on either side of a verb or a figure that are its context."""

ALIKE = 0.4
"""Least similarity of a line and its restatement."""

RIVAL = 0.7
"""Share of the best similarity from which another line is about as similar."""

STEP = 0.5
"""Preference for each further better, or worse, change; more than one change is more certain."""
