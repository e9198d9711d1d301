"""Evaluation of agents: play and grade episodes, then compute and compare statistics.

`play` plays one episode of a scripted agent, `evaluate` plays and grades many episodes, and `grade`
asks a judge to grade finished episodes; only training asks for the scores of `score_group`.
`records` defines the record of an episode, `summary` the figures of many episodes, each task
counting once (`estimator`); `comparison` adds confidence intervals and paired tests, and `table`
formats results.
`resume-gym eval` is built on `specs` (parses `--agent`), `players` (play one episode), `loop` (runs
episodes concurrently), `contest` (runs the evaluation) and `results` (writes the output folder).

A trained policy is one more player, so this package does not import `learners`.
"""

from resume_gym.evaluation.grading import grade, score_group
from resume_gym.evaluation.loop import Loop, episode_seed, evaluate
from resume_gym.evaluation.players import play
from resume_gym.evaluation.records import Episode
from resume_gym.evaluation.summary import Returns, Summary, summarise
from resume_gym.evaluation.table import table

__all__ = [
    "Episode",
    "Loop",
    "Returns",
    "Summary",
    "episode_seed",
    "evaluate",
    "grade",
    "play",
    "score_group",
    "summarise",
    "table",
]
