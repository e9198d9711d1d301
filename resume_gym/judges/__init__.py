"""Judge interface: a judge compares a revised resume with the original and returns a `Verdict`.

A judge needs only an attribute `name` and a method `judge`. A judge that cannot reach a verdict
raises a `JudgeError`, whose type tells whether a retry can help. Judges that wait for models or for
other judges subclass `AsyncJudge`, which allows thousands of concurrent verdicts. A judge whose
attribute `grades_items` is true also grades rubric items of kind "judged", which need a model. A
judge with the coroutine `judge_group` also scores the revisions of a group against each other; see
`GroupScorer`.

A judge sees a task and a text, so this package does not import `resume_gym.episode.session` or
`resume_gym.env`.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Protocol, TypeAlias, TypeVar

from resume_gym import llm
from resume_gym.episode.rewards import LineVerdict, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.llm import ModelError, Usage
from resume_gym.llm.loop import submit
from resume_gym.support.trust import import_named, is_local
from resume_gym.support.user_errors import did_you_mean, install

# Module and factory of each judge, by the judge's name. A judge's module is imported when the judge
# is first made, since the module may need extra packages.
JUDGES = {
    "rubric": ("resume_gym.judges.rubric", "RubricJudge"),
    "gemini": ("resume_gym.judges.llm_judge", "gemini"),
    "openai": ("resume_gym.judges.llm_judge", "openai"),
    "votes": ("resume_gym.judges.votes", "Votes"),
    "tiers": ("resume_gym.judges.tiers", "Tiers"),
    "pairwise": ("resume_gym.judges.pairwise", "Pairwise"),
    "listwise": ("resume_gym.judges.listwise", "Listwise"),
}

_CUSTOM = re.compile(r"[\w.]+:\w+")
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
# Options that `named_modules` skips: their values may contain a colon without being "module:name".
_NEVER_JUDGES = ("model", "base_url", "extra_body")

LARGEST = 1e6
"""Largest weight and largest absolute value of the scores that a judge gives groups."""
S = TypeVar("S")
T = TypeVar("T")
Outcome: TypeAlias = "Verdict | JudgeError"
"""The verdict on a revision, or the error of the judge."""
Score: TypeAlias = "float | JudgeError"
"""The score of a revision within its group, or the error of the judge."""


class Judge(Protocol):
    """Compares a revised resume with the original of its task."""

    name: str

    def judge(self, task: Task, revised: str) -> Verdict:
        """Return the verdict on a revised resume.

        Raises:
            JudgeError: the judge failed; the error says nothing about the resume.
        """
        ...


class GroupScorer(Protocol):
    """Judge that also scores the revisions of a group, which all revise the same resume.

    Training adds `group_weight` times (the revision's score minus the mean score of the group) to
    the revision's reward. Evaluations and single environments never use the scores.

    Attributes:
        group_weight: weight of the scores in training; 0 if the scores are not used.
    """

    group_weight: float

    async def judge_group(self, task: Task, group: Sequence[str]) -> Sequence[Score]:
        """Return the score of each revision of a group, greater if better.

        A score is a number from `-LARGEST` to `LARGEST`. Scores can be compared only within the
        group. Equal texts get equal scores, and the order of the revisions does not matter. A
        revision that cannot be scored gets a `JudgeError`.

        Raises:
            JudgeError: no revision can be scored.
        """
        ...


def group_weight(judge: object) -> float:
    """Return the weight of a judge's scores of groups; 0 if the judge does not score groups."""
    return float(getattr(judge, "group_weight", 1.0)) if hasattr(judge, "judge_group") else 0.0


def check_weight(name: str, weight: float) -> None:
    """Raise ValueError unless the weight of a judge's scores is a number from 0 to `LARGEST`."""
    if type(weight) not in (int, float) or not 0 <= weight <= LARGEST:
        expected = f"a number >= 0 and at most {LARGEST:,.0f}"
        raise ValueError(f"{name}: expected {expected}, got {weight!r:.40}")


class JudgeError(Exception):
    """Base class of the errors that a judge raises if it cannot return a verdict."""


class JudgeUnavailable(JudgeError):  # noqa: N818
    """The judge is temporarily unreachable; retry later."""


class JudgeRefused(JudgeError):  # noqa: N818
    """The judge refuses to judge this text; do not retry."""


class JudgeMalformed(JudgeError):  # noqa: N818
    """The judge's answer cannot be parsed as a verdict."""


class JudgeMisconfigured(JudgeError):  # noqa: N818
    """The judge cannot judge any text: its API key, model or address is wrong."""


_OF_MODELS: Mapping[type[ModelError], type[JudgeError]] = {
    llm.Unavailable: JudgeUnavailable,
    llm.Refused: JudgeRefused,
    llm.Malformed: JudgeMalformed,
    llm.Misconfigured: JudgeMisconfigured,
}


def judge_error(error: ModelError) -> JudgeError:
    """Convert a model's error to the corresponding judge error, by default `JudgeError`."""
    matches = (mine for kind, mine in _OF_MODELS.items() if isinstance(error, kind))
    # `next` needs a default: for an error type that `_OF_MODELS` lacks, it would otherwise raise a
    # StopIteration, which coroutines turn into a RuntimeError.
    return next(matches, JudgeError)(str(error))


def check_items(judge: Judge, tasks: Iterable[Any]) -> None:
    """Raise ValueError if a task has rubric items of kind "judged" that the judge cannot grade."""
    for task in tasks:
        if getattr(task, "judged", ()) and not _grades_items(judge):
            item = f"the item {task.judged[0].text[:60]!r} of {task.task_id} needs a model judge"
            raise ValueError(f"judge: {item} such as gemini; got {judge.name!r}")


def _grades_items(judge: object) -> bool:
    parts = getattr(judge, "parts", ())
    return getattr(judge, "grades_items", False) or any(map(_grades_items, parts))


def unexpected(name: str, problem: BaseException) -> JudgeError:
    """Return the error for an exception of the judge `name` that is no `JudgeError`; its cause."""
    error = JudgeError(f"the judge {name!r} raised {type(problem).__name__}: {problem}")
    error.__cause__ = problem
    return error


class ByLine:
    """Wrapper of a judge; its method `judge` calls the method `judge_lines` of the wrapped judge.

    Args:
        judge: a judge with the method `judge_lines(task, revised)`, which returns a `LineVerdict`.

    Raises:
        ValueError: the judge has no method `judge_lines`.
    """

    def __init__(self, judge: Judge) -> None:
        if not hasattr(judge, "judge_lines"):
            raise ValueError(
                f"judge: expected a judge that grades each line, such as rubric; got {judge.name!r}"
            )
        self.name: str = judge.name
        self.judge: Callable[[Task, str], LineVerdict] = judge.judge_lines


class AsyncJudge(ABC):
    """Base class of judges that wait for models or other judges.

    The coroutines of these judges run in the event loop of `resume_gym.llm.loop`.

    Attributes:
        name: name of the judge in reports and logs.
        grouped: whether the verdict on a revision depends on its group, that is, on the other
            revisions of the same task. For a grouped judge, pass the whole group to one call of
            `averdicts`.
        parts: the judges and model clients that this judge calls, without repetition.
    """

    name: str
    grouped = False
    parts: Sequence[Any] = ()

    @property
    def usage(self) -> Usage | None:
        """Total usage of the judge's models so far; None for a judge without models."""
        usages = [part.usage for part in self.parts if getattr(part, "usage", None) is not None]
        return sum(usages[1:], usages[0]) if usages else None

    @property
    def served(self) -> str:
        """Model versions of the latest answers, joined by commas; empty before the first answer."""
        models = (getattr(part, "served", None) for part in self.parts)
        return ", ".join(dict.fromkeys(str(model) for model in models if model))

    @abstractmethod
    async def averdict(self, task: Task, revised: str) -> Verdict:
        """Return the verdict on a revised resume; `Judge.judge` documents the errors."""

    async def averdicts(self, task: Task, group: Sequence[str]) -> list[Outcome]:
        """Return, for each revision of a resume, the verdict or the error of the judge."""
        return await outcomes_of(self.averdict(task, revised) for revised in group)

    def submit(self, task: Task, revised: str) -> "Future[Verdict]":
        """Schedule `averdict` from any thread and return the future of the verdict."""
        return submit(self.averdict(task, revised))

    def judge(self, task: Task, revised: str) -> Verdict:
        """Block until the verdict on a revised resume arrives, and return the verdict."""
        return self.submit(task, revised).result()


async def outcomes_of(verdicts: Iterable[Coroutine[Any, Any, Verdict]]) -> list[Outcome]:
    """Await verdicts concurrently; return each verdict or, if it fails, its `JudgeError`."""
    outcomes = await asyncio.gather(*verdicts, return_exceptions=True)
    # Any exception other than a judge error is a bug, and is raised.
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, JudgeError):
            raise outcome
    return outcomes  # type: ignore[return-value]


