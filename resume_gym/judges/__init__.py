"""Judges: who compares a revised resume with the original.

A judge needs no more than `name` and `judge`. A failure to judge is a `JudgeError`, never a
number, so that the finished session can be graded later. Judges that wait for others, models or
judges, are `AsyncJudge`s, thousands of whose verdicts may be on the way at once.
"""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import Any, Protocol

from resume_gym import llm
from resume_gym.llm import ModelError
from resume_gym.llm.loop import submit
from resume_gym.mistakes import did_you_mean
from resume_gym.rewards import Verdict
from resume_gym.tasks import Task

# Name: module and class. Imported when made, since each needs other packages.
JUDGES = {
    "rubric": ("resume_gym.judges.rubric", "RubricJudge"),
    "gemini": ("resume_gym.judges.model", "gemini"),
    "openai": ("resume_gym.judges.model", "openai"),
    "votes": ("resume_gym.judges.votes", "Votes"),
    "tiers": ("resume_gym.judges.tiers", "Tiers"),
    "pairwise": ("resume_gym.judges.pairwise", "Pairwise"),
    "critique": ("resume_gym.judges.critique", "Critique"),
}


class Judge(Protocol):
    """Compares a revised resume with the original of its task."""

    name: str

    def judge(self, task: Task, revised: str) -> Verdict:
        """The verdict on a revised resume.

        Raises:
            JudgeError: there is no verdict; nothing is known of the resume.
        """
        ...


class JudgeError(Exception):
    """A judge gave no verdict."""


class JudgeUnavailable(JudgeError):  # noqa: N818
    """The judge cannot be reached now; ask again later."""


class JudgeRefused(JudgeError):  # noqa: N818
    """The judge will not judge this text; do not ask again."""


class JudgeMalformed(JudgeError):  # noqa: N818
    """The judge's answer is not a verdict."""


class JudgeMisconfigured(JudgeError):  # noqa: N818
    """The judge can give no verdict on anything: its key, model or address is wrong."""


def judge_error(error: ModelError) -> JudgeError:
    """The failure of a judge, for that of the model that it asked."""
    kinds: Mapping[type[ModelError], type[JudgeError]] = {
        llm.Unavailable: JudgeUnavailable,
        llm.Refused: JudgeRefused,
        llm.Malformed: JudgeMalformed,
        llm.Misconfigured: JudgeMisconfigured,
    }
    mine = next(mine for kind, mine in kinds.items() if isinstance(error, kind))
    return mine(str(error))


class AsyncJudge(ABC):
    """A judge that waits for others; its coroutines run in the loop of `resume_gym.llm.loop`.

    Attributes:
        name: as in figures and logs.
        grouped: whether verdicts depend on the other revisions of a group, which are then best
            judged together.
    """

    name: str
    grouped = False

    @abstractmethod
    async def averdict(self, task: Task, revised: str) -> Verdict:
        """The verdict on a revised resume; raises as `Judge.judge` does."""

    async def averdicts(self, task: Task, group: Sequence[str]) -> list[Verdict | JudgeError]:
        """A verdict on each of several revisions of a resume, or why there is none."""
        every = (self.averdict(task, revised) for revised in group)
        said = await asyncio.gather(*every, return_exceptions=True)
        for one in said:
            if isinstance(one, BaseException) and not isinstance(one, JudgeError):
                raise one
        return said  # type: ignore[return-value]

    def submit(self, task: Task, revised: str) -> "Future[Verdict]":
        """`averdict`, from any thread."""
        return submit(self.averdict(task, revised))

    def judge(self, task: Task, revised: str) -> Verdict:
        """The verdict on a revised resume; see `Judge`."""
        return self.submit(task, revised).result()


class Threaded(AsyncJudge):
    """A judge that computes, among judges that wait."""

    def __init__(self, judge: Judge) -> None:
        self.name = judge.name
        self._judge = judge

    async def averdict(self, task: Task, revised: str) -> Verdict:
        """See `AsyncJudge`."""
        return await asyncio.to_thread(self._judge.judge, task, revised)


def as_async(judge: Judge) -> AsyncJudge:
    """The judge, for who asks many at once."""
    return judge if isinstance(judge, AsyncJudge) else Threaded(judge)


def make_judge(spec: str | Mapping[str, Any]) -> Judge:
    """The judge of a name, or of a mapping with "name" and the judge's options.

    Judges of judges hold such specs: `{"name": "votes", "judge": {"name": "gemini"}}`. A string
    that begins with a brace is read as JSON. `"module:name"` is a judge of your own: what the
    module calls so is called with the options.

    Raises:
        ValueError: there is no such judge, or it has no such option.
    """
    if isinstance(spec, str) and spec.lstrip().startswith("{"):
        try:
            spec = json.loads(spec)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"judge: expected JSON, got {spec!r}: {problem}") from None
    if not isinstance(spec, str | Mapping):
        raise ValueError(f"judge: expected a name or a mapping with one, got {spec!r}")
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    own = isinstance(name, str) and ":" in name
    if not own and not (isinstance(name, str) and name in JUDGES):
        hint = did_you_mean(str(name).lower(), JUDGES)
        known = f"module:name or one of {', '.join(JUDGES)}"
        raise ValueError(f"judge: expected {known}; got {name!r}{hint}")
    module, kind = str(name).split(":", 1) if own else JUDGES[str(name)]
    try:
        judge: Judge = getattr(import_module(module), kind)(**options)
    except ModuleNotFoundError as missing:
        extra = "" if own else f": pip install resume-gym[{name}]"
        raise ValueError(f"judge {name!r}: needs {missing.name}{extra}") from None
    except (AttributeError, TypeError) as problem:
        raise ValueError(f"judge {name!r}: {problem}") from None
    if not callable(getattr(judge, "judge", None)) or not hasattr(judge, "name"):
        raise ValueError(f"judge {name!r}: expected an object with `name` and `judge`")
    return judge
