"""Sessions x engine -> rollouts: token in, token out, one turn of all live sessions at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from learners.batching import Sample
from learners.engines import Engine, Request, Sampling
from learners.tokens import ChatTokens
from resume_gym import Rules, Session, Task
from resume_gym.judges import Judge


@dataclass(slots=True)
class Rollout:
    """One episode and its tokens.

    Attributes:
        group: rollouts of one group play the same task.
        session: the episode.
        prompt: token ids [p].
        response: token ids [r] after the prompt: sampled turns and tool replies.
        sampled: bool [r], True where the policy sampled.
        logprobs: [r], the sampler's; 0 elsewhere.
    """

    group: int
    session: Session
    prompt: list[int]
    response: list[int] = field(default_factory=list)
    sampled: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def add(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> None:
        """Append sampled tokens, or, without log-probabilities, others."""
        self.response += ids
        self.sampled += [logprobs is not None] * len(ids)
        self.logprobs += [0.0] * len(ids) if logprobs is None else logprobs

    def sample(self, advantage: float) -> Sample:
        """What the trainer needs of this rollout."""
        lists = self.prompt, self.response, self.sampled, self.logprobs
        return Sample(self.group, *lists, advantage)


def play(
    tasks: Sequence[Task],
    rules: Rules,
    engine: Engine,
    chat: ChatTokens,
    judge: Judge,
    sampling: Sampling,
    at_once: int = 128,
) -> list[Rollout]:
    """Play one episode a task and have each graded; equal neighbours form a group.

    Args:
        tasks: one for each episode, repeated for the members of a group.
        rules: the limits of an episode.
        engine: samples.
        chat: turns texts into tokens and back.
        judge: grades the final documents.
        sampling: its seed is of this call; every turn and chunk derives its own.
        at_once: episodes that run side by side.

    Raises:
        JudgeError: no verdict could be had; a failure never becomes a number.
    """
    rollouts: list[Rollout] = []
    for task in tasks:
        last = rollouts[-1] if rollouts else None
        same = last is not None and last.session.task is task
        group = last.group + (not same) if last else 0
        session = Session(task, rules)
        prompt = (
            last.prompt if last and same else chat.prompt(session.system_prompt, session.prompt)
        )
        rollouts.append(Rollout(group, session, prompt))
    for first in range(0, len(rollouts), at_once):
        seed = sampling.seed + first * rules.max_turns
        _play(rollouts[first : first + at_once], engine, chat, sampling, seed)
    for one in rollouts:
        if one.session.needs_verdict:
            one.session.grade(judge.judge(one.session.task, one.session.resume))
    return rollouts


def _play(
    rollouts: Sequence[Rollout], engine: Engine, chat: ChatTokens, sampling: Sampling, seed: int
) -> None:
    live = dict(enumerate(rollouts))
    turn = 0
    while live:
        requests = [Request(key, one.prompt + one.response) for key, one in live.items()]
        per_turn = Sampling(sampling.temperature, sampling.max_tokens, sampling.stop, seed + turn)
        done = []
        for (key, one), said in zip(live.items(), engine.generate(requests, per_turn), strict=True):
            one.add(said.ids, said.logprobs)
            step = one.session.step(chat.read(said.ids))
            if step.done:
                done.append(key)
                continue
            if said.ids[-1] != sampling.stop:  # cut off: the template still wants the end
                one.add([sampling.stop])
            one.add(chat.reply(step.observation))
        engine.release(done)
        for key in done:
            del live[key]
        turn += 1
