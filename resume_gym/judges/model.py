"""A language model as the judge: Gemini, or any server that speaks OpenAI's protocol.

What code can settle it settles (`vetoes`). For the rest the model is asked which text is better,
in both orders and without being told which is the original, and what of the revision is made up
(`prompt`). How the answers become a verdict is written down here, once.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from resume_gym.judges import AsyncJudge, JudgeError, JudgeRefused, judge_error
from resume_gym.judges.plaintext import make_code
from resume_gym.judges.prompt import (
    Graded,
    SupportAnswer,
    TooLong,
    comparison_prompt,
    read_comparison,
    read_support,
    support_prompt,
)
from resume_gym.judges.vetoes import veto
from resume_gym.llm import Asks, ModelError, Prompt, Usage
from resume_gym.rewards import GRADED_FIELDS, Verdict
from resume_gym.tasks import Task

T = TypeVar("T")

_SURE = {"low": 0.6, "medium": 0.75, "high": 0.9}
# at most some 1,300 tokens are written; a model may think for minutes before
_PATIENT = {
    "answer_tokens": 4096,
    "thinking_tokens": 8192,
    "timeout_s": 180.0,
    "deadline_s": 600.0,
}
_UNSURE = 0.5  # where the orders disagree


def gemini(orders: int = 2, draw: int = 0, **options: Any) -> "ModelJudge":
    """Google's Gemini; the other options are those of `resume_gym.llm.client.make_client`."""
    return _judge("gemini", orders, draw, options)


def openai(orders: int = 2, draw: int = 0, **options: Any) -> "ModelJudge":
    """A server with OpenAI's protocol, such as vLLM's; see `gemini` for the options."""
    return _judge("openai", orders, draw, options)


def _judge(provider: str, orders: int, draw: int, options: Mapping[str, Any]) -> "ModelJudge":
    from resume_gym.llm.client import make_client  # who brings a client of his own needs none

    client = make_client(provider, **{**_PATIENT, **options})
    return ModelJudge(client, orders, draw)


class _Opinion(NamedTuple):
    better: int  # 1 if the second text is, -1 if the first is
    reason: str
    sure: float


class ModelJudge(AsyncJudge):
    """Asks a model, and takes from its answers no more than they bear.

    - Vetoes come first and are final.
    - A graded field is better or worse if both orders say so, else the same. With `orders=1` a
      verdict asks in one order, at two thirds of the requests: a hash of the texts chooses it, and
      every draw turns it round, so that votes see both.
    - hallucination is -1 if the check of the claims lists one, with a quotation that stands in
      the revision. It is asked once, not for each order: it has none, and to believe whichever
      of two readings finds something would add up their false alarms. Votes make it surer.
    - A claim without support wins nothing: with one, preference is never better, and with a false
      figure neither is quantification.

    Args:
        asks: whom to ask; a `resume_gym.llm.client.Client`.
        orders: in how many orders a verdict shows the texts, 1 or 2.
        draw: number of the first draw; another gives other answers to the same questions.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(self, asks: Asks, orders: int = 2, draw: int = 0) -> None:
        if type(orders) is not int or orders not in (1, 2):
            raise ValueError(f"orders: expected 1 or 2, got {orders!r}")
        if type(draw) is not int or draw < 0:
            raise ValueError(f"draw: expected a whole number from 0, got {draw!r}")
        self.name = asks.name
        self._asks, self._orders, self._draw = asks, orders, draw

    @property
    def usage(self) -> Usage:
        """What has been asked and paid so far."""
        return self._asks.usage

    @property
    def served(self) -> str:
        """The model's version that answered last; empty if none has, or the client cannot say."""
        return getattr(self._asks, "served", None) or ""

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """The verdict on a revised resume; see `AsyncJudge`.

        Args:
            task: the original, and what is true.
            revised: the revision.
            draw: number of the draw; verdicts of different draws are independent.

        Raises:
            JudgeError: there is no verdict.
        """
        if settled := veto(task, revised):
            return settled
        swaps = [False, True]
        if self._orders == 1:
            swaps = [_turned(task.resume, revised, self._draw + draw)]
        checked, *said = await _together(
            self._check(task, revised, draw),
            *(self._look(task, task.resume, revised, swapped, draw) for swapped in swaps),
        )
        return _verdict(_agreed(said), checked)

    async def compare(self, task: Task, first: str, second: str, draw: int = 0) -> int:
        """1 if the second of two texts is better, -1 if the first is, 0 if neither is.

        Always asked in both orders, whatever `orders` says: two requests. One that a veto settles
        loses. What the texts make up is not looked at; a verdict says that. Either text may be the
        original.

        Raises:
            JudgeError: there is no answer.
        """
        bad = [text != task.resume and veto(task, text) is not None for text in (first, second)]
        if any(bad) or first == second:
            return bad[0] - bad[1]
        return _agreed(await self._both(task, first, second, draw))["preference"].better

    async def flips(self, task: Task, revised: str) -> Mapping[str, bool]:
        """By graded field: whether the two orders disagree on who is better.

        A verdict hides this, as it takes only what both say. Nothing if a veto settles the text.

        Raises:
            JudgeError: there is no answer.
        """
        if veto(task, revised):
            return {}
        there, back = await self._both(task, task.resume, revised, draw=0)
        return {field: there[field].better != back[field].better for field in GRADED_FIELDS}

    async def _both(
        self, task: Task, first: str, second: str, draw: int
    ) -> list[Mapping[str, _Opinion]]:
        """The opinions of either order."""
        orders = (self._look(task, first, second, swapped, draw) for swapped in (False, True))
        return await _together(*orders)

    async def _look(
        self, task: Task, first: str, second: str, swapped: bool, draw: int
    ) -> Mapping[str, _Opinion]:
        a, b = (second, first) if swapped else (first, second)
        prompt = _prompt(comparison_prompt, task, a, b, self._draw + draw)
        said = await self._ask(prompt, lambda text: read_comparison(text, prompt, a, b))
        return {field: _opinion(getattr(said, field), swapped) for field in GRADED_FIELDS}

    async def _check(self, task: Task, text: str, draw: int) -> SupportAnswer | None:
        """What the text makes up; None for the original, which is true."""
        if text == task.resume:
            return None
        prompt = _prompt(support_prompt, task, text, self._draw + draw)
        return await self._ask(prompt, lambda said: read_support(said, prompt, task, text))

    async def _ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        try:
            return await self._asks.ask(prompt, parse)
        except ModelError as error:
            raise judge_error(error) from error


