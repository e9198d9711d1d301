"""Tasks, calls and scripted episodes that the tests of the adapters share."""

from resume_gym import load_tasks, tool_call
from resume_gym.testing.adapters import malformed_scripts, scripts

TASK = load_tasks("mini", "train")[0]
OTHER = load_tasks("mini", "train")[7]
REVIEW, SUBMIT = tool_call("review"), tool_call("submit")
SCRIPTS, MALFORMED = scripts(), malformed_scripts()
