"""Judges: who compares a revised resume with the original.

A judge needs no more than `name` and `judge`. A failure to judge is a `JudgeError`, never a
number, so that the finished session can be graded later.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Protocol

from resume_gym.rewards import Verdict
from resume_gym.tasks import Task

# Name: module and class. Imported when made, since each needs other packages.
_JUDGES = {"rubric": ("resume_gym.judges.rubric", "RubricJudge")}


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


def make_judge(spec: str | Mapping[str, Any]) -> Judge:
    """The judge of a name, or of a mapping with "name" and the judge's options.

    Raises:
        ValueError: there is no such judge, or it has no such option.
    """
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    if name not in _JUDGES:
        near = get_close_matches(str(name).lower(), _JUDGES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"judge: expected one of {', '.join(_JUDGES)}; got {name!r}{hint}")
    module, kind = _JUDGES[name]
    make = getattr(import_module(module), kind)
    try:
        judge: Judge = make(**options)
    except TypeError as problem:
        raise ValueError(f"judge {name!r}: {problem}") from None
    return judge
