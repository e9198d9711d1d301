"""Language-model judge, for Gemini or any server with an OpenAI-compatible API.

First, rules reject clear cases without a model (`vetoes`). For any other revision, the model
compares the revision with the original twice, once in each order, and does not know which text is
the original. A separate request asks for unsupported claims (`prompt`). `ModelJudge` turns the
answers into a verdict.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from resume_gym.episode.rewards import GRADED_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import AsyncJudge, judge_error, together
from resume_gym.judges.plaintext import make_code
from resume_gym.judges.prompt import (
    Graded,
    SupportAnswer,
    comparison_prompt,
    items_prompt,
    ranking_prompt,
    read_comparison,
    read_items,
    read_ranking,
    read_support,
    support_prompt,
)
from resume_gym.judges.vetoes import veto
from resume_gym.llm import ModelError, Prompt
from resume_gym.llm.client import Client, make_client

T = TypeVar("T")

_SURE = {"low": 0.6, "medium": 0.75, "high": 0.9}
# The limits are generous: an answer has at most about 1,300 tokens, but a model may think for
# minutes before it answers.
_PATIENT = {
    "answer_tokens": 4096,
    "thinking_tokens": 8192,
    "timeout_s": 180.0,
    "deadline_s": 600.0,
}
_UNSURE = 0.5  # confidence in a grade if the answers for the two orders disagree


def gemini(orders: int = 2, draw: int = 0, **options: object) -> "ModelJudge":
    """Build a `ModelJudge` for Gemini; see `resume_gym.llm.client.make_client` for `options`."""
    return ModelJudge(make_client("gemini", **{**_PATIENT, **options}), orders, draw)


def openai(orders: int = 2, draw: int = 0, **options: object) -> "ModelJudge":
    """Build a `ModelJudge` for an OpenAI-compatible server such as vLLM; options as in `gemini`."""
    return ModelJudge(make_client("openai", **{**_PATIENT, **options}), orders, draw)


class _Opinion(NamedTuple):
    better: int  # 1 if the second text is better, -1 if the first text is better, 0 if neither is
    reason: str
    sure: float


class ModelJudge(AsyncJudge):
    """Judge that asks a language model and corrects for known biases of such models.

    - Vetoes (rules that reject a revision) come before any question to the model and are final.
    - A graded field is better or worse only if the model says so in both orders of the texts. With
      `orders=1`, the model sees a single order, which saves one request per verdict. Which order
      this is alternates with the number of the sample (`draw`), so that the samples of the judge
      `votes` use both orders.
    - The field hallucination is -1 if the model lists an unsupported claim, quoted verbatim from
      the revision. A verdict requests this list only once, since a second list would double the
      false alarms. For fewer false alarms, use the judge `votes`, which takes the median of several
      verdicts.
    - A revision with an unsupported claim is never graded better in preference. It is not graded
      better in quantification either if the claim is a false figure ("figure") or is true only of
      other work ("moved").

    Args:
        asks: the client of the model.
        orders: number of orders in which the model compares the two texts, 1 or 2.
        draw: number that is added to the `draw` of each call; another number gives other samples of
            the model's answers.

    Raises:
        ValueError: an option is out of range.
    """

    def __init__(self, asks: Client, orders: int = 2, draw: int = 0) -> None:
        if type(orders) is not int or orders not in (1, 2):
            raise ValueError(f"orders: expected 1 or 2, got {orders!r}")
        if type(draw) is not int or draw < 0:
            raise ValueError(f"draw: expected a whole number >= 0, got {draw!r}")
        self.name, self.parts = asks.name, (asks,)
        self.grades_items = True
        self._asks, self._orders, self._draw = asks, orders, draw

    def prompts(self, task: Task, revised: str) -> Sequence[Prompt]:
        """Return the prompts of a verdict, to estimate its cost; text A is always the original."""
        comparison = comparison_prompt(task, task.resume, revised)
        items = [items_prompt(task, revised)] if task.judged else []
        return [support_prompt(task, revised), *items, *[comparison] * self._orders]

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """Return the verdict on a revised resume; see `AsyncJudge`.

        Args:
            task: the original with its facts and evidence.
            revised: the revision.
            draw: number of the sample; verdicts with different numbers are independent samples.

        Raises:
            JudgeError: the model gave no usable answer.
        """
        if settled := veto(task, revised):
            return settled
        swaps = [False, True]
        if self._orders == 1:
            swaps = [_turned(task.resume, revised, self._draw + draw)]
        requests: list[Coroutine[Any, Any, Any]] = [
            self._check(task, revised, draw),
            self._items(task, revised, draw),
            *(self._look(task, task.resume, revised, swapped, draw) for swapped in swaps),
        ]
        claim_check, items, *orders = await together(requests)
        return _verdict(_agreed(orders), claim_check, items)

    async def compare(self, task: Task, first: str, second: str, draw: int = 0) -> int:
        """Return 1 if the second of two texts is preferred, -1 if the first is, 0 if neither is.

        The comparison always uses both orders (two requests), whatever `orders` is. A text that a
        veto rejects loses to any other text. Claims are not checked. Either text may be the
        original.

        Raises:
            JudgeError: the model gave no usable answer.
        """
        bad = [text != task.resume and veto(task, text) is not None for text in (first, second)]
        if any(bad) or first == second:
            return bad[0] - bad[1]
        return _agreed(await self._both(task, first, second, draw))["preference"].better

    async def places(self, task: Task, texts: Sequence[str], draw: int = 0) -> list[int]:
        """Return the place of each text among revisions, 1 for the best, by one request.

        The order of the texts may bias the model; see `Listwise`, which corrects for this.

        Raises:
            JudgeError: the model gave no usable answer.
        """
        prompt = ranking_prompt(task, texts, self._draw + draw)
        return await self._ask(prompt, lambda answer: read_ranking(answer, prompt, texts))

    async def flips(self, task: Task, revised: str) -> Mapping[str, bool]:
        """Return, for each graded field, whether the two orders of the texts give different grades.

        A disagreement shows the position bias of the model. Verdicts hide position bias, since a
        field is graded 0 if the orders disagree. The mapping is empty for a vetoed text.

        Raises:
            JudgeError: the model gave no usable answer.
        """
        if veto(task, revised):
            return {}
        there, back = await self._both(task, task.resume, revised, draw=0)
        return {field: there[field].better != back[field].better for field in GRADED_FIELDS}

    async def _both(
        self, task: Task, first: str, second: str, draw: int
    ) -> list[Mapping[str, _Opinion]]:
        orders = (self._look(task, first, second, swapped, draw) for swapped in (False, True))
        return await together(orders)

    async def _look(
        self, task: Task, first: str, second: str, swapped: bool, draw: int
    ) -> Mapping[str, _Opinion]:
        a, b = (second, first) if swapped else (first, second)
        prompt = comparison_prompt(task, a, b, self._draw + draw)
        answer = await self._ask(prompt, lambda text: read_comparison(text, prompt, a, b))
        return {field: _opinion(getattr(answer, field), swapped) for field in GRADED_FIELDS}

    async def _check(self, task: Task, text: str, draw: int) -> SupportAnswer | None:
        """Return the model's claim check of a text; None for the original, which counts as true."""
        if text == task.resume:
            return None
        prompt = support_prompt(task, text, self._draw + draw)
        return await self._ask(prompt, lambda answer: read_support(answer, prompt, task, text))

    async def _items(self, task: Task, text: str, draw: int) -> Mapping[str, tuple[int, str]]:
        """Return grade and reason of each rubric item of kind "judged", by the text of the item."""
        if not task.judged:
            return {}
        prompt = items_prompt(task, text, self._draw + draw)
        return await self._ask(prompt, lambda answer: read_items(answer, prompt, task, text))

    async def _ask(self, prompt: Prompt, parse: Callable[[str], T]) -> T:
        try:
            return await self._asks.ask(prompt, parse)
        except ModelError as error:
            raise judge_error(error) from error


