"""The rollouts of a training step, which the orchestrator passes to the trainer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

import torch
from torch import Tensor

from learners.errors import RunStopped
from learners.rollouts.measures import hacking
from learners.rollouts.rollout import NOT_SAMPLED, Rollout
from learners.training.rows import Sample
from resume_gym.evaluation import Returns
from resume_gym.llm import Usage


@dataclass(frozen=True)
class Batch:
    """The n graded rollouts of a training step.

    Attributes:
        step: number of the step, from 1.
        rollouts: rollouts of all groups that were neither dropped nor replaced, group by group.
        summary: reward and other statistics of all episodes in `rollouts`.
        dropped_episodes: number of episodes that are not in `rollouts` because the engine, the
            judge or the environment failed.
        dropped_groups: number of groups that were dropped for having too few graded episodes.
        lag_s: maximum delay of the event loop in seconds while the episodes were played.
        judge_usage: tokens and cost of a model judge in this process; None for other judges.
        replaced: groups whose rewards are all equal, and which spare groups have replaced (see
            `Curriculum`).
        level: highest level of difficulty that can be drawn; None without `LadderCurriculum`.
        measures: further metrics, such as those of `measures.measures`, of comparisons, of the
            second judge and of the method `without`.
    """

    step: int
    rollouts: Sequence[Rollout]
    summary: Returns
    dropped_episodes: int
    dropped_groups: int
    lag_s: float
    judge_usage: Usage | None
    replaced: Sequence[Sequence[Rollout]] = ()
    level: int | None = None
    measures: Mapping[str, float] = field(default_factory=dict)

    def without(self, hacks: Collection[str]) -> "Batch":
        """Return a copy without the rollouts that show one of `hacks`; `summary` is unchanged.

        Args:
            hacks: names of hacks, which are keys of `measures.HACKS`.

        Raises:
            RunStopped: every rollout shows one of `hacks`, so none is left.
        """
        if not hacks:
            return self
        shown = hacking(self.rollouts, hacks)
        kept = [one for one, hacked in zip(self.rollouts, shown, strict=True) if not hacked]
        if not kept:
            raise RunStopped(
                f"step {self.step}: all episodes show a hack ({' or '.join(sorted(hacks))}); with "
                "on_hack = drop, no episode is left to train on"
            )
        return replace(
            self, rollouts=kept, measures={**self.measures, "hacked_episodes": sum(shown)}
        )

    @property
    def rewards(self) -> Tensor:
        """Reward of each rollout [n], summed over its turns, with the term "comparison"."""
        return torch.tensor([rollout.reward for rollout in self.rollouts])

    @property
    def groups(self) -> Tensor:
        """Group number of each rollout [n]."""
        return torch.tensor([rollout.group for rollout in self.rollouts])

    @property
    def turns(self) -> list[int]:
        """Number of turns of each of the n rollouts."""
        return [rollout.session.turns for rollout in self.rollouts]

    @property
    def earned(self) -> list[list[float]]:
        """For each of the n rollouts, what each of its turns earned, with credit by edit.

        The last turn also has the term "comparison", which thus is in the return of every turn.
        """
        turns = [[sum(turn.values()) for turn in one.earned or ()] for one in self.rollouts]
        for own, rollout in zip(turns, self.rollouts, strict=True):
            if rollout.comparison is not None:
                own[-1] += rollout.comparison
        return turns

    @property
    def response_tokens(self) -> int:
        """Number of tokens after the prompts: sampled tokens and tokens from the environment."""
        return sum(len(rollout.response) for rollout in self.rollouts)

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the step: rewards, behaviour, tokens, staleness and cost of the judge."""
        rollouts, usage = self.rollouts, self.judge_usage
        # number of optimizer steps between the weights that sampled a token and the current weights
        ages = [self.step - 1 - v for r in rollouts for v in r.versions if v != NOT_SAMPLED]
        figures = {
            **self.summary.metrics(),
            **self.measures,
            "tasks": self.summary.tasks,
            "turns": fmean(rollout.session.turns for rollout in rollouts),
            "sampled_tokens": sum(sum(rollout.sampled) for rollout in rollouts),
            "tokens": sum(len(rollout.prompt) + len(rollout.response) for rollout in rollouts),
            "staleness": fmean(ages),
            "staleness_max": max(ages),
            "dropped_episodes": self.dropped_episodes,
            "dropped_groups": self.dropped_groups,
            "replaced_groups": len(self.replaced),
            "replaced_tokens": sum(sum(one.sampled) for group in self.replaced for one in group),
            "seconds_lag": self.lag_s,
        }
        if self.level is not None:
            figures["level"] = self.level
        if usage is not None:
            costs = {"judge_tokens": usage.tokens, "judge_dollars": usage.dollars}
            figures |= {name: value for name, value in costs.items() if value is not None}
        return figures

    def samples(self, advantages: Sequence[Sequence[float]], hinted: bool = False) -> list[Sample]:
        """Return the training samples, given the advantages of each rollout's turns.

        Args:
            advantages: for each of the n rollouts, the advantages of its turns.
            hinted: whether the samples keep their additional contexts with hints.
        """
        pairs = zip(self._samples, advantages, strict=True)
        samples = [sample.credited(turns) for sample, turns in pairs]
        return samples if hinted else [replace(sample, hinted=()) for sample in samples]

    @cached_property
    def _samples(self) -> list[Sample]:
        """The n rollouts as training samples, without advantages; built once."""
        return [rollout.sample() for rollout in self.rollouts]
