"""What a run or an evaluation leaves elsewhere: the tasks that were played, and the tokenizer."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from resume_gym.editing import EditSession, Rules
from resume_gym.env import EditEnv


class Tasks(NamedTuple):
    """The tasks of an environment.

    Attributes:
        by_id: each by its id.
        session_type: what edits their documents; None if nothing does, or it was not found.
        note: why they were not found; empty if they were.
    """

    by_id: Mapping[str, Any] = {}
    session_type: type[EditSession[Any, Any]] | None = None
    note: str = ""

    def weakness(self, task_id: str) -> str:
        """What kind of task it is; empty if that is not known."""
        return str(getattr(self.by_id.get(task_id), "weakness", ""))

    def original(self, task_id: str) -> str | None:
        """The document of a task as it is before any edit; None if that is not known."""
        task = self.by_id.get(task_id)
        if task is None or self.session_type is None:
            return None
        # whatever the rules of the run were, they let this document in
        return self.session_type(task, Rules(max_chars=2**31)).original


def find_tasks(env: str, source: str) -> Tasks:
    """The tasks that an environment plays; what stands in the way is a note, not an error.

    Args:
        env: an id, or module:id; the module is imported if the interpreter finds it, but the
            current folder is not searched: what a downloaded run names is not run from there.
        source: of tasks; the environment's own if empty.
    """
    try:
        module, colon, name = env.rpartition(":")
        if colon:
            import_module(module)
        spec = gym.spec(name)
        point = spec.entry_point
        kind = load_env_creator(point) if isinstance(point, str) else point
        if not (inspect.isclass(kind) and issubclass(kind, EditEnv)):
            return Tasks()
        given = {"tasks": source} if source else {}
        made = gym.make(name, split=None, **given).unwrapped
        assert isinstance(made, EditEnv)
        return Tasks({task.task_id: task for task in made.tasks}, kind.session_type)
    except Exception as problem:  # an environment is anybody's code
        hint = ""
        if isinstance(problem, ModuleNotFoundError):
            hint = "; PYTHONPATH can name the folder where it lies"
        return Tasks(
            note=f"The tasks of {env} are not found here ({problem}{hint}): what an episode was "
            "about is missing, documents come from its record."
        )


def find_decoder(folder: Path, model: str) -> Callable[[int], str] | None:
    """What turns a token of a run's policy into text.

    Args:
        folder: of the run; its exported model is tried first.
        model: the name or the folder of what the policy began as.

    Returns:
        None if there is no tokenizer, or nothing to read it with.
    """
    places = [folder / "model", Path(model)]
    learners = find_spec("learners")  # whose bundled policies have names; it is not imported
    if learners is not None and learners.origin and model.isidentifier():
        places.append(Path(learners.origin).parent / model)
    files = [place / "tokenizer.json" for place in places if model]
    found = next((file for file in files if file.is_file()), None)
    if found is None or find_spec("tokenizers") is None:
        return None
    from tokenizers import Tokenizer  # only training needs it, and who reads its tokens

    tokenizer = Tokenizer.from_file(str(found))
    return lambda token: str(tokenizer.decode([token], skip_special_tokens=False))
