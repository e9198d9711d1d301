"""Create the entries of a contest from agent specs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from resume_gym.agents import make_agent
from resume_gym.evaluation.contest import (
    Contest,
    Entry,
)
from resume_gym.evaluation.players import Player, Scripted, endpoint
from resume_gym.evaluation.specs import AgentSpec
from resume_gym.session import Session
from resume_gym.tasks import TaskError
from resume_gym.user_errors import missing

ENDPOINT_MAX_CONCURRENCY = 64


class Found(Protocol):
    """A located model, not loaded yet; see `learners.rollouts.model_player.FoundModel`."""

    @property
    def record(self) -> Mapping[str, Any]:
        """Description of the model for the results, as JSON values."""
        ...

    def player(self, tools: Sequence[Mapping[str, Any]]) -> Player:
        """Load the model, with the tools' schemas in OpenAI's format."""
        ...


FindModel = Callable[[Mapping[str, Any]], Found]
"""Locates a model by its options, without loading it."""


def make_entry(
    where: str,
    spec: AgentSpec,
    contest: Contest,
    max_concurrency: int | None,
    find_model: FindModel,
) -> Entry:
    """Make the entry of an agent, without loading a model or sending a request.

    Args:
        where: command-line option of the spec; prefix of error messages.
        spec: spec of the agent.
        contest: the contest to enter.
        max_concurrency: number of concurrent episodes; None for an endpoint's default.
        find_model: locates local models.

    Raises:
        ModuleNotFoundError: a package that the agent needs is not installed.
        TaskError: the agent does not exist, or cannot play in this environment.
    """
    resumes = issubclass(contest.session_type, Session)
    if spec.options.get("prompting") == "guided" and not resumes:
        message = "prompting: guided has a demonstration for resumes"
        raise TaskError(f"{where}: {message}; {contest.env} has other documents")
    try:
        if spec.kind == "endpoint":
            made = endpoint(spec.options, max_concurrency or ENDPOINT_MAX_CONCURRENCY)
            return Entry(spec.name, spec.record, lambda: made, lambda: made.client.usage)
        if spec.kind == "model":
            model = find_model(spec.options)
            return Entry(spec.name, dict(model.record), partial(_load, where, model, contest))
    except (ValueError, FileNotFoundError) as problem:
        raise TaskError(f"{where}: {problem}") from None
    except ModuleNotFoundError as problem:
        raise missing(f"{where}: needs", str(problem.name), "train") from None
    model = spec.options["model"]
    if model != "noop" and not resumes:
        raise TaskError(f"{where}: {model} edits resumes; {contest.env} has other documents")
    return Entry(spec.name, spec.record, lambda: Scripted(partial(make_agent, model)))


def _load(where: str, model: Found, contest: Contest) -> Player:
    try:
        return model.player(contest.session_type.toolbox.schemas)
    except ValueError as problem:  # messages of transformers span several lines
        raise TaskError(f"{where}: {' '.join(str(problem).split())}") from None
