"""Tiers: a cheap judge for what is clear, a better one for what is not, and spot checks.

All members of a group are judged by the same tier. If each went its own way, the tiers' different
habits would be part of the advantage, and a policy would learn to be sent to the kinder one.
"""

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from resume_gym.judges import (
    JudgeError,
    JudgeMisconfigured,
    JudgeUnavailable,
    as_async,
    make_judge,
)
from resume_gym.judges.vetoes import veto
from resume_gym.judges.votes import Composed, drawn
from resume_gym.rewards import VERDICT_FIELDS, Verdict
from resume_gym.tasks import Task

_AUDITS_KEPT = 1000
_log = logging.getLogger(__name__)

Said = Verdict | JudgeError


@dataclass(frozen=True, slots=True)
class Audit:
    """A group that was clear to the local judges, and went to the frontier judge all the same.

    Attributes:
        task_id: of its task.
        members: those on which both tiers gave a verdict.
        agreed: by field: on how many of them both said the same.
    """

    task_id: str
    members: int
    agreed: Mapping[str, int]


class Tiers(Composed):
    """Vetoes, then local judges, then for doubtful groups a frontier judge.

    A member is in doubt if the local judges disagree in a field, if none of them is sure of it, or
    if one of them refuses the member or says nothing that can be read; by default one such member
    sends its group to the frontier judge. Of the groups that stay, a share is audited: drawn by a
    hash of seed, task and texts, judged by both tiers, and given the frontier judge's verdicts. A
    member that a veto settles keeps the veto's verdict and has no say in this.

    Nobody stands in for a judge that cannot be reached. Without the frontier judge the members
    that are his are errors; without a local judge, the whole group. Ask again for the whole group,
    then it takes the same way.

    Args:
        local: one or more judges for `make_judge`; the verdict is that of the first.
        frontier: the judge to believe.
        audit: share of clear groups to audit, in [0, 1].
        confidence: the least at which a judge is sure of a field; one that states none is not.
        seed: of the audits' draw.
        tolerate: share of a group's members that may be in doubt while it stays, in [0, 1]. With
            the rubric as the local judge nearly every group of 16 has one. One that a local judge
            refused has no verdict then.

    Each audit logs how far the tiers agree by now.

    Attributes:
        audits: the latest, at most 1,000.
        judged: how many members each of "veto", "local" and "frontier" has judged.

    Raises:
        ValueError: there is no local judge, or a number is not in [0, 1].
    """

    grouped = True

    def __init__(
        self,
        local: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        frontier: str | Mapping[str, Any],
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
        self.audits: deque[Audit] = deque(maxlen=_AUDITS_KEPT)
        self.judged: Counter[str] = Counter()

    @property
    def agreement(self) -> dict[str, float]:
        """By field: the share of audited members on which the tiers agree; empty before any."""
        audits = list(self.audits)
        members = sum(one.members for one in audits)
        if not members:
            return {}
        agreed = {field: sum(one.agreed[field] for one in audits) for field in VERDICT_FIELDS}
        return {field: count / members for field, count in agreed.items()}

    async def averdict(self, task: Task, revised: str, draw: int = 0) -> Verdict:
        """The verdict on a group of one; see `AsyncJudge`."""
        (said,) = await self.averdicts(task, [revised], draw)
        if isinstance(said, JudgeError):
            raise said
        return said

    async def averdicts(self, task: Task, group: Sequence[str], draw: int = 0) -> list[Said]:
        """The verdicts of one tier on all; see `AsyncJudge`."""
        vetoes = await asyncio.to_thread(lambda: [veto(task, revised) for revised in group])
        texts = [text for text, vetoed in zip(group, vetoes, strict=True) if vetoed is None]
        self.judged["veto"] += len(group) - len(texts)
        said = iter(await self._in_tiers(task, texts, draw) if texts else ())
        return [next(said) if vetoed is None else vetoed for vetoed in vetoes]

    async def _in_tiers(self, task: Task, texts: Sequence[str], draw: int) -> list[Said]:
        asked = (drawn(judge, draw).averdicts(task, texts) for judge in self._locals)
        members = list(zip(*await asyncio.gather(*asked), strict=True))
        for kind in (JudgeMisconfigured, JudgeUnavailable):
            if failed := next((o for m in members for o in m if isinstance(o, kind)), None):
                return [failed] * len(texts)
        doubtful = sum(map(self._doubts, members)) > self._tolerate * len(members)
        if not doubtful and not self._drawn(task, texts):
            self.judged["local"] += len(texts)
            return [first for first, *_ in members]
        said = await drawn(self._frontier, draw).averdicts(task, texts)
        self.judged["frontier"] += sum(isinstance(one, Verdict) for one in said)
        if not doubtful:
            self._record(task, [first for first, *_ in members], said)
        return said

    def _doubts(self, said: Sequence[Said]) -> bool:
        """Whether what the local judges say of one member leaves a field open."""
        verdicts = [one for one in said if isinstance(one, Verdict)]
        return len(verdicts) < len(said) or any(
            len({getattr(one, field) for one in verdicts}) > 1
            or max(one.confidence.get(field, 0.0) for one in verdicts) < self._confidence
            for field in VERDICT_FIELDS
        )

    def _drawn(self, task: Task, texts: Sequence[str]) -> bool:
        """Whether the group is audited; its order does not matter."""
        key = json.dumps([self._seed, task.task_id, *sorted(texts)])
        return int.from_bytes(sha256(key.encode()).digest()[:8], "big") < self._audit * 2**64

    def _record(self, task: Task, local: Sequence[Said], frontier: Sequence[Said]) -> None:
        pairs = [
            (one, other)
            for one, other in zip(local, frontier, strict=True)
            if isinstance(one, Verdict) and isinstance(other, Verdict)
        ]
        agreed = {
            field: sum(getattr(one, field) == getattr(other, field) for one, other in pairs)
            for field in VERDICT_FIELDS
        }
        if pairs:
            self.audits.append(Audit(task.task_id, len(pairs), agreed))
            members = sum(one.members for one in list(self.audits))
            shares = ", ".join(f"{field} {part:.1%}" for field, part in self.agreement.items())
            _log.info("%s: the tiers agree on %d audited: %s", self.name, members, shares)