async def _together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """What all give; when one fails the others are given up, so that nobody pays for them."""
    failures: Sequence[Exception] = ()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except ExceptionGroup as several:
        failures = several.exceptions
    if failures:  # raised here, it keeps its own cause; a bug comes before a failure to judge
        raise min(failures, key=lambda one: isinstance(one, JudgeError))
    return [task.result() for task in tasks]


def _turned(first: str, second: str, draw: int) -> bool:
    """Whether the second of two texts is shown first.

    At a draw it is always the same one of a pair, whichever is the original.
    """
    odd = (int(make_code(sorted((first, second))), 16) + draw) % 2 == 1
    return (first > second) != odd


def _prompt(make: Callable[..., Prompt], *arguments: Any) -> Prompt:
    try:
        return make(*arguments)
    except TooLong as error:
        raise JudgeRefused(str(error)) from None


def _opinion(graded: Graded, swapped: bool) -> _Opinion:
    side = {"A": -1, "same": 0, "B": 1}[graded.better]
    which = "A is the revision" if swapped else "B is the revision"
    reason = f"{graded.reason} ({which}.)"
    return _Opinion(-side if swapped else side, reason, _SURE[graded.confidence])


def _agreed(said: Sequence[Mapping[str, _Opinion]]) -> Mapping[str, _Opinion]:
    """What the orders have in common, by field; if nothing, that neither text is better."""
    return {field: _common([opinions[field] for opinions in said]) for field in GRADED_FIELDS}


def _common(opinions: Sequence[_Opinion]) -> _Opinion:
    first = opinions[0]
    if any(one.better != first.better for one in opinions):
        reason = f"The same, since the other order says otherwise: {first.reason}"
        return _Opinion(0, reason, _UNSURE)
    return first._replace(sure=sum(one.sure for one in opinions) / len(opinions))


def _verdict(compared: Mapping[str, _Opinion], checked: SupportAnswer | None) -> Verdict:
    grades = {field: opinion.better for field, opinion in compared.items()}
    reasons = {field: opinion.reason for field, opinion in compared.items()}
    sure = {field: opinion.sure for field, opinion in compared.items()}
    claims = checked.claims if checked else []
    reasons["hallucination"] = "Every claim has support."
    sure["hallucination"] = _SURE[checked.confidence] if checked else 1.0
    if claims:
        worst = claims[0]
        more = f" (More of this kind: {len(claims) - 1}.)" if len(claims) > 1 else ""
        reasons["hallucination"] = f'"{worst.quote}": {worst.reason}{more}'
        void = {"preference"}
        if any(claim.kind in ("figure", "moved") for claim in claims):
            void.add("quantification")
        for field in sorted(void):
            if grades[field] > 0:
                grades[field] = 0
                reasons[field] = f'No better, since "{worst.quote}" has no support.'
    return Verdict(hallucination=-1 if claims else 1, **grades, reasons=reasons, confidence=sure)
