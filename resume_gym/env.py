"""`ResumeEdit-v0`: a thin Gymnasium skin over `Session`, and the same for other domains."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gymnasium as gym

from resume_gym import render
from resume_gym.document import Match
from resume_gym.editing import EditSession, EditTask, Ledger, Rules
from resume_gym.judges import Judge, as_async, make_judge
from resume_gym.session import Session
from resume_gym.spaces import UnicodeText
from resume_gym.tasks import TaskError, load_tasks

MAX_OBSERVATION = 1_048_576


class EditEnv(gym.Env[str, str]):
    """A domain of editing as a Gymnasium environment; `ResumeEditEnv` is one.

    A subclass sets `session_type`, defines `load_tasks`, and has an `__init__` whose arguments
    are JSON values, with defaults: `tasks`, `split` and `judge` among them.

    Args:
        rules: the limits of an episode.
        tasks: a source of tasks.
        split: "train", "eval" or None for both.
        judge: a spec of `make_judge`, or None.
        render_mode: None or one of `metadata["render_modes"]`.

    Attributes:
        session_type: the domain's class of sessions.
        rules: the limits of an episode.
        session: the running or last episode.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["ansi", "human", "rgb_array"],
        "render_fps": 1,
        "autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP,
    }

    session_type: ClassVar[type[EditSession[Any, Any]]]

    def __init__(
        self,
        rules: Rules,
        tasks: str,
        split: str | None,
        judge: str | Mapping[str, Any] | None,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            known = ", ".join(self.metadata["render_modes"])
            raise ValueError(f"render_mode: expected None, {known}; got {render_mode!r}")
        if not isinstance(judge, str | Mapping | None):
            # an object would break the spec and what is made from it: pickles, vectors
            raise ValueError(f"judge: expected a name, a mapping or None; got {judge!r}")
        self.rules = rules
        self.observation_space = UnicodeText(MAX_OBSERVATION)
        self.action_space = UnicodeText(rules.max_chars)
        self.render_mode = render_mode
        self.session: EditSession[Any, Any] | None = None
        self._source, self._split, self._judge_spec = tasks, split, judge
        self._tasks: tuple[EditTask, ...] = ()
        self._numbers: dict[str, int] = {}
        self._judge: Judge | None = None

    @staticmethod
    def load_tasks(source: str, split: str | None) -> Sequence[EditTask]:
        """Tasks of a source and a split, in order; a subclass defines it.

        Raises:
            ValueError: there is no such source.
        """
        raise NotImplementedError("load_tasks: expected a static method of the subclass")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; `options={"task_id": ...}` names its task.

        Raises:
            TaskError: the source of tasks is bad, or has no such task.
            ValueError: there is no such judge.
        """
        super().reset(seed=seed)
        self.session = self.new_session((options or {}).get("task_id"))
        if self.render_mode == "human":
            self.render()
        return self.session.prompt, self.session.info()

    @property
    def tasks(self) -> tuple[EditTask, ...]:
        """All tasks of the source and split.

        Raises:
            TaskError: the source of tasks is bad.
        """
        if not self._tasks:
            self._tasks = tuple(self.load_tasks(self._source, self._split))
            if not self._tasks:
                raise TaskError(f"{self._source}: no tasks in split {self._split!r}")
            self._numbers = {task.task_id: number for number, task in enumerate(self._tasks)}
        return self._tasks

    @property
    def judge(self) -> Judge | None:
        """Who grades finished episodes; made at the first use.

        Raises:
            ValueError: there is no such judge.
        """
        if self._judge is None and self._judge_spec is not None:
            self._judge = make_judge(self._judge_spec)
        return self._judge

    def new_session(self, task_id: str | None = None) -> EditSession[Any, Any]:
        """An episode by this environment's rules that `reset` and `step` know nothing of.

        For who plays many episodes at once: a session is light, and waits for its verdict.

        Args:
            task_id: of its task; None draws one.

        Raises:
            TaskError: there is no such task.
            ValueError: there is no such judge.
        """
        tasks = self.tasks
        _ = self.judge  # a bad one is found out before an episode is spent on it
        if task_id is None:
            # a third of the time of `integers`, which a short episode would notice
            return self.session_type(tasks[int(self.np_random.random() * len(tasks))], self.rules)
        if task_id not in self._numbers:
            split = f", split {self._split}" * (self._split is not None)
            where = f"{self._source}{split}: {len(tasks)} tasks"
            raise TaskError(f"task_id: {task_id!r} is not in {where}")
        return self.session_type(tasks[self._numbers[task_id]], self.rules)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one action; at the end, ask the judge.

        Raises:
            gymnasium.error.ResetNeeded: there is no running episode.
            JudgeError: no verdict could be had. The finished episode stays in `session`;
                `grade` asks again.
        """
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
        """Ask the judge for a verdict on the finished episode; its terms, if it needs one."""
        assert self.session is not None
        judge = self.judge
        if judge is None or not self.session.needs_verdict:
            return {}
        return self.session.grade(judge.judge(self.session.task, self.session.text))

    async def agrade(self, session: EditSession[Any, Any]) -> Ledger:
        """Ask the judge for a verdict on a finished session, without holding up the event loop.

        Returns:
            The verdict's terms; none if the session needs no verdict, or there is no judge.

        Raises:
            JudgeError: no verdict could be had; the session can be graded later.
        """
        judge = self.judge
        if judge is None or not session.needs_verdict:
            return {}
        verdict = as_async(judge).submit(session.task, session.text)
        return session.grade(await asyncio.wrap_future(verdict))

    def render(self) -> Any:
        """The page: a string (ansi), printed in colour (human), or uint8 [H, W, 3] (rgb_array)."""
        if self.render_mode is None or self.session is None:
            gym.logger.warn("render needs a render_mode and a reset")
            return None
        if self.render_mode == "ansi":
            return render.ansi(self.session)
        if self.render_mode == "human":
            return render.human(self.session)
        return render.rgb_array(self.session)

    def __getstate__(self) -> dict[str, Any]:
        """Without the judge, whose client may hold connections; it is made again when needed."""
        return {**self.__dict__, "_judge": None}


class ResumeEditEnv(EditEnv):
    """Revise a resume for a job through tool calls.

    ## Description
    The agent reads a job description and a resume in Markdown with one planted weakness, which
    it is not told. It has `max_turns` turns, one tool call a turn, to improve the resume for the
    job without inventing facts, to keep it on a page of `page_lines` lines, and to submit it. A
    judge then compares the final document with the original.

    ## Action Space
    `UnicodeText`: the assistant's text. It holds an optional `<think>` block, free text, and one
    call `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`; `resume_gym.tool_call` writes
    it, `resume_gym.TOOLS` holds the schemas. The tools:

    | tool | effect |
    |---|---|
    | `str_replace(old, new, count=1)` | replace `old`, which occurs exactly `count` times |
    | `review()` | show the whole resume and the end of the page |
    | `submit()` | end the episode |

    No string raises: one that is no call costs a turn and answers with an error. A vector
    environment takes a tuple of strings; a bare string would send a character to each.

    ## Observation Space
    `UnicodeText`: the text that the agent reads. After `reset` the job, the resume and the
    budget; afterwards the tool's reply, which ends with `turns left: 7/10 | edits: 3`.

    ## Starting State
    A task drawn with the environment's generator, or the one that
    `reset(options={"task_id": ...})` names.

    ## Rewards
    | per turn | success | failure |
    |---|---|---|
    | str_replace | +0.25 | -0.25 |
    | review, first time | +1.0 | |
    | submit | +1.0 | |
    | anything that is no call | | -0.25 |
    | no submit by the end | | -1.0 |

    | terminal | worse / bad | same | better / good |
    |---|---|---|---|
    | layout: fits the page | -1.0 | | +1.0 |
    | hallucination | -1.0 | | +1.0 |
    | clarity, quantification, jd_alignment, action_verbs, each | -0.25 | 0 | +0.25 |
    | overall preference | -1.0 | 0 | +1.0 |

    An episode that changes nothing is not judged: hallucination -1, the planted weakness's own
    metric -0.25. The reward of an episode of ten turns lies in [-7, +8].

    ## Episode End
    `submit` and running out of turns both terminate: the budget is part of the state. The
    environment never truncates.

    ## Information
    The same keys at every step: `task_id`, `resume`, `turns_left`, `edits`, `failed_edits`,
    `lines` (after wrapping), `longest_line` (characters), `submitted`, `error` (one of
    `resume_gym.ERRORS`), `episode_reward` (so far), `graded`, `score` (0-100 once graded),
    `reward_*` (this step's terms; they sum to the reward) and `verdict_*` (the judge's fields:
    -1, 0, 1).

    ## Arguments
    All are JSON values.

    | argument | default | meaning |
    |---|---|---|
    | `tasks` | `"default"` | a source of tasks: see `resume_gym.load_tasks` |
    | `split` | `"train"` | `"train"`, `"eval"` or None for both |
    | `judge` | `"rubric"` | a name, a dict with a name and options (or that as JSON), or None |
    | `max_turns` | 10 | calls the agent may make |
    | `page_lines`, `page_width` | 55, 165 | size of the page in lines and characters |
    | `match` | `"exact"` | `"fuzzy"` tolerates white space in `old` |
    | `render_mode` | None | `"ansi"`, `"human"` or `"rgb_array"` |

    `ResumeEditMini-v0` is the same environment on short documents: a page of 20 lines, 6 turns.

    ## Version History
    - v0: first version
    """

    session_type = Session
    load_tasks = staticmethod(load_tasks)

    def __init__(
        self,
        tasks: str = "default",
        split: str | None = "train",
        judge: str | Mapping[str, Any] | None = "rubric",
        max_turns: int = 10,
        page_lines: int = 55,
        page_width: int = 165,
        match: Match = "exact",
        render_mode: str | None = None,
    ) -> None:
        rules = Rules(max_turns, page_lines, page_width, match)
        super().__init__(rules, tasks, split, judge, render_mode)
