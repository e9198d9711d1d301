"""Rollouts: episodes played by an engine, recorded as token ids so that no text is tokenised twice.

`play` alternates between engine and session; the orchestrator schedules and grades the episodes.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from learners.engines import Completion, Sampling
from learners.rollouts.tokens import ChatTokens
from learners.training.rows import Hinted, Sample
from resume_gym import Rules
from resume_gym.support.json_lines import is_finite

Record = Mapping[str, Any]
"""A rollout as JSON values, as in a line of a trajectory file."""
COMPARISON = "comparison"
"""Name of the reward term that compares a rollout with the rest of its group."""
NOT_SAMPLED = -1
"""Entry of `Rollout.versions` for tokens that the policy did not sample."""


class EpisodeError(Exception):
    """An environment raised an exception or returned an invalid value; see `__cause__`."""


class PlayableSession(Protocol):
    """An episode that a policy can play: an `EditSession` or a `TextSession`.

    Attributes:
        task: the task of the episode; `task.task_id` identifies the task.
        rules: limits of the episode.
        system_prompt: system message of the conversation, possibly empty.
        prompt: first observation, which is the first user message.
        text: current text of the edited document, or last observation of a text environment.
        turns: number of actions taken.
        reward: reward of the episode so far.
        ledgers: reward terms of each turn, by name; the terms of all turns sum to `reward`.
        done: whether the episode is over.
        needs_verdict: whether the episode is over and its reward lacks a judge's verdict.
        verdict: verdict of the judge, or None without a verdict.
    """

    task: Any
    rules: Rules

    def __init__(self, task: object, rules: Rules) -> None: ...

    @property
    def system_prompt(self) -> str: ...  # noqa: D102
    @property
    def prompt(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def turns(self) -> int: ...  # noqa: D102
    @property
    def reward(self) -> float: ...  # noqa: D102
    @property
    def ledgers(self) -> Sequence[Mapping[str, float]]: ...  # noqa: D102
    @property
    def done(self) -> bool: ...  # noqa: D102
    @property
    def needs_verdict(self) -> bool: ...  # noqa: D102
    @property
    def verdict(self) -> object: ...  # noqa: D102
    def step(self, text: str) -> Any: ...  # noqa: D102
    def grade(self, verdict: Any) -> object: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102
    def fork(self) -> Self: ...  # noqa: D102
    def record(self) -> Record: ...  # noqa: D102
    @classmethod
    def replay(cls, task: Any, record: Record) -> Self: ...  # noqa: D102


@dataclass(slots=True)
class Rollout:
    """One episode with its tokens.

    Attributes:
        group: number of the group, whose rollouts play the same task.
        member: index of the rollout within the group.
        session: the episode.
        prompt: token ids [p] of the prompt.
        response: token ids [r] after the prompt: sampled turns and tool replies.
        sampled: bool [r], True for tokens that the policy sampled.
        logprobs: the sampler's log-probabilities [r]; 0 for tokens that were not sampled.
        versions: optimizer step [r] of the weights that sampled each token, or `NOT_SAMPLED`.
        earned: with credit by edit, the terms that each turn earned, see `drafts.earned`.
        comparison: reward term `COMPARISON`, see `comparisons.compare`; None without a comparison.
        hinted: bad turns, each with an additional context that has a hint, see `feedback`.
        teacher: log-probabilities [r] of a teacher on a server, see `teacher`; empty without one.
        before: if a resumed run plays the rollout again, its session before the interruption.
        error: error that caused the episode to be dropped; None if the episode is kept.
        env: name of the environment in a run of several; empty in a run of one.
    """

    group: int
    member: int
    session: PlayableSession
    prompt: list[int]
    response: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    earned: Sequence[Mapping[str, float]] | None = None
    comparison: float | None = None
    hinted: tuple[Hinted, ...] = ()
    teacher: Sequence[float] = ()
    before: PlayableSession | None = None
    error: Exception | None = None
    env: str = ""

    @property
    def reward(self) -> float:
        """Reward of the session, plus the term `COMPARISON` if there is one."""
        return self.session.reward + (self.comparison or 0.0)

    def append_observation(self, ids: Sequence[int]) -> None:
        """Append tokens that the policy did not sample."""
        self.response += ids
        self.sampled += [False] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.versions += [NOT_SAMPLED] * len(ids)

    def recall(self) -> None:
        """Reuse the verdict of `before` if the texts are equal, since a verdict may cost money."""
        session, before = self.session, self.before
        if before and before.verdict and session.needs_verdict and session.text == before.text:
            session.grade(before.verdict)

    def sample(self) -> Sample:
        """Return the training sample of this rollout, with all advantages set to 0."""
        lists = self.prompt, self.response, self.sampled, self.logprobs
        return Sample(self.group, *lists, [0.0] * len(self.response), self.hinted, self.teacher)

    def record(self) -> Record:
        """Return the rollout as JSON values, which `restored` reads."""
        tokens = {name: getattr(self, name) for name in _TOKENS}
        key = {"group": self.group, "member": self.member}
        earned = {} if self.earned is None else {"earned": self.earned}
        # not in "reward" and "ledger", which can be compared across groups
        compared = {} if self.comparison is None else {COMPARISON: self.comparison}
        named = {"env": self.env} if self.env else {}
        return {**key, **named, **self.session.record(), **earned, **compared, "tokens": tokens}

    def restored(self, record: Record) -> Self:
        """Return a copy of this unplayed rollout that has the tokens and the actions of a record.

        Raises:
            ValueError: the record has another environment, task or prompt, its replay has another
                result, or a list in its `tokens` has a wrong length or an invalid value.
        """
        if record.get("env", "") != self.env:
            raise ValueError(f"expected env {self.env!r}, got {record.get('env', '')!r:.80}")
        session = self.session.replay(self.session.task, record)
        tokens = record["tokens"]
        if tokens["prompt"] != self.prompt:
            raise ValueError(f"{record['task_id']}: the stored prompt differs from this run's")
        length = len(tokens["response"])
        for name, is_valid in _TOKENS.items():
            values = tokens[name]
            if not all(map(is_valid, values)):
                raise ValueError(f"{name}: expected valid values, got {values!r:.40}")
            if name != "prompt" and len(values) != length:
                raise ValueError(f"{name}: expected {length} values, got {len(values)}")
        compared = record.get(COMPARISON)
        if compared is not None and not is_finite(compared):
            raise ValueError(f"{COMPARISON}: expected a finite number, got {compared!r}")
        earned = record.get("earned")
        return replace(self, session=session, earned=earned, comparison=compared, **tokens)


@contextmanager
def environment() -> Iterator[None]:
    """Turn any exception of an environment into an EpisodeError."""
    try:
        yield
    except Exception as error:
        raise EpisodeError(f"{type(error).__name__}: {error}") from error


Generate = Callable[[int, Sequence[int], Sampling], Awaitable[Completion]]
"""Type of `Engine.generate`."""
_TOKENS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("prompt", "response"), lambda token: type(token) is int and token >= 0),
    "sampled": lambda value: type(value) is bool,
    "logprobs": is_finite,
    "versions": lambda version: type(version) is int and version >= NOT_SAMPLED,
}
"""For each list in a record's "tokens", the function that checks a value in this list."""


