"""Evaluation of agents: play and grade episodes, then compute and compare statistics.

`play` runs one episode of a scripted agent, `evaluate` runs many, and `grade` asks a judge about
finished episodes. `figures` defines the record of an episode and the summary of many, `comparison`
adds confidence intervals and paired tests, and `table` prints them. `resume-gym eval` is built on
`specs` (agents on the command line), `players` (asynchronous agents), `loop` (concurrent episodes),
`contest` (the whole evaluation) and `results` (its output folder).
"""

from resume_gym.evaluation.episodes import episode_seed, evaluate, grade, play
from resume_gym.evaluation.summary import Episode, Returns, Summary, summarise
from resume_gym.evaluation.table import table

__all__ = [
    "Episode",
    "Returns",
    "Summary",
    "episode_seed",
    "evaluate",
    "grade",
    "play",
    "summarise",
    "table",
]