def _turned(first: str, second: str, draw: int) -> bool:
    """Return whether to show the second of two texts first.

    The choice depends on the draw and on a hash of both texts, not on which text is `first`.
    """
    odd = (int(make_code(sorted((first, second))), 16) + draw) % 2 == 1
    return (first > second) != odd


def _opinion(graded: Graded, swapped: bool) -> _Opinion:
    side = {"A": -1, "same": 0, "B": 1}[graded.better]
    which = "A is the revision" if swapped else "B is the revision"
    reason = f"{graded.reason} ({which}.)"
    return _Opinion(-side if swapped else side, reason, _SURE[graded.confidence])


def _agreed(orders: Sequence[Mapping[str, _Opinion]]) -> Mapping[str, _Opinion]:
    """Combine the opinions of all orders on each field; if they differ, neither text is better."""
    return {field: _common([opinions[field] for opinions in orders]) for field in GRADED_FIELDS}


def _common(opinions: Sequence[_Opinion]) -> _Opinion:
    first = opinions[0]
    if any(opinion.better != first.better for opinion in opinions):
        reason = f"Graded the same; the other order of the texts contradicts this: {first.reason}"
        return _Opinion(0, reason, _UNSURE)
    return first._replace(sure=sum(opinion.sure for opinion in opinions) / len(opinions))


def _verdict(
    compared: Mapping[str, _Opinion],
    claim_check: SupportAnswer | None,
    items: Mapping[str, tuple[int, str]],
) -> Verdict:
    grades = {field: opinion.better for field, opinion in compared.items()}
    reasons = {field: opinion.reason for field, opinion in compared.items()}
    confidence = {field: opinion.sure for field, opinion in compared.items()}
    claims = claim_check.claims if claim_check else []
    reasons["hallucination"] = "Every claim has support."
    confidence["hallucination"] = _SURE[claim_check.confidence] if claim_check else 1.0
    if claims:
        worst = claims[0]  # the prompt asks for the worst claim first
        more = f" (Other unsupported claims: {len(claims) - 1}.)" if len(claims) > 1 else ""
        reasons["hallucination"] = f'"{worst.quote}": {worst.reason}{more}'
        capped = {"preference"}
        if any(claim.kind in ("figure", "moved") for claim in claims):
            capped.add("quantification")
        for field in sorted(capped):
            if grades[field] > 0:
                grades[field] = 0
                reasons[field] = f'Not graded better, since "{worst.quote}" has no support.'
    return Verdict(
        hallucination=-1 if claims else 1,
        **grades,
        reasons=reasons | {text: reason for text, (_, reason) in items.items()},
        confidence=confidence,
        items={text: grade for text, (grade, _) in items.items()},
    )
