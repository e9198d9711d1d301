"""Resume Gym: a Gymnasium environment for teaching language models to edit resumes.

Importing the package registers `ResumeEdit-v0`, `ResumeEditMini-v0` and their variants with
Gymnasium. The names in `__all__` are the complete public API.
"""

import sys

from resume_gym.support.import_path import leave_current_folder

# `python -m` puts the current folder first on the import path, so files in it shadow packages
if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] in ("resume_gym", "-mresume_gym"):
    leave_current_folder()

import gymnasium as gym

from resume_gym.episode.editing import EditSession
from resume_gym.episode.rewards import Verdict
from resume_gym.episode.session import Rules, Session, State, Step
from resume_gym.episode.sources import load_tasks
from resume_gym.episode.tasks import EDITION, WEAKNESSES, Fix, Task
from resume_gym.episode.tools import ERRORS, TOOLS, FailedCall, ToolCall, parse, tool_call
from resume_gym.support.user_errors import TaskError

__all__ = [
    "EDITION",
    "ERRORS",
    "TOOLS",
    "WEAKNESSES",
    "EditSession",
    "FailedCall",
    "Fix",
    "Rules",
    "Session",
    "State",
    "Step",
    "Task",
    "TaskError",
    "ToolCall",
    "Verdict",
    "load_tasks",
    "parse",
    "tool_call",
]

__version__ = "0.1.0"

# code written for earlier versions imports these modules from here, as in `resume_gym.tasks`
for _name in ("document", "editing", "rewards", "session", "tasks", "tools"):
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = sys.modules[
        f"{__name__}.episode.{_name}"
    ]

for _name, _kind, _options, _turns in (
    ("ResumeEdit", "env:ResumeEditEnv", {}, 6),
    ("ResumeEditEvidence", "env:ResumeEditEvidenceEnv", {}, 8),
    ("ResumeEditFeedback", "env:ResumeEditFeedbackEnv", {}, 8),
    ("ResumeEditNet", "env:ResumeEditNetEnv", {"layout_reward": "continuous"}, 6),
):
    _mini = {**_options, "tasks": "mini", "max_turns": _turns, "page_lines": 20}
    gym.register(id=f"{_name}-v0", entry_point=f"resume_gym.{_kind}", kwargs=_options)
    gym.register(id=f"{_name}Mini-v0", entry_point=f"resume_gym.{_kind}", kwargs=_mini)