async def attempt(work: Awaitable[T]) -> T | JudgeError:
    """Return the result of `work` or the `JudgeError` it raises; reraise `JudgeMisconfigured`."""
    try:
        return await work
    except JudgeMisconfigured:
        raise
    except JudgeError as error:
        return error


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines concurrently; if one fails, cancel the rest and raise its exception."""
    failures: Sequence[Exception] = ()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as several:
        failures = several.exceptions
    # The failure is raised after the `except` block, so that its traceback omits the exception
    # group. A failure that is no `JudgeError` is a bug and takes precedence over judge errors.
    if failures:
        raise min(failures, key=lambda one: isinstance(one, JudgeError))
    return [task.result() for task in tasks]


async def bounded(
    work: Callable[[S], Awaitable[T]], items: Iterable[S], concurrency: int
) -> list[T]:
    """Run `work` on all items, `concurrency` at a time; if one fails, cancel the rest."""
    gate = asyncio.Semaphore(concurrency)

    async def one(item: S) -> T:
        async with gate:
            return await work(item)

    return await together(map(one, items))


class _Threaded(AsyncJudge):
    def __init__(self, judge: Judge) -> None:
        self.name, self.parts = judge.name, (judge,)
        for name in ("compare", "places", "judge_group", "group_weight"):  # optional
            if hasattr(judge, name):
                setattr(self, name, getattr(judge, name))

    async def averdict(self, task: Task, revised: str) -> Verdict:
        return await asyncio.to_thread(self.parts[0].judge, task, revised)


def as_async(judge: Judge) -> AsyncJudge:
    """Return an asynchronous judge unchanged; wrap any other judge to run in worker threads."""
    return judge if isinstance(judge, AsyncJudge) else _Threaded(judge)


def make_judge(spec: str | Mapping[str, object]) -> Judge:
    """Build a judge from its specification.

    Composite judges nest specifications: `{"name": "votes", "judge": {"name": "gemini"}}`.

    Args:
        spec: a name, a mapping with "name" and the judge's options, or such a mapping as a JSON
            string that begins with a brace. The name is a key of `JUDGES`, or "module:name" for
            a custom judge: a class or function of that module that takes the options.

    Raises:
        ValueError: the judge or an option is unknown or invalid; an option, an API key or a
            package is missing; or a custom judge cannot be imported or made.
    """
    spec = _parsed(spec)
    if not isinstance(spec, str | Mapping):
        raise ValueError(f"judge: expected a name or a mapping with the key 'name', got {spec!r}")
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = options.pop("name", None)
    custom = isinstance(name, str) and _CUSTOM.fullmatch(name)
    if not custom and not (isinstance(name, str) and name in JUDGES):
        hint = did_you_mean(str(name).lower(), JUDGES)
        names = ", ".join(JUDGES)
        raise ValueError(f"judge: expected module:name or one of {names}; got {name!r}{hint}")
    module, kind = str(name).split(":", 1) if custom else JUDGES[str(name)]
    try:
        make = getattr((import_named if custom else import_module)(module), kind)
        _check_options(str(name), make, options)
        judge: Judge = make(**options)
    except ModuleNotFoundError as missing:
        how = "" if custom else f": {install(str(name))}"
        raise ValueError(f"judge {name!r}: needs {missing.name}{how}") from None
    except (AttributeError, TypeError, ImportError) as problem:
        raise ValueError(f"judge {name!r}: {problem}") from None
    except (ValueError, JudgeError, ModelError):
        raise
    except (Exception, SystemExit) as problem:  # a custom judge may raise anything
        reason = f"{type(problem).__name__}: {problem}"
        raise ValueError(f"judge {name!r}: {reason}") from problem
    if not callable(getattr(judge, "judge", None)) or not hasattr(judge, "name"):
        raise ValueError(f"judge {name!r}: expected an attribute `name` and a method `judge`")
    if hasattr(judge, "judge_group"):
        check_weight(f"judge {name!r}: group_weight", getattr(judge, "group_weight", 1.0))
    for part in getattr(judge, "parts", ()):
        if group_weight(part):
            told = f"weight 0 in {part.name!r}, whose scores of groups it does not pass on"
            raise ValueError(f"judge {name!r}: expected {told}")
    return judge


def _parsed(spec: object) -> Any:
    """Parse a string that begins with a brace as JSON; return any other specification as it is."""
    if not (isinstance(spec, str) and spec.lstrip().startswith("{")):
        return spec
    try:
        return json.loads(spec)
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"judge: expected JSON, got {spec!r}: {problem}") from None


def _check_options(name: str, make: Callable[..., Judge], options: Mapping[str, object]) -> None:
    try:
        parameters = signature(make).parameters
    except ValueError:  # a class written in C has no signature
        return
    fixed = {key: value for key, value in parameters.items() if value.kind not in _VARIADIC}
    for key, value in fixed.items():
        if value.default is Parameter.empty and key not in options:
            raise ValueError(f"judge {name!r}: expected the option {key!r}")
    anything = any(value.kind is Parameter.VAR_KEYWORD for value in parameters.values())
    for key in () if anything else options.keys() - fixed.keys():
        known = f"options among {', '.join(fixed)}" if fixed else "no options"
        raise ValueError(f"judge {name!r}: expected {known}; got {key!r}{did_you_mean(key, fixed)}")


def plain_spec(spec: object) -> object:
    """Return a specification in one form: no JSON, and the name of a judge without options."""
    with suppress(ValueError):
        spec = _parsed(spec)
    if isinstance(spec, list):
        return [plain_spec(part) for part in spec]
    if isinstance(spec, Mapping):
        spec = {key: plain_spec(value) for key, value in spec.items()}
        return spec["name"] if spec.keys() == {"name"} else spec
    return spec


def named_servers(spec: object) -> list[str]:
    """Return the options of a judge's specification that name API keys or remote servers."""
    with suppress(ValueError):
        spec = _parsed(spec)
    found = []
    if isinstance(spec, Mapping):
        found = [name for name in ("key_name", "base_url") if spec.get(name)]
        if is_local(spec.get("base_url")):
            found.remove("base_url")
        spec = list(spec.values())
    nested = spec if isinstance(spec, list) else []
    return found + [name for part in nested for name in named_servers(part)]


def named_modules(spec: object) -> list[str]:
    """Return the `module:name` of each custom judge in a specification, at any depth."""
    with suppress(ValueError):
        spec = _parsed(spec)
    if isinstance(spec, str):
        return [spec] if ":" in spec else []
    if isinstance(spec, Mapping):
        spec = [value for key, value in spec.items() if key not in _NEVER_JUDGES]
    return [name for part in spec for name in named_modules(part)] if isinstance(spec, list) else []
