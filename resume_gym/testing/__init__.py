"""Checks for environments, judges and adapters; the checks need no test framework.

Each check exercises an implementation and raises an AssertionError at the first broken contract.
The message names the contract, the expected value and the actual value.

- `check_env` checks an environment of any editing domain.
- `check_judge` checks a judge of resumes.
- `check_adapter` checks that an adapter to another library plays episodes as the environment does.

>>> from resume_gym.env import ResumeEditEnv
>>> from resume_gym.judges import make_judge
>>> check_env(ResumeEditEnv)
>>> check_judge(make_judge("rubric"))
>>> check_adapter(play_bare)

The checks do not measure quality: `resume-gym judge calibrate` measures how accurate a judge is,
and `resume-gym judge attack` finds policies that deceive the judge.
"""

from resume_gym.testing.adapters import Played, Script, check_adapter, play_bare
from resume_gym.testing.environments import check_env
from resume_gym.testing.judges import check_judge

__all__ = ["Played", "Script", "check_adapter", "check_env", "check_judge", "play_bare"]
