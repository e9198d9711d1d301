"""Workload of an environment: its tasks, rules and judge, for a run of one or more environments."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import gymnasium

from learners.errors import ConfigError
from learners.rollouts.rollout import PlayableSession
from learners.rollouts.text_env import TEXT_TASKS, Start, TextSession
from learners.rollouts.tokens import ChatTokens
from resume_gym import Rules, Session, TaskError
from resume_gym.agents import AGENTS
from resume_gym.env import EditEnv
from resume_gym.episode.tasks import SPLITS
from resume_gym.evaluation import Episode, Returns, Summary, evaluate, summarise
from resume_gym.judges import AsyncJudge, Judge, check_items

_GENERATED = r"(full|mini)-train-\d+-\d+"
TEXT_TURNS = 64
"""Turn limit for text environments without `max_episode_steps`."""


@dataclass(frozen=True)
class Workload:
    """Tasks of an environment and everything needed to play them.

    Attributes:
        rules: limits of an episode.
        tasks: training tasks.
        held_out: evaluation tasks.
        judge: judge of final documents; None if the reward consists of the step rewards only.
        chat: encoder and decoder of conversations.
        session_type: class of the sessions in which tasks are played.
        summary_type: class of the summaries of finished sessions.
        second_judge: judge of a sample of documents, see `second_judge.compare`; None if absent.
        second_judge_every: interval in steps between two samples that the second judge grades.
        env: id of the environment, or module:id.
    """

    rules: Rules
    tasks: Sequence[Any]
    held_out: Sequence[Any]
    judge: Judge | None
    chat: ChatTokens
    session_type: type[PlayableSession] = Session
    summary_type: type[Returns] = Summary
    second_judge: Judge | None = None
    second_judge_every: int = 1
    env: str = ""

    @classmethod
    def of(
        cls,
        env: str,
        tasks: str,
        judge: str,
        model: str,
        eval_tasks: int,
        second_judge: str = "",
        second_judge_every: int = 1,
    ) -> Self:
        """Create the workload of an environment whose module has already been imported.

        Args:
            env: environment id.
            tasks: source of the tasks; empty for the environment's default source.
            judge: name or JSON of the judge; empty for the environment's default judge.
            model: name or folder of the model, whose tokenizer is used.
            eval_tasks: maximum number of held-out tasks.
            second_judge: name or JSON of the second judge; empty for none.
            second_judge_every: interval in steps between two samples for the second judge.

        Raises:
            ConfigError: the judge is unknown, or the environment or the model's chat template is
                not supported.
            TaskError: the tasks cannot be loaded.
        """
        given: dict[str, Any] = {"tasks": tasks, "judge": judge}
        given = {name: value for name, value in given.items() if value}
        try:
            made = gymnasium.make(env)
            if isinstance(made.unwrapped, EditEnv):
                work = cls._edited(env, given, model, eval_tasks)
                second = _second_judge(env, given, second_judge) if second_judge else None
                return replace(
                    work, env=env, second_judge=second, second_judge_every=second_judge_every
                )
            made.close()
            for name in (*given, *["second_judge"] * bool(second_judge)):
                raise ConfigError(f"{name}: {env} has no such setting, as it is not an `EditEnv`")
            return replace(cls._played(env, model, eval_tasks), env=env)
        except (AttributeError, TypeError, gymnasium.error.Error) as error:
            raise ConfigError(f"env: {env} cannot be created: {error}") from error
        except ValueError as error:
            # TaskError is a subclass of ValueError; all other ValueErrors become ConfigErrors
            raise error if isinstance(error, TaskError) else ConfigError(str(error)) from None

    @classmethod
    def _edited(cls, env: str, given: Mapping[str, Any], model: str, eval_tasks: int) -> Self:
        made = (gymnasium.make(env, split=split, **given).unwrapped for split in SPLITS)
        train, held_out = cast("Iterator[EditEnv]", made)
        if train.judge is None:
            raise ConfigError(f"judge: {env} has no default judge; expected a name or JSON")
        check_items(train.judge, held_out.tasks)
        kind = train.session_type
        chat = ChatTokens.of(model, kind.toolbox.schemas)
        return cls(train.rules, train.tasks, held_out.tasks[:eval_tasks], train.judge, chat, kind)

    @classmethod
    def _played(cls, env: str, model: str, eval_tasks: int) -> Self:
        limit = gymnasium.spec(env.rpartition(":")[2]).max_episode_steps
        rules = Rules(max_turns=max(3, limit or TEXT_TURNS))  # `Rules` needs at least 3 turns
        tasks = [Start(env, seed) for seed in range(TEXT_TASKS)]
        held_out = [Start(env, TEXT_TASKS + n) for n in range(eval_tasks)]
        # replaying records requires a deterministic environment: check this before training
        first = TextSession(tasks[0], rules)
        first.step("")
        try:
            TextSession.replay(tasks[0], first.record()).close()
        except ValueError as error:
            message = "expected equal results for equal seeds and actions"
            raise ConfigError(f"env: {message}: {error}") from None
        first.close()
        chat = ChatTokens.of(model, first.tools)
        return cls(rules, tasks, held_out, None, chat, TextSession, Returns)

    @property
    def generated(self) -> str:
        """Size of the training tasks if they are generated, "full" or "mini"; else empty."""
        made = self.tasks and re.fullmatch(_GENERATED, self.tasks[0].task_id)
        return made[1] if made else ""

    def session(self, task: Any) -> PlayableSession:
        """Return a new session on a task."""
        return self.session_type(task, self.rules)


def floor_of(works: Sequence[Workload]) -> Summary | None:
    """Return what an agent that improves nothing earns on the held-out tasks of all environments.

    In each environment this is the better of `floor`, which makes harmless edits, and `noop`.

    Returns:
        Summary of its episodes; None if some tasks are not resumes, or a judge may call a model.

    Raises:
        JudgeError: the judge returned no verdict.
    """
    played: list[Episode] = []
    for work in works:
        kind, judge = work.session_type, work.judge
        if judge is None or isinstance(judge, AsyncJudge) or not issubclass(kind, Session):
            return None
        both = (
            evaluate(AGENTS[name], work.held_out, work.rules, judge, session_type=kind)
            for name in ("floor", "noop")
        )
        own = max(both, key=lambda episodes: summarise(episodes).reward)
        # tasks of different environments may have the same id
        played += [replace(one, task_id=f"{work.env}/{one.task_id}") for one in own]
    return summarise(played)


def _second_judge(env: str, given: Mapping[str, Any], spec: str) -> Judge:
    made: Any = gymnasium.make(env, split=SPLITS[0], **{**given, "judge": spec}).unwrapped
    judge: Judge = made.judge
    if getattr(judge, "grouped", False):
        raise ConfigError(f"second_judge: expected a judge of single documents, got {judge.name!r}")
    return judge
