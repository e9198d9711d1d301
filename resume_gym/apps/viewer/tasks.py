"""Tasks of a viewed run or evaluation, loaded by its environment; the folder stores no tasks."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym

from resume_gym.env import EditEnv, find_edit_env
from resume_gym.episode.editing import AnySession
from resume_gym.episode.session import Session
from resume_gym.episode.sources import BUNDLED, LADDER
from resume_gym.support.shares import read_shares
from resume_gym.support.trust import FLAG
from resume_gym.synthesis.procedural import task_of, weakness_of

# task sources that generate at most 1,000 tasks and read no file
_HARMLESS = re.compile(
    r"(procedural|omission)(-mini)?:[0-9]{1,9}:([0-9]{1,3}|1000)|ladder(-mini)?:[0-9]{1,9}"
)


class Tasks(NamedTuple):
    """Tasks of the environment of a run or an evaluation.

    Attributes:
        by_id: tasks by ID.
        session_type: session class of the environment; None if unknown or if it edits no document.
        note: why the tasks could not be loaded; empty on success.
        env: the environment; None if unknown.
        more: whether training may have generated further tasks, which `by_id` lacks.
    """

    by_id: Mapping[str, Any] = {}
    session_type: type[AnySession] | None = None
    note: str = ""
    env: EditEnv | None = None
    more: bool = False

    @property
    def system_prompt(self) -> str:
        """The environment's system prompt, which records do not store; empty if unknown."""
        return str(getattr(self.session_type, "system_prompt", ""))

    def find(self, task_id: str) -> Any:
        """Return the task with this id; a task that training generated is generated again.

        Raises:
            KeyError: there is no such task.
        """
        return task_of(task_id) if self.more and task_id not in self.by_id else self.by_id[task_id]

    def weakness(self, task_id: str) -> str:
        """Return the weakness of a task; empty if unknown."""
        if self.more and task_id not in self.by_id:
            return weakness_of(task_id)
        return str(getattr(self.by_id.get(task_id), "weakness", ""))


def tasks_by_env(setting: str, source: str, trusted: bool) -> dict[str, Tasks]:
    """Load the tasks of all environments that the setting `env` names; see `find_tasks`.

    Returns:
        The tasks of each environment. The keys are the names that the episodes' records give the
        environments; the key of a single environment is empty.
    """
    try:
        envs = [*read_shares(setting)]
    except ValueError:
        envs = [setting]  # `find_tasks` says in a note that there is no such environment
    if len(envs) == 1:
        return {"": find_tasks(setting, source, trusted) if setting else Tasks()}
    return {env: find_tasks(env, source, trusted) for env in envs}


def find_tasks(env: str, source: str, trusted: bool) -> Tasks:
    """Load the tasks of an environment; a failure results in a note, not an error.

    Args:
        env: ID of the environment, or module:ID.
        source: task source; empty for the environment's default.
        trusted: whether to trust the author of the settings. If false, no module is imported, and
            only bundled tasks or at most 1,000 generated tasks are loaded.
    """
    try:
        harmless = source in ("", *BUNDLED) or _HARMLESS.fullmatch(source)
        if not (trusted or (harmless and ":" not in env)):
            refused = env if ":" in env else source
            raise ValueError(f"{refused!r} is not loaded for untrusted settings; see {FLAG}")
        kind = find_edit_env(env)
        if kind is None:
            return Tasks()
        options: dict[str, Any] = {"tasks": source} if source else {}
        made: Any = gym.make(env, split=None, **options).unwrapped
        tasks = {task.task_id: task for task in made.tasks}
        more = not source or bool(re.fullmatch(LADDER, source))
        more = more and issubclass(kind.session_type, Session)
        return Tasks(tasks, kind.session_type, "", made, more)
    except Exception as problem:  # third-party environments may raise anything
        return Tasks(
            note=f"The tasks of {env} cannot be loaded ({problem}): their fields are not shown."
        )