async def play(
    rollout: Rollout, key: int, generate: Generate, chat: ChatTokens, sampling: Sampling
) -> None:
    """Play an episode to its end, without grading it.

    Args:
        rollout: the unplayed rollout, filled in place.
        key: identifies the conversation to the engine; unique among concurrent episodes.
        generate: the engine's `generate` method.
        chat: encodes and decodes the messages of the conversation.
        sampling: sampling parameters; the turn number is appended to their seed in each turn.

    Raises:
        EngineError: the engine returned no tokens.
        EpisodeError: the environment failed.
    """
    session = rollout.session
    while True:
        turn = replace(sampling, seed=(*sampling.seed, session.turns))
        completion = await generate(key, rollout.prompt + rollout.response, turn)
        rollout.response += completion.ids
        rollout.sampled += [True] * len(completion.ids)
        rollout.logprobs += completion.logprobs
        rollout.versions += completion.versions
        with environment():
            step = session.step(chat.read(completion.ids))
            reply = () if step.done else chat.reply(step.observation)
        if step.done:
            return
        # A turn that reached the token limit, or ended with another end token, lacks the template's
        # end token. The added end token counts as not sampled, so it is not in the loss.
        if completion.ids[-1] != chat.end:
            rollout.append_observation([chat.end])
        rollout.append_observation(reply)
