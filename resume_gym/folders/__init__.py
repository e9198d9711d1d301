"""Folders of runs and evaluations: one reader and one writer of their files.

`reader` reads in bounded memory and tells damaged lines from sound ones, `writer` appends whole
lines, replaces files atomically and locks the folder, and `jobs` says which files a run or an
evaluation has and whether its process is running.

What the lines of a file mean is the concern of its users, so this package does not import
`resume_gym.episode`, `resume_gym.evaluation` or `resume_gym.apps`.
"""
