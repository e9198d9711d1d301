"""Estimate of the requests to a run's judge and their cost, for `--dry-run`; sends no request."""

from statistics import fmean
from typing import NamedTuple

from learners.rollouts.workload import Workload
from resume_gym.judges import AsyncJudge
from resume_gym.judges.llm_judge import ModelJudge
from resume_gym.judges.prompt import COMPARISON, ITEMS, SUPPORT
from resume_gym.judges.votes import Votes
from resume_gym.llm import Answer, dollars

CHARACTERS = 3.6
"""Estimated characters per token, for models whose tokenizer is not available.

With SmolLM2's tokenizer, prompts of real tasks have 3.5 to 3.9 characters per token; tokenizers
with larger vocabularies have more characters per token."""
# Assumed output tokens of an answer by the type of request: an answer to COMPARISON lists 8
# changes, and an answer to SUPPORT lists 10 changes and one claim.
_ANSWER_TOKENS = {COMPARISON: 750, SUPPORT: 400, ITEMS: 400}
_TASKS = 32  # number of tasks whose prompts are measured


class Verdicts(NamedTuple):
    """Number of a judge's verdicts in a run, and the requests, tokens and cost of each verdict.

    Attributes:
        judge: name of the judge.
        training: number of verdicts on training episodes.
        held_out: number of verdicts in all evaluations.
        requests: requests per verdict; 0 if the judge uses no model, None if unknown.
        model: name of the model that the judge uses; empty if the judge uses none.
        url: address of the judge's own server; empty if a provider runs the judge's model.
        read: estimated number of prompt tokens per verdict.
        dollars: cost of a verdict in dollars by list prices; None if unknown.
    """

    judge: str
    training: int
    held_out: int
    requests: int | None = 0
    model: str = ""
    url: str = ""
    read: int = 0
    dollars: float | None = None

    @property
    def total(self) -> int:
        """Number of verdicts in training and evaluations together."""
        return self.training + self.held_out

    @classmethod
    def of(cls, work: Workload, training: int, held_out: int) -> "Verdicts | None":
        """Estimate the number and cost of a run's verdicts; None if the run has no judge."""
        judge = work.judge
        if judge is None:
            return None
        own = cls(judge.name, training, held_out)
        votes, asked = 1, judge
        while isinstance(asked, Votes):
            votes, (asked,) = votes * asked.votes, asked.parts
        if not isinstance(asked, ModelJudge):
            return own._replace(requests=None if isinstance(judge, AsyncJudge) else 0)
        # measure prompts with original resumes: future revisions will be about equally long
        sent = [asked.prompts(task, task.resume) for task in work.tasks[:_TASKS]]
        sizes = [sum(len(one.system) + len(one.user) for one in prompts) for prompts in sent]
        read = round(votes * fmean(sizes) / CHARACTERS)
        written = votes * sum(_ANSWER_TOKENS[prompt.kind] for prompt in sent[0])
        model = asked.name.partition("/")[2]
        return own._replace(
            requests=votes * len(sent[0]),
            model=model,
            url=getattr(asked.parts[0], "base_url", ""),
            read=read,
            dollars=dollars(model, Answer("", model, read, written, 0.0)),
        )
