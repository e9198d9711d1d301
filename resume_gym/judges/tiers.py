"""Tiered judge: cheap local judges for clear groups, and a frontier judge for doubtful groups.

One tier judges all members of a group. If two tiers judged members of the same group, the
difference in strictness between the tiers would enter the advantages, and a policy would learn to
write for the more lenient tier.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256

from resume_gym.episode.rewards import VERDICT_FIELDS, Verdict
from resume_gym.episode.tasks import Task
from resume_gym.judges import (
    JudgeMisconfigured,
    JudgeUnavailable,
    Outcome,
    as_async,
    make_judge,
)
from resume_gym.judges.votes import GroupJudge, drawn

_log = logging.getLogger(__name__)


class Tiers(GroupJudge):
    """Judge with three tiers: vetoes, local judges, and a frontier judge for doubtful groups.

    A member of a group is doubtful if the local judges disagree on a field, if none of them is
    confident of a field, or if one of them refuses the member or gives a malformed answer. By
    default, one doubtful member sends its group to the frontier judge; any other group is clear. A
    hash of seed, task and texts selects a share of the clear groups for audits. Both tiers judge an
    audited group: the verdicts of the frontier judge count, and the log states how often the tiers
    have agreed so far. A vetoed member keeps the veto's verdict and does not affect which judge
    grades the group.

    An unreachable judge is not replaced. If the frontier judge fails on a member, the member gets
    the error; if a local judge is unreachable or misconfigured, all members of the group get its
    error. A retry of the whole group goes to the same tier.

    Args:
        local: one or more specifications for `make_judge`; the first judge gives the verdicts.
        frontier: specification of the more accurate judge.
        audit: share of clear groups to audit, in [0, 1].
        confidence: minimum confidence, in [0, 1], that at least one local judge must have in each
            field; a missing confidence counts as 0.
        seed: random seed for the selection of the audited groups.
        tolerate: maximum share of doubtful members, in [0, 1], in a group that the local judges
            grade; if the first local judge fails on a member, the member gets the error. With
            the rubric as local judge, nearly every group of 16 has a doubtful member.

    Raises:
        ValueError: there is no local judge, or a number is not in [0, 1].
    """

    def __init__(
        self,
        local: str | Mapping[str, object] | Sequence[str | Mapping[str, object]],
        frontier: str | Mapping[str, object],
        audit: float = 0.05,
        confidence: float = 0.7,
        seed: int = 0,
        tolerate: float = 0.0,
    ) -> None:
        shares = {"audit": audit, "confidence": confidence, "tolerate": tolerate}
        for what, share in shares.items():
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise ValueError(f"tiers: {what}: expected a number in [0, 1], got {share!r}")
        specs = [local] if isinstance(local, str | Mapping) else list(local)
        if not specs:
            raise ValueError("tiers: local: expected at least one judge, got none")
        self._locals = [as_async(make_judge(spec)) for spec in specs]
        self._frontier = as_async(make_judge(frontier))
        self.parts = (*self._locals, self._frontier)
        self._audit, self._confidence, self._tolerate = audit, confidence, tolerate
        self._seed = seed
        names = " + ".join(judge.name for judge in self._locals)
        self.name = f"tiers({names}, {self._frontier.name})"
        self._audited, self._agreed = 0, Counter[str]()

    async def _judge_together(self, task: Task, texts: Sequence[str], draw: int) -> list[Outcome]:
        groups = (drawn(judge, draw).averdicts(task, texts) for judge in self._locals)
        members = list(zip(*await asyncio.gather(*groups), strict=True))
        # If a local judge is unavailable, the whole group fails: without the judge's verdicts, the
        # group might go to a different tier than in a retry.
        for kind in (JudgeMisconfigured, JudgeUnavailable):
            if failed := next((o for m in members for o in m if isinstance(o, kind)), None):
                return [failed] * len(texts)
        doubtful = sum(map(self._doubts, members)) > self._tolerate * len(members)
        if not doubtful and not self._drawn(task, texts):
            return [first for first, *_ in members]
        outcomes = await drawn(self._frontier, draw).averdicts(task, texts)
        if not doubtful:
            self._record([first for first, *_ in members], outcomes)
        return outcomes

    def _doubts(self, outcomes: Sequence[Outcome]) -> bool:
        """Return whether a member is doubtful, given the outcomes of the local judges."""
        verdicts = [outcome for outcome in outcomes if isinstance(outcome, Verdict)]
        return len(verdicts) < len(outcomes) or any(
            len({getattr(verdict, field) for verdict in verdicts}) > 1
            or max(verdict.confidence.get(field, 0.0) for verdict in verdicts) < self._confidence
            for field in VERDICT_FIELDS
        )

    def _drawn(self, task: Task, texts: Sequence[str]) -> bool:
        """Return whether to audit the group; the order of its members does not matter."""
        key = json.dumps([self._seed, task.task_id, *sorted(texts)])
        # A hash chooses the groups to audit, so that the choice is the same when a group is judged
        # again.
        return int.from_bytes(sha256(key.encode()).digest()[:8], "big") < self._audit * 2**64

    def _record(self, local: Sequence[Outcome], frontier: Sequence[Outcome]) -> None:
        both = [
            (one, other)
            for one, other in zip(local, frontier, strict=True)
            if isinstance(one, Verdict) and isinstance(other, Verdict)
        ]
        if both:
            self._audited += len(both)
            for field in VERDICT_FIELDS:
                self._agreed[field] += sum(getattr(a, field) == getattr(b, field) for a, b in both)
            total = self._audited
            shares = ", ".join(f"{field} {n / total:.1%}" for field, n in self._agreed.items())
            _log.info("%s: agreement on %d audited revisions: %s", self.name, total, shares)
