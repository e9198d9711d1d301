"""Evaluation: agents x tasks x rollouts -> episodes -> figures.

`play` is one episode of a scripted agent, `evaluate` many. `figures` has what remains of an
episode and what is made of many, `table` sets it side by side, `comparison` says how sure it is.
For `resume-gym eval`, `specs` names agents, `players` are those that have to be waited for, `loop`
plays many at once, `contest` holds all that is played, and `results` keeps it.
"""

from resume_gym.evaluation.episodes import episode_seed, evaluate, play
from resume_gym.evaluation.figures import Episode, Returns, Summary, summarise
from resume_gym.evaluation.table import table

__all__ = [
    "Episode",
    "Returns",
    "Summary",
    "episode_seed",
    "evaluate",
    "play",
    "summarise",
    "table",
]
