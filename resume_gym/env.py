"""Gymnasium environments: `EditEnv` for any domain of editing, `ResumeEditEnv` for resumes."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import gymnasium as gym

from resume_gym.episode import render
from resume_gym.episode.document import Match
from resume_gym.episode.editing import (
    MAX_OBSERVATION,
    AnySession,
    EditSession,
    EditTask,
    Ledger,
    Rules,
)
from resume_gym.episode.evidence import EvidenceSession
from resume_gym.episode.feedback import FeedbackSession
from resume_gym.episode.session import NetSession, Session
from resume_gym.episode.sources import check_source, load_tasks
from resume_gym.episode.spaces import UnicodeText
from resume_gym.judges import ByLine, Judge, as_async, check_items, make_judge
from resume_gym.support.trust import import_named
from resume_gym.support.user_errors import TaskError, did_you_mean, number_of

_FAR_TOO_LONG = 1.5  # warn if even the shortest document is at least this many pages long


class EditEnv(gym.Env[str, str]):
    """Base class of Gymnasium environments for editing, such as `ResumeEditEnv`.

    A subclass sets `session_type` and defines `load_tasks`. The `__init__` of a subclass takes
    `tasks`, `split`, `judge` and other arguments, all of them JSON values with defaults.

    Args:
        rules: limits and reward settings of an episode.
        tasks: task source, as for `load_tasks`.
        split: split of the tasks: "train", "eval" or None for both.
        judge: judge specification for `make_judge`; None for no judge.
        render_mode: None or one of `metadata["render_modes"]`.

    Attributes:
        session_type: session class of the domain.
        rules: limits and reward settings of an episode.
        source: task source.
        session: session of the running or last episode.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["ansi", "human", "rgb_array"],
        "render_fps": 1,
        "autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP,
    }

    session_type: ClassVar[type[AnySession]]

    def __init__(
        self,
        rules: Rules,
        tasks: str,
        split: str | None,
        judge: str | Mapping[str, object] | None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            known = ", ".join(self.metadata["render_modes"])
            raise ValueError(f"render_mode: expected None, {known}; got {render_mode!r}")
        if not isinstance(judge, str | Mapping | None):
            # refuse judge objects: asynchronous vector environments pickle arguments, and a judge
            # may not be picklable
            raise ValueError(f"judge: expected a name, a mapping or None; got {judge!r}")
        self.rules = rules
        self.observation_space = UnicodeText(MAX_OBSERVATION)
        self.action_space = UnicodeText(rules.max_chars)
        self.render_mode = render_mode
        self.session: AnySession | None = None
        self.source, self._split, self._judge_spec = tasks, split, judge
        self._tasks: tuple[EditTask, ...] = ()
        self._numbers: dict[str, int] = {}
        self._judge: Judge | None = None

    @staticmethod
    def load_tasks(source: str, split: str | None) -> Sequence[EditTask]:
        """Return the tasks of a source and a split, in order; subclasses override this method.

        Raises:
            ValueError: The source does not exist.
        """
        raise NotImplementedError("load_tasks: the subclass must define this static method")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; `options={"task_id": ...}` selects its task.

        Raises:
            TaskError: The task source is invalid or lacks the task.
            ValueError: The environment's judge does not exist, or `options` has an unknown key.
        """
        super().reset(seed=seed)
        if not isinstance(options or {}, dict):
            raise ValueError(f"options: expected a dict, got {options!r}")
        if unknown := (options or {}).keys() - {"task_id"}:
            raise ValueError(f"options: expected task_id, got {', '.join(map(repr, unknown))}")
        self.session = self.new_session((options or {}).get("task_id"))
        if self.render_mode == "human":
            self.render()
        return self.session.prompt, self.session.info()

    @property
    def tasks(self) -> tuple[EditTask, ...]:
        """All tasks of the source and split, loaded at the first access.

        Raises:
            TaskError: The task source is invalid.
        """
        if not self._tasks:
            self._tasks = tuple(self.load_tasks(self.source, self._split))
            if not self._tasks:
                raise TaskError(f"{self.source}: no tasks in split {self._split!r}")
            self._numbers = {task.task_id: number for number, task in enumerate(self._tasks)}
            self._warn_of_long_documents()
        return self._tasks

    def _warn_of_long_documents(self) -> None:
        limit, least = self.rules.page_lines, 0
        for task in self._tasks:
            lines = self.session_type(task, self.rules).state.document.lines
            if lines < _FAR_TOO_LONG * limit:
                return
            least = min(least or lines, lines)
        gym.logger.warn(
            f"no document of {self.source} has fewer than {least} lines, but page_lines is {limit};"
            " use other tasks (procedural-mini:SEED:COUNT fits 20 lines) or a larger page_lines"
        )

    @property
    def judge(self) -> Judge | None:
        """The judge of finished episodes, created at the first access.

        Raises:
            ValueError: The judge does not exist, or cannot grade the rubric items of a task.
        """
        if self._judge is None and self._judge_spec is not None:
            judge = self.make_judge(self._judge_spec)
            check_items(judge, self.tasks)
            self._judge = judge
        return self._judge

    def make_judge(self, spec: str | Mapping[str, object]) -> Judge:
        """Create a judge; a subclass may override this method to change the type of the verdicts.

        Raises:
            ValueError: The judge does not exist, or its verdicts have the wrong type.
        """
        return make_judge(spec)

    def new_session(self, task_id: str | None = None) -> AnySession:
        """Start an episode in a new session; the episode that `reset` started is unaffected.

        Use sessions to play many episodes concurrently; `agrade` grades them later.

        Args:
            task_id: task of the episode; None draws a random task.

        Raises:
            TaskError: The task does not exist.
            ValueError: The judge does not exist.
        """
        tasks = self.tasks
        _ = self.judge  # report an invalid judge before an episode is played
        if task_id is None:
            # NumPy's `random` is three times as fast as `integers`; short episodes draw tasks often
            return self.session_type(tasks[int(self.np_random.random() * len(tasks))], self.rules)
        if not isinstance(task_id, str) or task_id not in self._numbers:
            split = f", split {self._split}" * (self._split is not None)
            where = f"{number_of(len(tasks), 'task')} of {self.source}{split}"
            raise TaskError(f"task_id: {task_id!r} is not among the {where}")
        return self.session_type(tasks[self._numbers[task_id]], self.rules)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one action; at the end of the episode, ask the judge for a verdict.

        Raises:
            gymnasium.error.ResetNeeded: No episode is running.
            TypeError: The action is not a string.
            JudgeError: The judge returned no verdict. The finished episode stays in `session`;
                `grade` asks the judge again.
        """
        if not isinstance(action, str):
            raise TypeError(f"action: expected a string, got {action!r}")
        session = self.session
        if session is None or session.state.done:
            raise gym.error.ResetNeeded("the episode is over: call reset first")
        observation, reward, done, _, _ = session.step(action)
        if done:
            reward += sum(self.grade().values())
        if self.render_mode == "human":
            self.render()
        return observation, reward, done, False, session.info()

    def grade(self) -> Ledger:
        """Grade the finished episode if it needs a verdict; return the verdict's reward terms."""
        assert self.session is not None
        judge = self.judge
        if judge is None or not self.session.needs_verdict:
            return {}
        return self.session.grade(judge.judge(self.session.task, self.session.text))

    async def agrade(self, session: AnySession) -> Ledger:
        """Grade a finished session without blocking the event loop.

        Returns:
            The verdict's reward terms; empty if the session needs no verdict or there is no judge.

        Raises:
            JudgeError: The judge returned no verdict; the session can be graded later.
        """
        judge = self.judge
        if judge is None or not session.needs_verdict:
            return {}
        verdict = as_async(judge).submit(session.task, session.text)
        return session.grade(await asyncio.wrap_future(verdict))

    def render(self) -> Any:
        """Return the page as text (ansi) or uint8 [H, W, 3] (rgb_array), or print it (human)."""
        if self.render_mode is None or self.session is None:
            gym.logger.warn("render: expected a render_mode and an earlier call of reset")
            return None
        if self.render_mode == "ansi":
            return render.ansi(self.session)
        if self.render_mode == "human":
            return render.human(self.session)
        return render.rgb_array(self.session)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle all but the judge, which may hold connections; a copy creates its own judge."""
        return {**self.__dict__, "_judge": None}


class ResumeEditEnv(EditEnv):
    """Revise a resume for a job through tool calls.

    ## Description
    The agent reads a job description and a resume in Markdown with one planted weakness, which is
    not disclosed. The agent has `max_turns` turns, each with one tool call, to improve the resume
    for the job without inventing facts, to fit the resume on a page of `page_lines` lines, and to
    submit it. A judge then compares the final document with the original.

    ## Action Space
    `UnicodeText`: the assistant's text, with an optional `<think>` block, free text, and one call
    `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. `resume_gym.tool_call` formats a
    call; `resume_gym.TOOLS` holds the schemas. The tools:

    | tool | effect |
    |---|---|
    | `str_replace(old, new, count=1)` | replace `old`, which must occur exactly `count` times |
    | `review()` | show the whole resume and mark the end of the page |
    | `submit()` | end the episode |

    No string raises an exception: an invalid call costs a turn and returns an error message.
    Vector environments take a tuple of strings; they would split a bare string into characters.

    ## Observation Space
    `UnicodeText`: the text that the agent reads. `reset` returns the job, the resume and the turn
    budget; `step` returns the tool's reply, whose last line is like `turns left: 7/10 | edits: 3`.

    ## Starting State
    A task drawn with the environment's random generator, or the task selected by
    `reset(options={"task_id": ...})`.

    ## Rewards
    | per turn | success | failure |
    |---|---|---|
    | str_replace | +0.25 | -0.25 |
    | review, first time | +1.0 | |
    | submit | +1.0 | |
    | invalid call | | -0.25 |
    | no submit by the end | | -1.0 |

    | terminal | worse / bad | same | better / good |
    |---|---|---|---|
    | layout: fits the page | -1.0 | | +1.0 |
    | hallucination | -1.0 | | +1.0 |
    | clarity, quantification, jd_alignment, action_verbs, each | -0.25 | 0 | +0.25 |
    | overall preference | -1.0 | 0 | +1.0 |

    No judge grades an unchanged resume: the episode gets -1 for hallucination, and -0.25 for the
    field that measures the planted weakness. With ten turns, the reward lies in [-7, +8].

    ## Episode End
    `submit` terminates the episode. So does running out of turns; this is not a truncation, since
    observations state the turns left. The environment never truncates an episode. Limit the
    turns with `max_turns`: a `TimeLimit` wrapper below it would drop the terminal rewards.

    ## Information
    `info` has the same keys at every step: `task_id`, `resume`, `turns_left`, `edits`,
    `failed_edits`, `lines` (after wrapping), `longest_line` (characters), `submitted`, `error` (one
    of `resume_gym.ERRORS`), `episode_reward` (so far), `graded`, `score` (0-100 once graded),
    `reward_*` (this step's terms, which sum to the reward) and `verdict_*` (the verdict's fields:
    -1, 0, 1). A task with rubric items adds `reward_rubric` and `verdict_rubric` (-1 to 1).

    ## Arguments
    All arguments are JSON values.

    | argument | default | meaning |
    |---|---|---|
    | `tasks` | `"default"` | task source: see `resume_gym.load_tasks` |
    | `split` | `"train"` | `"train"`, `"eval"` or None for both |
    | `judge` | `"rubric"` | a name, a dict with a name and options (or its JSON text), or None |
    | `max_turns` | 10 | number of turns |
    | `page_lines`, `page_width` | 55, 165 | size of the page in lines and characters |
    | `match` | `"exact"` | `"fuzzy"` ignores differences of whitespace and typography in `old` |
    | `layout_reward` | `"binary"` | `"continuous"` rewards each edit for removed excess lines |
    | `layout_amplitude` | 0.25 | `"continuous"` reward for the removal of one excess line |
    | `render_mode` | None | `"ansi"`, `"human"` or `"rgb_array"` |

    `ResumeEditMini-v0` is the same environment with short documents, pages of 20 lines and 6 turns.

    ## Version History
    - v0: first version
    """

    session_type = Session
    load_tasks = staticmethod(load_tasks)

    def __init__(
        self,
        tasks: str = "default",
        split: str | None = "train",
        judge: str | Mapping[str, object] | None = "rubric",
        max_turns: int = 10,
        page_lines: int = 55,
        page_width: int = 165,
        match: Match = "exact",
        render_mode: str | None = None,
        layout_reward: Literal["binary", "continuous"] = "binary",
        layout_amplitude: float = 0.25,
        feedback_every: int = 0,
    ) -> None:
        check_source(tasks, split)  # report an invalid source now rather than at the first reset
        rules = Rules(
            max_turns,
            page_lines,
            page_width,
            match,
            layout_reward=layout_reward,
            layout_amplitude=layout_amplitude,
            feedback_every=feedback_every,
        )
        if feedback_every and self.session_type.feedback is EditSession.feedback:
            raise ValueError("feedback_every: expected 0, except in ResumeEditFeedback-v0")
        super().__init__(rules, tasks, split, judge, render_mode)


class ResumeEditEvidenceEnv(ResumeEditEnv):
    """`ResumeEdit-v0` with the tool `search(query)`.

    A search shows at most three passages of the candidate's documents, with the names of their
    documents, and costs a turn. Rewards are those of `ResumeEdit-v0`. An added figure improves
    `quantification` if a document states it for the same work; other added figures are unsupported.
    """

    session_type = EvidenceSession


class ResumeEditFeedbackEnv(ResumeEditEnv):
    """`ResumeEdit-v0` with the tool `feedback()`.

    The tool shows at most three remarks on the draft; each remark quotes a line. A call of the tool
    costs a turn and earns no reward. With `feedback_every=k`, the reply to every k-th edit includes
    remarks, too. Remarks name neither the fields of the verdict nor the planted weakness. Other
    arguments and the rewards are those of `ResumeEdit-v0`.
    """

    session_type = FeedbackSession


class ResumeEditNetEnv(ResumeEditEnv):
    """`ResumeEdit-v0` with a reward for each changed line of the resume.

    In `ResumeEdit-v0`, many improved lines earn hardly more than one improved line. The judge of
    `ResumeEditNet-v0` grades each line of the final document that differs from the original:

    | line | reward |
    |---|---|
    | improved | +0.5 |
    | changed, neither better nor worse | -0.25 |
    | worse, or with an unsupported claim | -1 |
    | any, in a text that the judge rejects as a whole | -2 for the text, nothing for its lines |

    Each line of the original counts at most once, and added lines never count as improved; moved
    lines do not count. An edit costs 0.25 for each line that it adds beyond the end of the page,
    and earns 0.25 for each line beyond the end that it removes, up to the end of a second page.
    `submit` earns 0.25. A failed call costs 0.25, a missing submit 0.5. A review, or an edit that
    stays within the page, earns nothing. A submitted resume that equals the original earns 0.25,
    even if the agent made edits and reverted them.

    The judge must have a method `judge_lines`, as the rubric judge has. The other arguments are
    those of `ResumeEdit-v0`; `layout_reward` defaults to "continuous". A submitted resume scores 50
    if it is unchanged, and about 100 if the planted weakness is fully repaired.
    `ResumeEditNetMini-v0` is `ResumeEditNet-v0` with short documents.
    """

    session_type = NetSession

    def make_judge(self, spec: str | Mapping[str, object]) -> Any:
        """Create a judge that counts improved, harmless and worse lines.

        Raises:
            ValueError: The judge does not exist, or has no method `judge_lines`.
        """
        return ByLine(make_judge(spec))


def make_edit_env(env: str, **options: Any) -> EditEnv:
    """Create the environment that the `--env` option names.

    Args:
        env: id of an editing environment, or module:id.
        options: arguments of the environment. None selects the default value of an argument,
            except that `split=None` selects both splits.

    Raises:
        TaskError: The environment or the judge does not exist, an argument is invalid, or the
            tasks cannot be loaded.
    """
    _check_env(env)
    given = {name: value for name, value in options.items() if value is not None or name == "split"}
    try:
        made = gym.make(env, **given).unwrapped
        assert isinstance(made, EditEnv)
        _ = made.tasks  # load the tasks now, so that an invalid source is reported here
    except TaskError:
        raise
    except (ValueError, TypeError, ImportError, gym.error.Error) as problem:
        raise TaskError(f"{env}: {problem}") from None
    try:
        _ = made.judge
    except ValueError as problem:
        raise TaskError(f"--judge: {str(problem).removeprefix('judge: ')}") from None
    return made


def find_edit_env(name: str) -> type[EditEnv] | None:
    """Return the class of environment `name` (ID or module:ID); None if it is not an `EditEnv`.

    Raises:
        gymnasium.error.Error, ImportError, AttributeError: The environment does not exist.
    """
    module, _, env_id = name.rpartition(":")
    if module:
        import_named(module)
    point: Any = gym.spec(env_id).entry_point
    kind = gym.envs.registration.load_env_creator(point) if isinstance(point, str) else point
    return kind if inspect.isclass(kind) and issubclass(kind, EditEnv) else None


def _check_env(name: str) -> None:
    """Raise TaskError if no editing environment has this name; do not create the environment."""
    own = "resume_gym."
    ours = [key for key, spec in gym.registry.items() if str(spec.entry_point).startswith(own)]
    expected = f"--env: expected one of {', '.join(ours)}, or module:ID"
    try:
        found = find_edit_env(name)
    except (gym.error.Error, ImportError, AttributeError) as problem:
        hint = did_you_mean(name, ours) or (f" ({problem})" if ":" in name else "")
        raise TaskError(f"{expected}; got {name!r}{hint}") from None
    if not found:
        raise TaskError(f"{expected}; {name} is not an editing environment")
