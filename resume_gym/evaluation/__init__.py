"""Evaluation of agents: play and grade episodes, then compute and compare statistics.

`play` plays one episode of a scripted agent, `evaluate` plays and grades many episodes, and `grade`
asks a judge to grade finished episodes. `summary` defines the record of an episode and the means of
many episodes, `comparison` adds confidence intervals and paired tests, and `table` formats results.
`resume-gym eval` is built on `specs` (parses `--agent`), `players` (play one episode), `loop` (runs
episodes concurrently), `contest` (runs the evaluation) and `results` (writes the output folder).

A trained policy is one more player, so this package does not import `learners`.
"""

from resume_gym.evaluation.loop import episode_seed, evaluate, grade
from resume_gym.evaluation.players import play
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
