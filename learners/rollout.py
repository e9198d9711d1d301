"""One episode as tokens: a session and an engine take turns, token in, token out."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from learners.batching import Sample
from learners.engines import Completion, Sampling
from learners.text_env import TextSession
from learners.tokens import ChatTokens
from resume_gym import EditSession

AnySession = EditSession[Any, Any] | TextSession
"""An episode: of editing, or of any environment of texts."""
NOT_SAMPLED = -1
"""The version of a token that no policy has sampled."""


@dataclass(slots=True)
class Rollout:
    """One episode and its tokens.

    Attributes:
        group: rollouts of one group play the same task.
        member: its number in the group.
        session: the episode.
        prompt: token ids [p].
        response: token ids [r] after the prompt: sampled turns and tool replies.
        sampled: bool [r], True where the policy sampled.
        logprobs: [r], the sampler's; 0 elsewhere.
        versions: [r], optimizer steps behind the weights that sampled; `NOT_SAMPLED` elsewhere.
        before: the session as an interrupted run has left it; this one plays it again.
    """

    group: int
    member: int
    session: AnySession
    prompt: list[int]
    response: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    before: AnySession | None = None

    def hear(self, ids: Sequence[int]) -> None:
        """Append tokens that were not sampled."""
        self.response += ids
        self.sampled += [False] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.versions += [NOT_SAMPLED] * len(ids)

    def recall(self) -> None:
        """Take the verdict from before, if it was on the same text: it may have cost money."""
        session, before = self.session, self.before
        if isinstance(session, EditSession) and isinstance(before, EditSession):
            verdict = before.state.verdict
            if verdict and session.needs_verdict and session.text == before.text:
                session.grade(verdict)

    def sample(self, advantage: float) -> Sample:
        """What the trainer needs of this rollout."""
        lists = self.prompt, self.response, self.sampled, self.logprobs
        return Sample(self.group, *lists, advantage)

    def record(self) -> dict[str, Any]:
        """The rollout as JSON values, from which `restored` makes it again."""
        tokens = {name: getattr(self, name) for name in _TOKENS}
        key = {"group": self.group, "member": self.member}
        return {**key, **self.session.record(), "tokens": tokens}

    def restored(self, record: Mapping[str, Any]) -> Self:
        """This rollout, which has not been played, as a record says that it was.

        Raises:
            ValueError: the record is of another task or prompt, or comes out differently.
        """
        kind: Any = type(self.session)
        session = kind.replay(self.session.task, record)
        if record["tokens"]["prompt"] != self.prompt:
            raise ValueError(f"{record['task_id']}: the prompt's tokens are others")
        return replace(self, session=session, **record["tokens"])


Generate = Callable[[int, Sequence[int], Sampling], Awaitable[Completion]]
"""`Engine.generate`."""
_TOKENS = ("prompt", "response", "sampled", "logprobs", "versions")


async def play(
    rollout: Rollout, key: int, generate: Generate, chat: ChatTokens, sampling: Sampling
) -> None:
    """Play an episode to its end; nobody has graded it then.

    Args:
        rollout: not played yet.
        key: names the conversation; no other that is played at the same time has it.
        generate: an engine's.
        chat: turns texts into tokens and back.
        sampling: of the episode; each turn's seed ends with its number.

    Raises:
        EngineError: no tokens could be had.
    """
    session = rollout.session
    while True:
        turn = replace(sampling, seed=(*sampling.seed, session.turns))
        said = await generate(key, rollout.prompt + rollout.response, turn)
        rollout.response += said.ids
        rollout.sampled += [True] * len(said.ids)
        rollout.logprobs += said.logprobs
        rollout.versions += said.versions
        step = session.step(chat.read(said.ids))
        if step.done:
            return
        if said.ids[-1] != sampling.stop:  # cut off: the template still wants the end
            rollout.hear([sampling.stop])
        rollout.hear(chat.reply(step.observation))
